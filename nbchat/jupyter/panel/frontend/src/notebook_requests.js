// What the model's tools ask of the notebook: its outline, cells, changes and runs.
// The kernel side has asked the person before it sends a change or a run. No answer
// exceeds 1 MB, where a websocket closes at 10: one cell at a time, pictures apart.

import { described, isDrawing, picture } from "./cell_outputs.js";
import { kept, restore } from "./cell_undo.js";
import { newToken } from "./dom.js";
import { indexOf } from "./notebook.js";
import { RunNotice } from "./run_notice.js";

/** @import { Future, SharedCell } from "./notebook.js" */
/** @import { ChatPanel } from "./panel.js" */
/** @import * as Protocol from "../protocol.js" */

const OUTLINE_CELLS = 1000;
const LINE_CHARACTERS = 80;
const SOURCE_CHARACTERS = 100_000; // a longer cell cannot be read or changed
const SHORT_ID = 8; // characters of an id, if no other cell shares them
const RENDER_MILLISECONDS = 50;
const DRAW_LOOKS = 20; // a second for plots after their cell has ended, longer in a page that is busy drawing
const SETTLE_MILLISECONDS = 150; // from a plot's first shape to its last
const SLEPT = "the notebook's page was asleep, so nothing was done; try again"; // the kernel may have given up, and said so
const STOP_MILLISECONDS = 1000; // until a cell is interrupted again

/** A cell is not what was expected: the answer holds it as it is. */
class Changed extends Error {
  /** @param {number} index */
  constructor(index) {
    super("the cell has changed since you read it");
    this.index = index;
  }
}

