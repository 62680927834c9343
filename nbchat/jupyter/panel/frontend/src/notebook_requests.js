// What the model's tools ask of the notebook: read its cells, change one, run one.
// The kernel side has asked the person before it sends a change or a run.

import { newToken } from "./dom.js";

/** @import { Output, SharedCell } from "./notebook.js" */
/** @import { ChatPanel } from "./panel.js" */
/** @import * as Protocol from "../protocol.js" */

const TEXT_CHARACTERS = 50000; // of one output
const PICTURE_CHARACTERS = 4000000; // of base64

export class NotebookRequests {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    this.view = newToken(); // all views hear a request; one of them acts
    panel.onModel("msg:custom", (message) => message.type === "notebook" && this.hear(message));
  }

  get notebook() {
    return this.panel.notebook;
  }

  /** @param {Protocol.Notebook} asked */
  async hear(asked) {
    if (!this.notebook.model) return; // not a notebook that can be edited
    if (asked.action !== "find" && asked.view !== this.view) return;
    let problem = "";
    /** @type {Protocol.NotebookCell[]} */
    let cells = [];
    let id = "";
    try {
      cells = await this.act(asked);
      if (asked.action === "identify") id = this.identified(asked.notebook_id);
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
    }
    const answer = { token: asked.token, view: this.view, problem, cells, notebook_id: id };
    this.panel.send({ type: "notebook_answer", ...answer });
  }

  /** @param {Protocol.Notebook} asked @returns {Promise<Protocol.NotebookCell[]>} */
  async act(asked) {
    if (asked.action === "read") return this.notebook.cells.map((cell, index) => this.described(cell, index));
    if (asked.action === "edit") return [this.edited(asked)];
    if (asked.action === "run") return [await this.ran(asked)];
    return [];
  }

  /** The id in the notebook's metadata, which it keeps when it is moved or renamed
   * @param {string} [wanted]
   */
  identified(wanted = "") {
    const { sharedModel } = this.notebook.known;
    const known = sharedModel.getMetadata("nbchat") ?? {};
    if (!known.notebook_id) sharedModel.setMetadata("nbchat", { ...known, notebook_id: wanted });
    return known.notebook_id || wanted;
  }

  /** @param {SharedCell} cell @param {number} index @returns {Protocol.NotebookCell} */
  described(cell, index) {
    const view = this.notebook.known.cells.get(index);
    const outputs = (view.outputs?.toJSON() ?? []).map(output).filter((each) => each !== null);
    const kind = cell.cell_type;
    return { id: cell.id, kind, source: cell.source, count: view.executionCount ?? null, outputs };
  }

  /** @param {Protocol.Notebook} asked */
  edited(asked) {
    const { notebook } = this;
    const { source = "" } = asked;
    if (asked.place === "below") {
      const index = asked.cell ? this.find(asked) + 1 : 0;
      notebook.insert(index, source, asked.kind === "markdown" ? "markdown" : "");
      notebook.show(index);
      return this.described(notebook.cells[index], index);
    }
    const index = this.unchanged(asked);
    const cell = notebook.cells[index];
    if (cell.getMetadata().editable === false) throw Error("this cell is not editable");
    cell.setSource(source);
    notebook.show(index);
    return this.described(cell, index);
  }

  /** @param {Protocol.Notebook} asked */
  async ran(asked) {
    const { notebook } = this;
    const index = this.unchanged(asked);
    const cell = notebook.cells[index];
    if (cell.cell_type !== "code") throw Error("this cell is text; only code can be run");
    if (!this.panel.link.kernel) throw Error("the notebook has no kernel");
    notebook.known.cells.get(index).outputs?.clear();
    notebook.show(index);
    await notebook.run(index);
    return this.described(cell, notebook.find(asked.cell));
  }

  /** @param {Protocol.Notebook} asked */
  find({ cell }) {
    const index = this.notebook.find(cell);
    if (index < 0) throw Error(`the notebook has no cell ${cell}; it may have been deleted`);
    return index;
  }

  /** The place of a cell that is still what the person has approved
   * @param {Protocol.Notebook} asked
   */
  unchanged(asked) {
    const index = this.find(asked);
    const isSame = asked.expected === null || this.notebook.cells[index].source === asked.expected;
    if (!isSame) throw Error("the cell has changed since; read it again");
    return index;
  }
}

/** @param {Output} shown @returns {Protocol.CellOutput | null} */
function output({ output_type: type, text, data, ename, evalue, traceback }) {
  if (type === "stream") return { kind: "text", data: cut(joined(text)) };
  if (type === "error") return { kind: "error", data: cut(plain(joined(traceback, "\n")) || `${ename}: ${evalue}`) };
  const picture = joined(data?.["image/png"] ?? "").replaceAll("\n", "");
  if (picture && picture.length <= PICTURE_CHARACTERS) return { kind: "png", data: picture };
  const shown = joined(data?.["text/plain"] ?? "");
  return shown ? { kind: "text", data: cut(shown) } : null;
}

/** @param {string | string[]} [text] @param {string} [between] */
function joined(text, between = "") {
  return Array.isArray(text) ? text.join(between) : String(text ?? "");
}

/** @param {string} text */
function plain(text) {
  return text.replace(/\u001b\[[0-9;]*m/g, ""); // a traceback's colours
}

/** The start and the end: an error is at the end of a long output.
 * @param {string} text
 */
function cut(text) {
  if (text.length <= TEXT_CHARACTERS) return text;
  const half = TEXT_CHARACTERS / 2;
  return `${text.slice(0, half)}\n[${text.length - 2 * half} characters removed]\n${text.slice(-half)}`;
}
