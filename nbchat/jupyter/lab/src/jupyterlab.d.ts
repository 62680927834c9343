// What is used of JupyterLab's modules, which the page provides when it runs. Their own
// types would be 370 MB of packages.

interface Signal<Sender = unknown, Value = unknown> {
  connect(react: (sender: Sender, value: Value) => void, self?: object): void;
}

interface Kernel {
  id: string;
  status: string;
  username: string;
  clientId: string;
  supportsSubshells?: boolean; // new in JupyterLab 4.4
  info: Promise<{ language_info: { name: string } }>;
  requestCreateSubshell(content: object): { done: Promise<{ content: { subshell_id?: string } } | undefined> };
  requestDeleteSubshell(content: { subshell_id: string }, disposes: boolean): unknown;
  sendShellMessage(message: object, expectsReply: boolean): { done: Promise<{ content: ExecuteReply }> };
  requestCommInfo(content: { target_name: string }): Promise<unknown>;
  registerCommTarget(name: string, react: (comm: Comm) => void): void;
}

interface Comm {
  send(data: object): unknown;
}

interface ExecuteReply {
  status: string;
  user_expressions?: Record<string, Result>;
}

type Result =
  | { status: "ok"; data: { "text/plain": string } }
  | { status: "error"; ename: string; evalue: string };

interface SessionContext {
  ready: Promise<void>;
  session: { kernel: Kernel | null } | null;
  kernelChanged: Signal;
  statusChanged: Signal<unknown, string>;
}

interface Widget {
  id: string;
  node: HTMLElement;
  title: { icon?: unknown; caption: string; label: string };
  isVisible: boolean;
  isHidden: boolean;
  isDisposed: boolean;
  disposed: Signal;
  dispose(): void;
  hide(): void;
  show(): void;
}

interface Cell {
  node: HTMLElement;
  model: {
    id: string;
    type: string;
    executionCount?: number | null;
    sharedModel: { source: string };
  };
}

interface Renderer extends Widget {
  renderModel(model: { data: Record<string, unknown> }): Promise<void>;
}

interface OutputArea {
  widgets: readonly { children(): Iterable<Widget & Partial<Renderer>> }[];
  model: { get(index: number): { data: Record<string, unknown> } };
}

interface NotebookPanel extends Widget {
  sessionContext: SessionContext;
  content: {
    widgets: readonly { outputArea?: OutputArea }[]; // cells
    activeCell: Cell | null;
    activeCellChanged: Signal;
    activeCellIndex: number;
    model: { sharedModel: { insertCell(index: number, cell: object): void } } | null;
    rendermime: {
      createRenderer(mime: string): Renderer;
      createModel(options: { data: object; trusted: boolean }): { data: Record<string, unknown> };
    };
  };
}

interface Tracker {
  currentWidget: NotebookPanel | null;
  currentChanged: Signal;
  widgetAdded: Signal<unknown, NotebookPanel>;
  forEach(visit: (notebook: NotebookPanel) => void): void;
}

interface Factory {
  createRenderer(options: { mimeType: string }): Renderer;
}

interface RenderMimeRegistry {
  getFactory(mime: string): Factory | undefined;
  addFactory(factory: Factory & { safe: boolean; mimeTypes: string[] }, rank: number): void;
}

interface KeyBinding {
  command: string;
  keys: readonly string[];
}

interface Commands {
  addCommand(id: string, options: object): void;
  execute(id: string, values?: object): Promise<unknown>;
  keyBindings: readonly KeyBinding[];
}

interface App {
  commands: Commands;
  shell: {
    add(widget: Widget, area: string, options: { rank: number }): void;
    activateById(id: string): void;
    collapseRight(): void;
  };
}

declare module "@jupyterlab/application" {
  export const ILayoutRestorer: unknown;
}
declare module "@jupyterlab/apputils" {
  export const ICommandPalette: unknown;
}
declare module "@jupyterlab/notebook" {
  export const INotebookTracker: unknown;
  export const NotebookActions: { executed: Signal<unknown, { notebook: NotebookPanel["content"] }> };
}
declare module "@jupyterlab/rendermime" {
  export const IRenderMimeRegistry: unknown;
}
declare module "@jupyterlab/services" {
  export const KernelMessage: { createMessage(options: object): object };
}
declare module "@jupyterlab/ui-components" {
  export class LabIcon {
    constructor(options: { name: string; svgstr: string });
  }
}
declare module "@lumino/commands" {
  export const CommandRegistry: { keystrokeForKeydownEvent(event: KeyboardEvent): string };
}
declare module "@lumino/widgets" {
  export class Widget {
    constructor(options?: { node: HTMLElement });
    id: string;
    node: HTMLElement;
    title: { icon?: unknown; caption: string; label: string };
    isVisible: boolean;
    isHidden: boolean;
    isDisposed: boolean;
    disposed: Signal;
    addClass(name: string): void;
    dispose(): void;
    hide(): void;
    show(): void;
    protected onAfterShow(message: object): void;
    protected onActivateRequest(message: object): void;
  }
  export class Panel extends Widget {
    addWidget(widget: object): void;
  }
}