export class NotebookRequests {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    this.view = newToken(); // all views hear a request; one of them acts
    this.notice = new RunNotice(panel);
    /** @type {Map<string, Promise<boolean>>} */
    this.runs = new Map(); // that the model has started, by cell id
    this.hasStarted = false; // one of them in this turn
    this.asking = ""; // the one that waits for an answer to input()
    /** @type {Promise<Partial<Protocol.NotebookAnswer>> | null} */
    this.stopping = null;
    this.isLoading = followScripts(panel);
    panel.onModel("msg:custom", (message) => message.type === "notebook" && this.hear(message));
  }

  get notebook() {
    return this.panel.notebook;
  }

  /** @param {Protocol.Notebook} asked */
  async hear(asked) {
    if (asked.action === "notice") {
      const problem = "the person withdrew it: not run";
      this.notice.wait(asked.token, asked.source ?? "", () => this.answer(asked, { problem }));
    }
    const isAsked = asked.action === "find" ? this.notebook.open : asked.view === this.view;
    if (asked.action === "notice" || !isAsked) return;
    try {
      if (!this.notebook.open) throw Error("this page can't reach the notebook"); // else each message waits for it
      if (asked.until !== undefined && Date.now() > asked.until) throw Error(SLEPT);
      this.answer(asked, await this.act(asked));
    } catch (error) {
      const cells = error instanceof Changed ? [this.described(error.index)] : [];
      this.answer(asked, { problem: error instanceof Error ? error.message : String(error), cells });
    }
  }

  /** @param {Protocol.Notebook} asked @param {Partial<Protocol.NotebookAnswer>} found */
  answer({ token }, found) {
    this.panel.send({ type: "notebook_answer", token, view: this.view, problem: "", cells: [], ...found });
  }

  /** @param {Protocol.Notebook} asked @returns {Promise<Partial<Protocol.NotebookAnswer>>} */
  async act(asked) {
    switch (asked.action) {
      case "find":
        return { path: this.panel.model.widget_manager?.context?.path ?? "", digest: this.digest(), clock: Date.now() };
      case "identify":
        return { notebook_id: this.identified(asked.notebook_id) };
      case "outline":
        return this.outline(asked);
      case "read":
        return this.whole(this.find(asked.cell));
      case "picture":
        return { picture: await this.picture(asked) };
      case "edit":
        return this.edited(asked);
      case "keep":
        return { kept: this.kept(asked) };
      case "restore":
        return this.restored(asked);
      case "run":
        return this.whole(await this.ran(asked));
      default:
        return this.interrupted();
    }
  }

  /** The id in the notebook's metadata, which it keeps when it is moved or renamed
   * @param {string} [wanted]
   */
  identified(wanted = "") {
    const { sharedModel } = this.notebook.known;
    const known = sharedModel.getMetadata("nbchat") ?? {};
    if (!known.notebook_id && this.notebook.model) sharedModel.setMetadata("nbchat", { ...known, notebook_id: wanted });
    return known.notebook_id || wanted;
  }

  // The same in two views whose cells have the same sources
  digest() {
    let hash = 0;
    for (const { id, source } of this.notebook.cells) {
      for (const text of [id, source]) {
        for (let at = 0; at < text.length; at++) hash = (Math.imul(hash, 31) + text.charCodeAt(at)) | 0;
        hash = (Math.imul(hash, 31) + 1) | 0;
      }
    }
    return String(hash);
  }

  // Reading

  /** @param {Protocol.Notebook} asked */
  outline({ first = 1, search = "" }) {
    const { cells } = this.notebook;
    const shorts = shortIds(cells);
    const wanted = search.toLowerCase();
    const found = [];
    for (let index = Math.max(first, 1) - 1; index < cells.length && found.length < OUTLINE_CELLS; index++) {
      const lines = cells[index].source.split("\n");
      const line = lines.find((each) => each.trim() && each.toLowerCase().includes(wanted));
      if (line === undefined && wanted) continue;
      const source = (line ?? "").trim().slice(0, LINE_CHARACTERS);
      found.push({ ...this.named(cells[index], index, shorts), source, outputs: [] });
    }
    return { cells: found, ...this.around() };
  }

  around() {
    return { total: this.notebook.cells.length, selected: this.selected() };
  }

  selected() {
    const { notebook } = this;
    const own = this.ownIndex();
    const active = notebook.element?.querySelector(".jp-Cell.jp-mod-active");
    const index = active ? indexOf(active) : -1;
    return (index === own ? notebook.anchor : notebook.cells[index]?.id) ?? "";
  }

  ownIndex() {
    const { own } = this.notebook;
    return own ? indexOf(own) : -1;
  }

  /** @param {SharedCell} cell @param {number} index @param {Map<string, string>} shorts */
  named(cell, index, shorts) {
    const view = this.notebook.known.cells.get(index);
    const count = view.executionCount ?? null;
    /** @type {Protocol.NotebookCell["states"]} */
    const states = [];
    if (view.executionState === "running") states.push("running");
    if (this.asking === cell.id) states.push("asks");
    const { outputs } = view;
    if (outputs && range(outputs.length).some((at) => outputs.get(at).type === "error")) states.push("error");
    if (count && view.isDirty) states.push("changed");
    return { id: cell.id, short: shorts.get(cell.id) ?? cell.id, number: index + 1, kind: cell.cell_type, count, states };
  }

  /** @param {number} index @returns {Protocol.NotebookCell} */
  described(index) {
    const { cells } = this.notebook; // made anew by each look
    const { source } = cells[index];
    if (source.length > SOURCE_CHARACTERS) throw Error(`cell ${index + 1} is longer than ${SOURCE_CHARACTERS} characters`);
    const outputs = this.notebook.known.cells.get(index).outputs?.toJSON() ?? [];
    const shown = described(outputs, this.notebook.elementOf(index));
    return { ...this.named(cells[index], index, shortIds(cells)), source, outputs: shown };
  }

  /** @param {number} index */
  whole(index) {
    return { cells: [this.described(index)], ...this.around() };
  }

  /** @param {Protocol.Notebook} asked */
  async picture({ cell, number = 0 }) {
    const index = this.find(cell);
    const output = this.notebook.known.cells.get(index).outputs?.toJSON()[number];
    const shown = this.notebook.elementOf(index)?.querySelectorAll(".jp-OutputArea-child")[number];
    return picture(output, shown);
  }

  // Finding a cell

  /** By its id, or the beginning of it that no other has
   * @param {string} [wanted]
   */
  find(wanted = "") {
    const { cells } = this.notebook;
    const exact = this.notebook.find(wanted);
    if (exact >= 0) return exact;
    if (/^\d{1,5}$/.test(wanted)) throw Error(numberRefused(Number(wanted), cells));
    if (!wanted) throw Error("give the id of a cell");
    const found = range(cells.length).filter((index) => cells[index].id.startsWith(wanted));
    if (found.length === 1) return found[0];
    if (found.length) throw Error(`${found.length} cells have an id that begins with ${wanted}; give more of it`);
    throw Error(`the notebook has no cell ${wanted}; it may have been deleted`);
  }

  /** The place of a cell that is still what was read or approved
   * @param {Protocol.Notebook} asked
   */
  unchanged({ cell, expected = null }) {
    const index = this.find(cell);
    if (expected !== null && this.notebook.cells[index].source !== expected) throw new Changed(index);
    return index;
  }

  // Changing

  /** @param {Protocol.Notebook} asked */
  edited(asked) {
    const { notebook } = this;
    if (!notebook.model) throw Error("this notebook is read-only");
    if ((asked.source ?? "").length > SOURCE_CHARACTERS) throw Error(`a cell has at most ${SOURCE_CHARACTERS} characters`);
    const after = ["insert", "move"].includes(asked.change ?? "") && asked.after ? this.find(asked.after) : -1;
    const index = asked.change === "insert" ? after : this.unchanged(asked);
    if (asked.change !== "insert") this.refuseLocked(asked, index);
    if (asked.is_trial) return index < 0 ? this.around() : this.whole(index);
    const cell = index < 0 ? undefined : this.described(index);
    const changed = this.change(asked, index, after);
    if (changed < 0) return { cells: cell ? [cell] : [], ...this.around() };
    notebook.show(changed, { scrolls: false });
    return { ...this.whole(changed), below: notebook.cells[changed + 1]?.id ?? "" };
  }

  /** @param {Protocol.Notebook} asked @param {number} index */
  refuseLocked({ change }, index) {
    const { editable, deletable } = this.notebook.cells[index].getMetadata();
    const hasChat = index === this.ownIndex() || this.notebook.elementOf(index)?.querySelector(".nbc"); // or another view of it
    if (change !== "replace" && hasChat) throw Error("this cell shows the chat; it stays where it is");
    if (change !== "move" && editable === false) throw Error("this cell is not editable");
    if (change === "delete" && deletable === false) throw Error("this cell is not deletable");
  }

  /** The place of the changed cell; -1 once it is deleted
   * @param {Protocol.Notebook} asked @param {number} index @param {number} after
   */
  change({ change, source = "", kind = "code" }, index, after) {
    const { notebook } = this;
    const { sharedModel } = notebook.known;
    if (change === "insert") notebook.insert(after + 1, source, kind);
    if (change === "insert") return after + 1;
    if (change === "delete") sharedModel.deleteCell(index);
    if (change === "delete") return -1;
    if (change === "kind" || (change === "replace" && kind !== "code")) notebook.convert(index, kind);
    if (change === "replace" || (change === "kind" && source)) splice(notebook.cells[index], source);
    if (change !== "move") return index;
    const to = after < index ? after + 1 : after;
    if (to !== index) sharedModel.moveCells(index, to);
    return to;
  }

  /** @param {Protocol.Notebook} asked */
  kept({ cell }) {
    const index = this.notebook.find(cell);
    return index < 0 ? [] : [kept(this.notebook, index)];
  }

  /** @param {Protocol.Notebook} asked */
  restored(asked) {
    const index = restore(this.notebook, asked);
    if (index >= 0) this.notebook.show(index, { scrolls: false });
    return this.around();
  }

  // Running

  /** @param {Protocol.Notebook} asked */
  async ran(asked) {
    const { notebook } = this;
    const index = this.unchanged(asked);
    const cell = notebook.cells[index];
    const { id } = cell;
    if (cell.cell_type !== "code") return index; // text has nothing to run
    if (!this.panel.link.kernel) throw Error("the notebook has no kernel");
    notebook.known.cells.get(index).outputs?.clear();
    notebook.show(index, { scrolls: false });
    const run = notebook.run(index, (future) => this.answerInput(future, id));
    this.runs.set(id, run);
    this.hasStarted = true;
    await run.finally(() => this.ended(id));
    await this.drawn(id); // what the page draws can be sent as a picture
    const now = notebook.find(id);
    if (now < 0) throw Error("the cell ran, and was deleted meanwhile with its outputs");
    return now;
  }

  /** @param {string} id */
  async drawn(id) {
    const index = this.notebook.find(id);
    await pause(RENDER_MILLISECONDS);
    const outputs = index < 0 ? [] : (this.notebook.known.cells.get(index).outputs?.toJSON() ?? []);
    let looks = 0;
    while (looks < DRAW_LOOKS && isDrawing(outputs, this.notebook.elementOf(this.notebook.find(id)), this.isLoading())) {
      looks += 1;
      await pause(RENDER_MILLISECONDS);
    }
    if (looks) await pause(SETTLE_MILLISECONDS);
  }

  /** @param {string} id */
  ended(id) {
    this.runs.delete(id);
    this.endQuestion();
    if (!this.runs.size) this.notice.hide("stop");
  }

  endQuestion() {
    this.asking = "";
    this.notice.endQuestion();
  }

  /** @param {Future} future @param {string} id */
  answerInput(future, id) {
    future.onStdin = ({ header, content }) => {
      this.asking = id;
      this.notice.ask(content.prompt, content.password, (value) => {
        this.endQuestion();
        future.sendInputReply({ value, status: "ok" }, header);
      });
    };
  }

  endTurn() {
    this.hasStarted = false; // a cell of this turn may run on: Stop of another turn leaves it
  }

  // A person stops the turn, and the cell that it has started.
  stopTurn() {
    if (this.hasStarted && this.runs.size) this.interrupted().catch(() => {});
  }

  interrupted() {
    this.stopping ??= this.stopRuns().finally(() => (this.stopping = null));
    return this.stopping;
  }

  // Interrupt what the model runs; where that fails, a person may restart the kernel.
  async stopRuns() {
    const { kernel } = this.panel.link;
    const [id] = this.runs.keys();
    if (!id || !kernel) throw Error("no cell that you started is running");
    const name = `Cell ${this.notebook.find(id) + 1}`;
    this.notice.show("stop", `Stopping ${name.toLowerCase()}`);
    for (let attempt = 0; attempt < 2 && this.runs.size; attempt++) {
      await kernel.interrupt();
      await Promise.race([Promise.allSettled(this.runs.values()), pause(STOP_MILLISECONDS)]);
    }
    if (!this.runs.size) return this.whole(this.find(id));
    this.notice.offerRestart(name, kernel);
    throw Error(`${name.toLowerCase()} does not stop; the person was asked to restart the kernel`);
  }
}

