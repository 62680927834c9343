// Buttons beside the items of the transcript: edit, pin, exclude, undo ...

import { addKeyButtons } from "./key_form.js";
import { showCopied } from "./clipboard.js";
import { button, iconButton, newToken, on, pressedIn, primary, setDisabled, tag } from "./dom.js";
import { joined } from "./input_box.js";
import { spokenText } from "./screen_reader.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { Answer } from "./dialog.js" */
/** @import { ChatPanel } from "./panel.js" */

/**
 * An item with its buttons. A banner's `position` is undefined; its buttons do not use it.
 * @typedef {object} Row
 * @property {number} key
 * @property {number} position
 * @property {string} kind a key of OFFERED
 * @property {HTMLElement} box
 * @property {HTMLElement} mark
 * @property {HTMLElement} item
 * @property {Record<string, HTMLButtonElement>} buttons by the name of the action
 */

/**
 * What decides which buttons are shown
 * @typedef {object} Context
 * @property {boolean} isBlocked
 * @property {Set<number>} excluded
 * @property {Partial<Protocol.Changes>} changes
 * @property {number} compacted
 * @property {number | null} newest
 */

/** @type {Record<string, [string, string]>} */
const LABELS = {
  copy: ["Copy", "Copy the text"],
  edit: ["Edit", "Edit this message and continue from here"],
  regenerate: ["Regenerate", "Generate another answer"],
  pin: ["Pin", "Keep this word for word in every compaction"],
  exclude: ["Exclude", "Hide this message from the model without deleting it"],
  include: ["Include", "Show this message to the model again"],
  compact: ["Compact up to here", "Compact this message and all before it"],
};

/** Of a divider, where a word says more than a shape
 * @type {Record<string, [string, string]>}
 */
const WORDS = {
  view: ["View", "What the model sees now, beside all messages"],
  undo: ["Undo", "Undo this, so that the model sees what it saw before"],
  redo: ["Redo", "Redo this"],
  editSummary: ["Edit", "Edit the summary that the model sees"],
  regenerateSummary: ["Regenerate", "Generate another summary"],
  tryModel: ["Try with a model", "Ask a model for the summary"],
};

/** @type {Record<string, string[]>} */
const OFFERED = {
  prompt: ["copy", "edit", "pin", "exclude", "include", "compact"],
  attachment: ["exclude", "include"],
  answer: ["copy", "regenerate", "exclude", "include", "compact"],
  output: ["exclude", "include"],
  banner: ["view", "undo", "redo", "editSummary", "regenerateSummary"],
};

