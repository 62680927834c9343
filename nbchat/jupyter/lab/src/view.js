// The chat of one notebook: its panel, or a line that says why there is none.

import { Panel, Widget } from "@lumino/widgets";
import { openChat } from "./kernel.js";

const WIDGET = "application/vnd.jupyter.widget-view+json";
const TARGET = "nbchat-side"; // of the kernel's messages, as in nbchat.jupyter.kernel_chat
const PATIENCE_MILLISECONDS = 1500; // until a line says what an opening waits for

// ipywidgets 8.1 asks for a model for two seconds. What comes in the last tenth of a second
// of these it doesn't see, and says for good that it's not there.
const NOT_SHOWN = "Error displaying widget";
const GIVEN_UP = `${NOT_SHOWN}: model not found`;
const GIVEN_UP_MILLISECONDS = 2500;

/** @type {Record<string, string>} */
const INTERRUPTED = {
  restarting: "The kernel is restarting.",
  autorestarting: "The kernel stopped and is starting again.",
  terminating: "The kernel is shutting down.",
  dead: "The kernel has stopped.",
};

/** @type {Record<string, string>} */
const WAITING = {
  busy: "The kernel is running a cell. The chat opens when it's done.",
  starting: "The kernel is starting.",
  unknown: "The kernel is starting, or running a cell. The chat opens when it's ready.",
};

const LINES = {
  nbchat: {
    text: "nbchat isn't installed in this notebook's kernel. Run this line in a cell:",
    code: "%pip install jupyter-nbchat",
  },
  newer: {
    text: "This notebook's kernel has an older nbchat. Run this line in a cell, then restart the kernel:",
    code: "%pip install --upgrade jupyter-nbchat",
  },
};

/** @typedef {"choose" | "restart" | "again" | "reopen" | "insert"} Action */

/** @type {Record<Action, string>} */
const LABELS = { choose: "Choose a kernel", restart: "Restart the kernel", again: "Try again", reopen: "Open it again", insert: "Add to the notebook" };

export class ChatView extends Panel {
  /** @param {NotebookPanel} notebook @param {Commands} commands */
  constructor(notebook, commands) {
    super();
    this.notebook = notebook;
    this.commands = commands;
    this.note = new Widget();
    /** @type {string | null} */
    this.shownFor = null; // id of the kernel whose chat is shown
    /** @type {Renderer | null} */
    this.chat = null;
    this.attempt = 0;
    this.isInterrupted = false; // the kernel has ended since the chat was opened
    this.isSettled = false; // the widgets of the notebook are restored in this page
    /** @type {Promise<void> | null} */
    this.settling = null; // while they are
    this.wantsFocus = false;
    this.addClass("nbchat-view");
    this.note.addClass("nbchat-note");
    this.addWidget(this.note);
    this.node.dataset.notebook = notebook.id;
    this.follow();
  }

  follow() {
    const { sessionContext, content } = this.notebook;
    const noteCell = () => (this.node.dataset.cell = content.activeCell?.model.id ?? "");
    content.activeCellChanged.connect(noteCell, this);
    noteCell();
    sessionContext.kernelChanged.connect(() => this.kernelChanged(), this);
    sessionContext.statusChanged.connect((_, status) => this.statusChanged(status), this);
    this.statusChanged(this.kernel?.status ?? "unknown");
    this.notebook.disposed.connect(() => this.dispose(), this);
  }

  kernelChanged() {
    this.isSettled = false;
    if (this.isVisible) void this.open();
  }

  /** @param {string} status */
  statusChanged(status) {
    if (INTERRUPTED[status]) {
      this.attempt += 1;
      this.isInterrupted = true;
      this.isSettled = false;
      this.forget(INTERRUPTED[status], status === "dead" ? ["restart"] : []);
    }
    if (status !== "idle") return;
    void this.settle();
    // Not at each idle: our own request ends in one.
    if (this.isInterrupted && this.isVisible) void this.open();
  }

  /** Once for each kernel: wait until the widgets of the notebook are restored. */
  async settle() {
    const { kernel } = this;
    if (!kernel || this.isSettled) return;
    this.settling ??= this.restored(kernel).finally(() => (this.settling = null));
    await this.settling;
  }

