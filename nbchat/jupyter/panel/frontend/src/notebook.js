// The notebook around the panel: the cell the user was in before, and code inserted as
// cells. The notebook's own undo reverts everything.

import { all, focusQuietly } from "./dom.js";

/** @import { ChatPanel } from "./panel.js" */

// What is used of JupyterLab's objects

/** @typedef {{ editable?: boolean, deletable?: boolean, trusted?: boolean }} CellMetadata */

/**
 * @typedef {object} SharedCell
 * @property {string} id
 * @property {string} cell_type
 * @property {string} source
 * @property {() => CellMetadata} getMetadata
 * @property {(start: number, end: number, text: string) => void} updateSource
 * @property {(metadata: CellMetadata) => void} setMetadata
 * @property {() => Attachments | undefined} [getAttachments] of text, by file name
 * @property {(attachments: Attachments) => void} [setAttachments]
 */

/** @typedef {Record<string, object>} Attachments Pictures pasted into text, by file name */

/**
 * @typedef {object} SharedNotebook
 * @property {SharedCell[]} cells
 * @property {(index: number, cell: { id?: string, cell_type: string, source: string, metadata: CellMetadata, attachments?: Attachments, outputs?: Output[], execution_count?: null }) => void} insertCell
 * @property {(index: number) => void} deleteCell
 * @property {(from: number, to: number) => void} moveCells
 * @property {(step: () => void) => void} transact
 * @property {(key: "nbchat") => { notebook_id?: string } | undefined} getMetadata
 * @property {(key: "nbchat", value: { notebook_id?: string }) => void} setMetadata
 */

/**
 * @typedef {object} Output As in a notebook's file
 * @property {string} output_type
 * @property {string | string[]} [text]
 * @property {Record<string, string | string[] | object>} [data] By media type
 * @property {string} [ename]
 * @property {string} [evalue]
 * @property {string[]} [traceback]
 */

/**
 * @typedef {object} Outputs
 * @property {(output: Output) => number} add
 * @property {(index: number, output: Output) => void} set
 * @property {(wait?: boolean) => void} clear
 * @property {() => Output[]} toJSON
 * @property {number} length
 * @property {(index: number) => { type: string }} get
 */

/**
 * @typedef {object} CodeCell
 * @property {SharedCell} sharedModel
 * @property {Outputs} outputs
 * @property {number | null} executionCount
 * @property {string} executionState
 * @property {boolean} isDisposed
 * @property {boolean} isDirty Changed since it ran
 * @property {boolean} trusted
 */

/**
 * @typedef {object} NotebookModel
 * @property {SharedNotebook} sharedModel
 * @property {{ get: (index: number) => CodeCell | Partial<CodeCell> }} cells
 * @property {boolean} readOnly
 * @property {(key: "language_info" | "kernelspec") => { name?: string, language?: string } | undefined} getMetadata
 */

/** @typedef {Omit<Output, "output_type"> & { transient?: { display_id?: string }, wait?: boolean }} Content Of a kernel's message */

/**
 * @typedef {object} Future
 * @property {(message: { header: { msg_type: string }, content: Content }) => void} onIOPub
 * @property {(message: { header: object, content: { prompt: string, password: boolean } }) => void} onStdin
 * @property {(content: { value: string, status: "ok" }, asked: object) => void} sendInputReply
 * @property {Promise<{ content: { status: string, execution_count?: number } }>} done
 */

/** @typedef {(kernel: Kernel, status: string) => void} StatusListener */

/**
 * @typedef {object} Kernel
 * @property {string} id
 * @property {string} status
 * @property {{ connect: (react: StatusListener) => void, disconnect: (react: StatusListener) => void }} statusChanged
 * @property {() => Promise<void>} interrupt
 * @property {() => Promise<void>} restart
 * @property {(asked: { code: string, silent?: boolean, stop_on_error: boolean, allow_stdin: boolean }, disposes: boolean, metadata: { cellId: string }) => Future} requestExecute
 */