export class Actions {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    /** @type {Map<number, Row>} */
    this.rows = new Map(); // by the key of the item
    /** @type {Row[]} */
    this.fresh = []; // rows that were not drawn yet
    /** @type {Row | null} */
    this.newest = null; // the row of what was said last
    this.drawn = ""; // what the others were drawn by
    /** @type {string | null} */
    this.token = null;
    const { root } = panel.parts;
    on(root, "click", (event) => this.clicked(event));
  }

  /** The item with its buttons: in a line of its own, or inside a tool's card
   * @param {HTMLElement} item
   * @param {{ key: number, position?: number }} named
   */
  dress(item, { key, position }) {
    const kind = kindOf(item, position);
    if (!kind) return item;
    const mark = tag("span", "nbc-chip nbc-mark", { hidden: "" }, "excluded");
    const about = { role: "group", "aria-label": "Actions", "aria-live": "off" };
    const box = tag("div", "nbc-actions", about, mark);
    /** @type {Row} */
    const row = { key, position: /** @type {number} */ (position), kind, box, mark, item, buttons: {} };
    for (const name of OFFERED[kind]) {
      const isByCode = name === "regenerateSummary" && item.dataset.state === "degraded";
      row.buttons[name] = actionButton(isByCode ? "tryModel" : name);
      row.buttons[name].dataset.action = name;
      box.append(row.buttons[name]);
    }
    box.dataset.key = String(key);
    this.rows.set(key, row);
    this.fresh.push(row);
    const isSpoken = kind === "prompt" || kind === "answer";
    if (isSpoken && key >= (this.newest?.key ?? 0)) this.newest = row;
    if (kind !== "output") return tag("div", "nbc-line", { "data-kind": kind }, item, box);
    item.append(box);
    return item;
  }

  /** @param {number} key */
  forget(key) {
    this.rows.delete(key);
  }

  // Positions of the messages that were typed, the oldest first
  prompts() {
    const rows = [...this.rows.values()].filter(({ kind }) => kind === "prompt");
    return rows.sort((one, other) => one.key - other.key).map(({ position }) => position);
  }

  /** The line of the first message from a position on, if it is shown
   * @param {number} position
   */
  lineFrom(position) {
    const rows = [...this.rows.values()].filter((row) => row.kind === "prompt" && row.position >= position);
    const [first] = rows.sort((one, other) => one.position - other.position);
    return first?.box.parentElement;
  }

  clear() {
    this.rows.clear();
    this.fresh = [];
    this.newest = null;
  }

  draw() {
    const { state, isGone } = this.panel;
    const { is_busy: isBusy, phase, excluded = [], changes = {}, summary } = state;
    const isBlocked = isBusy || isGone || phase !== "ready";
    const compacted = summary?.messages ?? 0;
    // Only an answer without a later message
    const newest = this.newest?.kind === "answer" ? this.newest.key : null;
    const facts = { isBlocked, excluded, changes, compacted, newest };
    const by = JSON.stringify(facts);
    const rows = by === this.drawn ? this.fresh : [...this.rows.values()];
    this.drawn = by;
    this.fresh = [];
    const context = { ...facts, excluded: new Set(excluded) };
    rows.forEach((row) => this.drawRow(row, context));
    const others = ".nbc-back, .nbc-again, .nbc-continue, .nbc-retry, .nbc-send-key, .nbc-replace-key";
    setDisabled(this.panel.parts.log, others, isBlocked);
  }

  /** @param {Row} row @param {Context} context */
  drawRow({ key, position, kind, box, mark, item, buttons }, context) {
    const { isBlocked, excluded, changes, compacted, newest } = context;
    const isExcluded = excluded.has(position);
    const isSeen = position >= compacted;
    /** @type {Record<string, boolean | undefined>} */
    const shown = {
      copy: true,
      view: changes.edit === key,
      edit: true,
      regenerate: key === newest,
      pin: true,
      exclude: isSeen && !isExcluded,
      include: isSeen && isExcluded,
      compact: isSeen,
      editSummary: changes.edit === key,
      regenerateSummary: changes.edit === key,
      undo: changes.undo === key,
      redo: changes.redo === key,
    };
    for (const [name, each] of Object.entries(buttons)) {
      each.hidden = !shown[name];
      each.disabled = isBlocked && name !== "copy" && name !== "view";
    }
    mark.hidden = !isExcluded;
    item.toggleAttribute("data-excluded", isExcluded);
    box.hidden = !isExcluded && Object.values(buttons).every((each) => each.hidden);
    box.classList.toggle("nbc-always", isExcluded || kind === "banner" || key === newest);
  }

  /** @param {Event} event */
  clicked(event) {
    const back = pressedIn(event, ".nbc-back");
    if (back) this.panel.command(`/resume ${back.parentElement?.dataset.session}`);
    const undo = pressedIn(event, ".nbc-undo-cells");
    if (undo) this.undoCells(undo);
    const answer = pressedIn(event, ".nbc-rules .nbc-decision button");
    if (answer) this.panel.say(`/rules ${answer.dataset.answer}`);
    if (pressedIn(event, ".nbc-again")) this.panel.command("/again");
    if (pressedIn(event, ".nbc-continue")) this.panel.command("/continue");
    const pressed = pressedIn(event, ".nbc-action");
    const row = pressed && this.rows.get(Number(pressed.parentElement?.dataset.key));
    if (row) this.act(pressed.dataset.action ?? "", row, pressed);
  }

  /** @param {HTMLButtonElement} pressed */
  undoCells(pressed) {
    pressed.disabled = true; // until the line comes anew
    const line = /** @type {HTMLElement} */ (pressed.closest(".nbc-cells"));
    const { cell = "" } = /** @type {HTMLElement} */ (pressed.parentElement).dataset;
    const { view } = this.panel.requests;
    this.panel.send({ type: "undo_cells", turn: Number(line.dataset.turn), view, cell });
  }

  /** @param {string} name @param {Row} row @param {HTMLElement} opener */
  act(name, { position, item }, opener) {
    const { panel } = this;
    /** @type {Record<string, () => void>} */
    const steps = {
      copy: () => this.copy(position, item, opener),
      view: () => panel.memoryDialog.open(opener),
      edit: () => this.askText(position, (text) => panel.editing.begin(position, text)),
      regenerate: () => panel.command("/again"),
      pin: () => this.askText(position, (text) => panel.command(`/pin ${text}`)),
      exclude: () => panel.command(`/exclude ${position}`),
      include: () => panel.command(`/include ${position}`),
      compact: () => panel.compactDialog.open(opener, position),
      editSummary: () => panel.summaryDialog.open(opener),
      regenerateSummary: () => panel.regenerateDialog.open(opener),
      undo: () => panel.command("/undo"),
      redo: () => panel.command("/redo"),
    };
    steps[name]?.();
  }

  /** As Markdown; without a kernel as it is shown.
   * @param {number} position
   * @param {HTMLElement} item
   * @param {HTMLElement} opener
   */
  copy(position, item, opener) {
    if (this.panel.isGone) showCopied(opener, spokenText(item));
    else this.askText(position, (text) => showCopied(opener, text));
  }

  /** The text as it was typed: invisible characters are not shown in the item.
   * @param {number} position
   * @param {(text: string) => void} then
   */
  askText(position, then) {
    this.token = newToken();
    this.then = then;
    this.panel.send({ type: "message", position, token: this.token });
  }

  /** @param {Answer} message */
  hear(message) {
    if (message.token !== this.token) return;
    this.token = null;
    if (message.type === "message_text") this.then?.(message.text);
  }
}