  // While JupyterLab restores the widgets of a notebook, a request on a subshell would mix
  // up their replies, and all would be dead. It asks the kernel twice, as is done here.
  /** @param {Kernel} kernel */
  async restored(kernel) {
    this.listen(kernel);
    try {
      const { language_info: language } = await kernel.info;
      const isOther = language.name !== "python";
      this.notebook.node.classList.toggle("nbchat-other-language", isOther);
      if (isOther) return;
      for (let round = 0; round < 2; round += 1) await kernel.requestCommInfo({ target_name: TARGET });
      this.isSettled = kernel === this.kernel;
      setTimeout(() => this.isDisposed || this.revive(), GIVEN_UP_MILLISECONDS);
    } catch {
      // canceled: the kernel ended
    }
  }

  /** Draw widgets of the notebook that were given up while they came. */
  revive() {
    for (const { outputArea } of this.notebook.content.widgets) {
      outputArea?.widgets.forEach((output, index) => {
        for (const renderer of output.children()) {
          if (renderer.node.textContent === GIVEN_UP) void renderer.renderModel?.(outputArea.model.get(index));
        }
      });
    }
  }

  get kernel() {
    return this.notebook.sessionContext.session?.kernel;
  }

  // A kernel says "idle" of any request, also while a cell runs.
  get isBusy() {
    const prompts = [...this.notebook.node.querySelectorAll(".jp-InputPrompt")];
    return this.kernel?.status === "busy" || prompts.some((each) => each.textContent?.includes("*"));
  }

  /** `%chat side` asks the page, which answers that it is open.
   * @param {Kernel} kernel
   */
  listen(kernel) {
    kernel.registerCommTarget(TARGET, (comm) => {
      void this.commands.execute("nbchat:open");
      comm.send({});
    });
  }

  // A cell was run, which may have installed nbchat
  cellRan() {
    if (this.isVisible && this.isHelpless) void this.open();
  }

  /** @param {object} message */
  onAfterShow(message) {
    super.onAfterShow(message);
    void this.open();
  }

  focus() {
    const box = /** @type {HTMLElement | null} */ (this.node.querySelector(".nbc-input"));
    this.wantsFocus = !box;
    box?.focus();
  }

  /** Show the chat of the notebook's kernel, if it is not shown. */
  async open() {
    const attempt = ++this.attempt;
    const isOld = () => attempt !== this.attempt || this.isDisposed;
    const { sessionContext } = this.notebook;
    // A dialog may ask for a kernel meanwhile.
    if (!this.shownFor) this.say("Waiting for the notebook's kernel.", ["choose"]);
    await sessionContext.ready;
    if (isOld()) return;
    const { kernel } = this;
    if (!kernel) return this.forget("This notebook has no kernel.", ["choose"]);
    if (this.shownFor === kernel.id) return;
    this.isInterrupted = false;
    this.forget("Opening the chat.");
    const slow = setTimeout(() => isOld() || this.say(WAITING[kernel.status] ?? WAITING.busy), PATIENCE_MILLISECONDS);
    try {
      const { language_info: language } = await kernel.info;
      if (isOld()) return;
      if (language.name !== "python") {
        return this.forget(`This notebook runs ${language.name}. nbchat works in Python notebooks.`);
      }
      await this.settle(); // or it might come between the requests that restore widgets
      if (isOld()) return;
      const isBeside = this.isBusy && this.isSettled && Boolean(kernel.supportsSubshells);
      const opened = await openChat(kernel, { isBeside });
      if (isOld()) return;
      if ("modelId" in opened) await this.draw(opened.modelId, kernel.id, isOld);
      else if ("missing" in opened) this.explain(LINES[opened.missing]);
      else this.fail(opened.problem);
    } catch (error) {
      if (!isOld()) this.fail(String(error)); // canceled: the kernel ended
    } finally {
      clearTimeout(slow);
    }
  }