const ACTIVATING_EVENTS = ["pointerdown", "focusin"];
const OUTLINED_MILLISECONDS = 2000;
const HEADING_BUTTON = ".jp-collapseHeadingButton"; // of a heading, which hides the cells below it
const OPENS = /^\s*%(?:chat|nbchat)\s*$/m;
const LOAD = "%load_ext nbchat";

export class NotebookCells {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    /** @type {string | null} */
    this.anchor = null; // the id of the cell active before the panel's own
    /** @type {string | null} */
    this.newest = null; // the id of the cell inserted below it last
    const note = () => this.note();
    for (const name of ACTIVATING_EVENTS) {
      window.addEventListener(name, note, true); // before another cell becomes the active one
      panel.undo.push(() => window.removeEventListener(name, note, true));
    }
  }

  // Also one that is read-only
  get open() {
    const model = this.panel.model.widget_manager?.context?.model;
    return model?.sharedModel?.insertCell ? model : null;
  }

  get model() {
    return this.open?.readOnly ? null : this.open;
  }

  // Where there is one
  get known() {
    return /** @type {NotebookModel} */ (this.open);
  }

  get cells() {
    return this.known.sharedModel.cells;
  }

  /** The panel's own cell, where it is in one */
  get own() {
    return /** @type {HTMLElement | null} */ (this.panel.parts.root.closest(".jp-Cell"));
  }

  /** Which cell of which notebook shows the panel; empty where that is unknown */
  get place() {
    const { own, model } = this;
    const path = this.panel.model.widget_manager?.context?.path ?? "";
    return own && model ? `${path} ${this.cells[indexOf(own)]?.id}` : path;
  }

  /** Whether the panel's own cell opens a chat with nothing but nbchat */
  get opensHere() {
    const { own, model } = this;
    return Boolean(own && model && OPENS.test(this.cells[indexOf(own)]?.source ?? ""));
  }

  /** After a restart: load nbchat, and run the panel's own cell again. */
  async reopen() {
    const { own } = this;
    const { kernel } = this.panel.link;
    if (!own || !kernel || !this.opensHere) return;
    const index = indexOf(own);
    const cell = /** @type {CodeCell} */ (this.known.cells.get(index));
    kernel.requestExecute({ code: LOAD, silent: true, stop_on_error: true, allow_stdin: false }, true, { cellId: "" });
    cell.outputs.clear();
    await runCell(cell, kernel, this.cells[index].id);
  }

  /** In a cell of its own, which the chat writes again after each turn */
  async keepTranscript() {
    await this.run(this.insertBelow("%chat transcript keep", "python"));
  }

  /** A cell has just opened the panel: bring the box in sight and let the person type. */
  enter() {
    const { own } = this;
    const { form, input } = this.panel.parts;
    const focused = document.activeElement;
    const isHere = focused === document.body || own?.closest(".jp-Notebook")?.contains(focused);
    const active = own?.closest(".jp-Notebook")?.querySelector(".jp-Cell.jp-mod-active");
    const isRunHere = active === own || (active && indexOf(active) === indexOf(/** @type {HTMLElement} */ (own)) + 1);
    if (!own || !isHere || !isRunHere || !document.hasFocus()) return;
    requestAnimationFrame(() => {
      form.scrollIntoView({ block: "nearest" });
      if (!input.disabled) focusQuietly(input);
    });
  }

  note() {
    const own = this.panel.parts.root.closest(".jp-Cell");
    const active = own?.closest(".jp-Notebook")?.querySelector(".jp-Cell.jp-mod-active");
    if (!this.model || active === own) return;
    const id = active ? this.cells[indexOf(active)]?.id : this.panel.beside.cellId;
    if (!id || id === this.anchor) return;
    this.anchor = id;
    this.newest = null;
  }

  /** @param {string | null | undefined} id */
  find(id) {
    return this.cells.findIndex((cell) => cell.id === id);
  }

  /** The number that the notebook shows at a cell, as "[4]"; empty before its first run
   * @param {number} index
   */
  prompt(index) {
    const count = this.cells[index] && this.known.cells.get(index).executionCount;
    return count ? `[${count}]` : "";
  }

  // The cell the user was in; else the panel's own, else the last one
  get index() {
    const index = this.find(this.anchor);
    if (index >= 0) return index;
    const own = this.panel.parts.root.closest(".jp-Cell");
    return own ? indexOf(own) : this.cells.length - 1;
  }

  /** Keep several blocks in the order in which they were inserted.
   * @param {string} code
   * @param {string} language
   */
  insertBelow(code, language) {
    const last = this.find(this.newest);
    const index = (last >= 0 ? last : this.index) + 1;
    this.insert(index, code, language);
    this.newest = this.cells[index].id;
    this.show(index);
    return index;
  }

  /** @param {string} code @param {string} language */
  insertAbove(code, language) {
    const index = this.index;
    this.insert(index, code, language);
    this.show(index);
    return index;
  }

  /**
   * @param {number} index
   * @param {string} code
   * @param {string} language
   * @param {CellMetadata} [metadata]
   */
  insert(index, code, language, metadata = {}) {
    const isRaw = language === "raw";
    const isText = isRaw || ["markdown", "md"].includes(language);
    const cell = { cell_type: isRaw ? "raw" : isText ? "markdown" : "code", source: code };
    const trust = isText ? {} : { trusted: true }; // as the notebook's own new cells
    this.known.sharedModel.insertCell(index, { ...cell, metadata: { ...metadata, ...trust } });
  }

  /** The element of the notebook */
  get element() {
    const own = this.panel.parts.root.closest(".jp-Notebook") ?? this.panel.beside.notebook;
    return own ?? document.querySelector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook");
  }

  /** The element of a cell, if it is drawn
   * @param {number} index
   */
  elementOf(index) {
    const drawn = all(this.element, ".jp-Cell");
    const place = (/** @type {HTMLElement} */ cell, /** @type {number} */ at) => Number(cell.dataset.windowedListIndex ?? at);
    return drawn.find((cell, at) => place(cell, at) === index);
  }

  /** Make a cell code, markdown or raw text; its id and metadata stay.
   * @param {number} index @param {string} kind
   */
  convert(index, kind) {
    const { sharedModel } = this.known;
    const { id, source, cell_type: before } = this.cells[index];
    if (before === kind) return;
    const { trusted: _, ...metadata } = this.cells[index].getMetadata();
    const more = kind === "code" ? {} : { attachments: attachmentsOf(this.cells[index]) };
    const trust = kind === "code" ? { trusted: true } : {};
    sharedModel.transact(() => {
      sharedModel.deleteCell(index);
      sharedModel.insertCell(index, { id, cell_type: kind, source, metadata: { ...metadata, ...trust }, ...more });
    });
  }

  /** Outline a cell for a moment; a person's own request also scrolls to it.
   * @param {number} index
   * @param {{ scrolls?: boolean }} [how]
   */
  show(index, { scrolls = true } = {}) {
    const hidden = scrolls && this.elementOf(index);
    if (hidden) unfold(hidden);
    const draw = () => {
      const cell = this.elementOf(index);
      if (!(cell instanceof HTMLElement)) return;
      if (scrolls) cell.scrollIntoView({ block: "nearest" });
      cell.style.outline = "2px solid var(--jp-brand-color1)";
      setTimeout(() => (cell.style.outline = ""), OUTLINED_MILLISECONDS);
    };
    requestAnimationFrame(() => requestAnimationFrame(draw)); // once JupyterLab has placed what was hidden
  }

  /** A new cell rather than new text, so that the notebook's undo covers it.
   * @param {string} code
   * @param {string} language
   */
  replace(code, language) {
    const { sharedModel } = this.known;
    const index = this.find(this.anchor);
    const metadata = this.cells[index]?.getMetadata();
    if (!metadata || metadata.editable === false || metadata.deletable === false) return null;
    sharedModel.transact(() => {
      sharedModel.deleteCell(index);
      this.insert(index, code, language, metadata);
    });
    this.anchor = this.cells[index].id;
    this.show(index);
    return index;
  }

  /** @param {string} language */
  speaks(language) {
    const known = (/** @type {"language_info" | "kernelspec"} */ key) => this.model?.getMetadata(key) ?? {};
    const spoken = (known("language_info").name ?? known("kernelspec").language ?? "").toLowerCase();
    const names = spoken === "python" ? ["python", "py", "python3", "ipython"] : [spoken];
    return Boolean(this.panel.link.kernel && language && names.includes(language));
  }

  /** Resolves to whether it succeeded.
   * @param {number} index
   * @param {((future: Future) => void)} [ask] answers what the cell asks with input()
   */
  async run(index, ask) {
    const { id } = this.cells[index];
    const cell = /** @type {CodeCell} */ (this.known.cells.get(index));
    return runCell(cell, /** @type {Kernel} */ (this.panel.link.kernel), id, ask);
  }
}