/** @param {string} name */
function actionButton(name) {
  const made = WORDS[name]
    ? button("nbc-action", ...WORDS[name])
    : iconButton("nbc-action", name, ...LABELS[name]);
  made.dataset.action = name;
  return made;
}

/** @param {HTMLElement} item @param {number} [position] */
function kindOf(item, position) {
  if (item.matches("details.nbc-banner")) return "banner";
  if (position === undefined) return "";
  if (item.matches(".nbc-tool-result")) return "output";
  if (item.matches(".nbc-assistant")) return "answer";
  return item.matches(".nbc-attached, :has(> .nbc-chip)") ? "attachment" : "prompt";
}

/** @param {HTMLElement} note */
export function addBackButton(note) {
  if (!note.matches(".nbc-branched")) return;
  const title = "Reopen the session as it was before";
  note.append(button("nbc-back", "Back to the original", title));
}

/** A turn that failed: its message is kept, and is answered in its place.
 * @param {HTMLElement} note
 */
export function addAgainButton(note) {
  if (!note.matches(".nbc-error[data-retry]")) return;
  addKeyButtons(note);
  if (note.dataset.server) return;
  if (note.matches("[data-continue]")) {
    note.append(button("nbc-continue", "Continue", "Write the rest of the answer"));
  }
  note.append(button("nbc-again", "Try again", "Answer the same message again"));
}

/** Rules from a file of the project, which are used after a yes
 * @param {HTMLElement} card
 */
export function addRulesAnswers(card) {
  if (!card.matches(".nbc-rules")) return;
  const use = primary("Use these rules", "Send them to the model from the next message on");
  const ignore = button("", "Not now", "The model doesn't see them. /rules use turns them on.");
  [use.dataset.answer, ignore.dataset.answer] = ["use", "ignore"];
  card.append(tag("div", "nbc-decision", { role: "group", "aria-label": "Use these rules?" }, use, ignore));
}

// Editing an earlier message in the input box

export class Editing {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    /** @type {number | null} */
    this.position = null; // of the message in the transcript; null while none is edited
    this.draft = ""; // the text of the input box before
    this.original = ""; // the text of the message before
    on(panel.parts.cancelEditing, "click", () => this.cancel());
  }

  get isOn() {
    return this.position !== null;
  }

  /** @param {number} position @param {string} text @param {string} [original] */
  begin(position, text, original) {
    const { input } = this.panel.parts;
    this.draft = this.isOn ? this.kept() : input.value;
    this.show(position, text);
    this.original = original ?? input.value; // the box may change line ends
    input.setSelectionRange(input.value.length, input.value.length);
    input.focus();
  }

  cancel() {
    if (!this.isOn) return;
    this.show(null, this.draft);
    this.panel.focusBox();
  }

  // Another session is shown; it has no such message.
  leave() {
    if (this.isOn) this.show(null, this.kept());
  }

  // The draft from before, and the edited message if it was changed
  kept() {
    const { value } = this.panel.parts.input;
    return value === this.original ? this.draft : joined(this.draft, value);
  }

  /** @param {number | null} position @param {string} text */
  show(position, text) {
    const { input, editing } = this.panel.parts;
    this.position = position;
    editing.hidden = position === null;
    input.value = text;
    this.panel.box.onInput();
  }

  submit() {
    const { panel, position } = this;
    const text = panel.parts.input.value;
    if (!text.trim() || panel.isBlocked) return;
    const previews = panel.attached.keys();
    this.show(null, this.draft);
    panel.focusBox();
    panel.expectTurn(text);
    const pasted = panel.box.pastes.within(text);
    panel.send({ type: "branch", position: /** @type {number} */ (position), text, previews, pasted });
  }
}