  /** @param {string} modelId @param {string} kernelId @param {() => boolean} isOld */
  async draw(modelId, kernelId, isOld) {
    const { rendermime } = this.notebook.content; // the application's has no widget manager
    const data = { [WIDGET]: { version_major: 2, version_minor: 0, model_id: modelId } };
    const chat = rendermime.createRenderer(WIDGET);
    await chat.renderModel(rendermime.createModel({ data, trusted: true }));
    if (isOld()) return chat.dispose();
    this.chat = chat;
    this.addWidget(chat);
    const watch = new MutationObserver(() => this.look(chat, kernelId));
    watch.observe(chat.node, { childList: true, attributeFilter: ["class"] });
    chat.disposed.connect(() => watch.disconnect(), this);
    this.say("Opening the chat.", ["again"]);
    this.look(chat, kernelId);
    if (this.wantsFocus) this.whenDrawn(() => this.focus());
  }

  /** What ipywidgets shows: the panel, nothing once the kernel has closed it, or its own
   * words while it waits and when it gave up.
   * @param {Renderer} chat @param {string} kernelId
   */
  look(chat, kernelId) {
    if (chat !== this.chat || this.isDisposed) return;
    const { firstElementChild: shown, textContent: text } = chat.node;
    if (chat.isHidden || !chat.node.hasChildNodes()) {
      this.forget("The notebook's kernel closed this chat.", ["reopen"]);
    } else if (shown) {
      this.shownFor = kernelId;
      this.note.hide();
    } else if (text?.startsWith(NOT_SHOWN)) this.fail(text);
  }

  /** Call once the panel shows its conversation, which may be in a while.
   * @param {(panel: HTMLElement) => void} step
   */
  whenDrawn(step) {
    const find = () => /** @type {HTMLElement | null} */ (this.node.querySelector(".nbc[data-drawn]"));
    const found = find();
    if (found) return step(found);
    const watch = new MutationObserver(() => {
      const panel = find();
      if (!panel) return;
      watch.disconnect();
      step(panel);
    });
    watch.observe(this.node, { subtree: true, childList: true, attributeFilter: ["data-drawn"] });
    this.disposed.connect(() => watch.disconnect(), this);
  }

  /** A line in place of the chat
   * @param {string} text
   * @param {Action[]} [actions]
   */
  forget(text, actions = []) {
    this.shownFor = null;
    this.chat?.dispose();
    this.chat = null;
    this.say(text, actions);
  }

  /** @param {string} problem */
  fail(problem) {
    this.forget("Couldn't open the chat.", ["again"]);
    const summary = element("summary", {}, "Details");
    this.note.node.append(element("details", {}, summary, element("pre", {}, problem)));
    this.isHelpless = true;
  }

  /** @param {{ text: string, code: string }} line */
  explain({ text, code }) {
    this.code = code;
    this.forget(text, ["insert", "again"]);
    this.note.node.children[0].after(element("pre", {}, code));
    this.isHelpless = true;
  }

  /** @param {string} text @param {Action[]} [actions] */
  say(text, actions = []) {
    this.isHelpless = false;
    const buttons = actions.map((action, index) => {
      const look = index ? "jp-mod-reject" : "jp-mod-accept";
      const made = element("button", { className: `jp-mod-styled ${look}`, type: "button" }, LABELS[action]);
      made.addEventListener("click", () => void this[action]());
      return made;
    });
    const row = buttons.length ? [element("div", { className: "nbchat-actions" }, ...buttons)] : [];
    this.note.node.replaceChildren(element("p", { role: "status" }, text), ...row);
    this.note.show();
  }

  choose() {
    return this.commands.execute("notebook:change-kernel");
  }

  restart() {
    return this.commands.execute("notebook:restart-kernel");
  }

  again() {
    return this.open();
  }

  reopen() {
    return this.open();
  }

  insert() {
    const { content } = this.notebook;
    const cell = { cell_type: "code", source: this.code, metadata: { trusted: true } };
    content.model?.sharedModel.insertCell(content.activeCellIndex + 1, cell);
    content.activeCellIndex += 1;
  }
}

/** @param {string} name @param {object} properties @param {...(string | Node)} children */
export function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}