/** The pictures pasted into a text cell
 * @param {SharedCell} cell
 */
export function attachmentsOf(cell) {
  return cell.getAttachments?.() ?? {};
}

/** Open the headings under which a cell is folded.
 * @param {Element} cell
 */
function unfold(cell) {
  let level = levelOf(cell);
  for (let above = cell.previousElementSibling; above; above = above.previousElementSibling) {
    if (levelOf(above) >= level) continue;
    level = levelOf(above);
    /** @type {HTMLElement | null} */ (above.querySelector(`${HEADING_BUTTON}.jp-mod-collapsed`))?.click();
  }
}

/** Of a heading, 1 for the largest; infinite for other cells
 * @param {Element} cell
 */
function levelOf(cell) {
  const button = /** @type {HTMLElement | null} */ (cell.querySelector(HEADING_BUTTON));
  return Number(button?.dataset.headingLevel ?? Infinity);
}

/** @param {Element} cell */
export function indexOf(cell) {
  const cells = all(cell.parentElement, ":scope > .jp-Cell");
  const { windowedListIndex } = /** @type {HTMLElement} */ (cell).dataset;
  return Number(windowedListIndex ?? cells.indexOf(/** @type {HTMLElement} */ (cell)));
}

/** @param {CodeCell} cell @param {Kernel} kernel @param {string} cellId @param {((future: Future) => void)} [ask] */
async function runCell(cell, kernel, cellId, ask) {
  const asked = { code: cell.sharedModel.source, stop_on_error: true, allow_stdin: Boolean(ask) };
  const show = outputsOf(cell.outputs);
  cell.trusted = true; // as JupyterLab does: a person has asked for this run
  cell.executionState = "running";
  const execute = async () => {
    const future = kernel.requestExecute(asked, false, { cellId });
    ask?.(future);
    future.onIOPub = ({ header, content }) => cell.isDisposed || show(header.msg_type, content);
    return (await future.done).content;
  };
  try {
    let reply = await execute();
    if (ask && reply.status === "aborted") reply = await execute(); // it came right after a failed cell
    if (!cell.isDisposed) cell.executionCount = reply.execution_count ?? null;
    return reply.status === "ok";
  } catch {
    return false; // the kernel ended
  } finally {
    if (!cell.isDisposed) cell.executionState = "idle";
  }
}

const SHOWN = new Set(["stream", "display_data", "execute_result", "error"]);

/** What a kernel sends becomes a cell's outputs, as JupyterLab does it.
 * @param {Outputs} outputs
 * @returns {(type: string, content: Content) => void}
 */
function outputsOf(outputs) {
  /** @type {Map<string | undefined, number[]>} */
  const displays = new Map();
  return (type, { transient, ...content }) => {
    const name = transient?.display_id;
    if (type === "clear_output") {
      displays.clear();
      outputs.clear(content.wait);
    } else if (SHOWN.has(type)) {
      const length = outputs.add({ output_type: type, ...content });
      if (name) displays.set(name, [...(displays.get(name) ?? []), length - 1]);
    } else if (type === "update_display_data") {
      const changed = { output_type: "display_data", ...content };
      for (const index of displays.get(name) ?? []) outputs.set(index, changed);
    }
  };
}