/** Tells whether a script that came into the page is still loading.
 * @param {ChatPanel} panel
 */
function followScripts({ undo }) {
  /** @type {WeakSet<object>} */
  const loaded = new WeakSet(document.scripts);
  const note = (/** @type {Event} */ { target }) => loaded.add(/** @type {object} */ (target));
  for (const event of ["load", "error"]) {
    document.addEventListener(event, note, true);
    undo.push(() => document.removeEventListener(event, note, true));
  }
  return () => [...document.scripts].some((each) => each.src && !loaded.has(each));
}

/** @param {SharedCell[]} cells */
function shortIds(cells) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  const start = (/** @type {string} */ id) => id.slice(0, SHORT_ID);
  for (const { id } of cells) counts.set(start(id), (counts.get(start(id)) ?? 0) + 1);
  return new Map(cells.map(({ id }) => [id, counts.get(start(id)) === 1 ? start(id) : id]));
}

/** @param {number} number @param {SharedCell[]} cells */
function numberRefused(number, cells) {
  const cell = cells[number - 1];
  const meant = cell ? `cell ${number} has the id ${shortIds(cells).get(cell.id)} now` : `there are ${cells.length} cells`;
  return `give a cell's id, not its number, which changes; ${meant}`;
}

/** Replace only what differs, so that a cursor elsewhere in the cell stays.
 * @param {SharedCell} cell @param {string} source
 */
function splice(cell, source) {
  const before = cell.source;
  const shorter = Math.min(before.length, source.length);
  let start = 0;
  while (start < shorter && before[start] === source[start]) start++;
  if (isInPair(before, start) || isInPair(source, start)) start--;
  let end = 0;
  while (end < shorter - start && before[before.length - 1 - end] === source[source.length - 1 - end]) end++;
  if (isInPair(before, before.length - end) || isInPair(source, source.length - end)) end--;
  cell.updateSource(start, before.length - end, source.slice(start, source.length - end));
}

/** Between the two halves of an emoji, where the document would lose both
 * @param {string} text @param {number} at
 */
function isInPair(text, at) {
  return at > 0 && /[\ud800-\udbff]/.test(text[at - 1]) && /[\udc00-\udfff]/.test(text[at] ?? "");
}

/** @param {number} length */
function range(length) {
  return Array.from({ length }, (_, index) => index);
}

/** @param {number} milliseconds */
function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
