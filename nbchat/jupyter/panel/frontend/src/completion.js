// A list under the caret's word: commands after a slash, names after an @

import { isComposing, newToken, on, pressedIn, tag } from "./dom.js";

const CARET_KEYS = new Set(["ArrowLeft", "ArrowRight", "Home", "End", "PageUp", "PageDown"]);

/** @import * as Protocol from "../protocol.js" */
/** @import { Answer } from "./dialog.js" */
/** @import { ChatPanel } from "./panel.js" */

/** @typedef {Protocol.Completion & { arguments?: string }} Choice */
/** @typedef {{ sign: string, letters: string, start: number }} Word The word at the caret */

export class Completer {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    /** @type {string | null} */
    this.token = null;
    /** @type {Protocol.Completions | Protocol.PathsList | null} */
    this.known = null; // what the kernel offers for the open list
    /** @type {Word | null} */
    this.word = null; // the word being completed: sign, letters, start
    /** @type {number | null} */
    this.closedAt = null; // start of the word for which Escape was pressed
    /** @type {Choice[]} */
    this.items = [];
    this.index = 0;
    const { choices } = panel.parts;
    on(choices, "mousedown", (event) => event.preventDefault());
    on(choices, "click", (event) => this.clicked(event));
  }

  get isOpen() {
    return !this.panel.parts.choices.hidden;
  }

  follow() {
    const found = wordAtCaret(this.panel.parts.input);
    const word = found?.sign === "/" && this.panel.editing.isOn ? null : found;
    if (!word || word.start !== this.word?.start || word.sign !== this.word?.sign) {
      this.known = this.closedAt = null;
    }
    if (word?.sign === PATH && word.letters !== this.word?.letters) this.known = null;
    this.word = word;
    if (!word || this.closedAt === word.start || this.panel.isGone) this.hide();
    else if (this.known) this.draw();
    else this.ask();
  }

  ask() {
    if (this.token) return;
    this.token = newToken();
    const { token } = this;
    const word = /** @type {Word} */ (this.word);
    this.asked = word.letters;
    if (word.sign === PATH) this.panel.send({ type: "paths", start: word.letters, token });
    else this.panel.send({ type: "complete", token });
  }

  /** @param {Answer} message */
  hear(message) {
    if (message.token !== this.token) return;
    this.token = null;
    const wanted = this.word?.sign === PATH ? "paths_list" : "completions";
    const isStale = wanted === "paths_list" && this.asked !== this.word?.letters;
    if (message.type !== wanted || isStale) return this.word && this.follow();
    this.known = message;
    this.follow();
  }

  draw() {
    const { sign, letters } = /** @type {Word} */ (this.word);
    const known = /** @type {Protocol.Completions | Protocol.PathsList} */ (this.known);
    if (known.type === "paths_list") this.items = known.paths;
    else this.items = matching(sign === "/" ? known.commands : known.names, letters);
    this.index = 0;
    const { choices } = this.panel.parts;
    choices.setAttribute("aria-label", sign === "/" ? "Commands" : "What to attach");
    const rows = this.items.map((item, n) => choice(item, `${choices.id}-${n}`, sign));
    choices.replaceChildren(...rows);
    choices.hidden = !this.items.length;
    this.mark();
  }

  mark() {
    const { choices, input } = this.panel.parts;
    [...choices.children].forEach((row, n) => row.setAttribute("aria-selected", String(n === this.index)));
    const chosen = this.isOpen ? choices.children[this.index] : null;
    if (chosen) input.setAttribute("aria-activedescendant", chosen.id);
    else input.removeAttribute("aria-activedescendant");
    chosen?.scrollIntoView({ block: "nearest" });
  }

  hide() {
    this.panel.parts.choices.hidden = true;
    this.mark();
  }

  close() {
    this.closedAt = this.word?.start ?? null;
    this.hide();
  }

  /** Whether the list handles a key
   * @param {KeyboardEvent} event
   */
  takes(event) {
    if (!this.isOpen || isComposing(event) || event.shiftKey) return false;
    if (CARET_KEYS.has(event.key)) this.close(); // the caret leaves the word
    if (!this.isOpen) return false;
    /** @type {Record<string, () => void>} */
    const steps = {
      ArrowDown: () => this.move(1),
      ArrowUp: () => this.move(-1),
      Tab: () => this.choose(),
      Enter: () => this.choose(),
      Escape: () => this.close(),
    };
    const isWhole = this.items[this.index].name === this.word?.letters;
    if (!steps[event.key] || (event.key === "Enter" && isWhole)) {
      if (event.key === "Enter") this.close();
      return false;
    }
    event.preventDefault();
    steps[event.key]();
    return true;
  }

  /** @param {number} step */
  move(step) {
    this.index = (this.index + step + this.items.length) % this.items.length;
    this.mark();
  }

  /** @param {Event} event */
  clicked(event) {
    /** @type {HTMLElement | null} */
    const row = pressedIn(event, "[role=option]");
    if (!row) return;
    this.index = [...this.panel.parts.choices.children].indexOf(row);
    this.choose();
  }

  choose() {
    const { input } = this.panel.parts;
    const { name, arguments: wanted } = this.items[this.index];
    const { sign, start } = /** @type {Word} */ (this.word);
    const goesOn = sign === "/" ? Boolean(wanted) : !/[:/]$/.test(name);
    const text = `${sign}${name}${goesOn ? " " : ""}`;
    input.setRangeText(text, start, input.selectionEnd, "end");
    const isOpen = /[:/]$/.test(name); // a path goes on
    if (!isOpen) this.close();
    this.panel.box.onInput();
    if (!isOpen) this.close();
  }
}

const PATH = ""; // the sign of a path after @file: or @image:

/** A slash counts at the very beginning only, an @ wherever a word may begin.
 * @param {Pick<HTMLTextAreaElement, "value" | "selectionStart" | "selectionEnd">} input
 * @returns {Word | null}
 */
export function wordAtCaret({ value, selectionStart: caret, selectionEnd: end }) {
  const path = /(?:^|[\s([{"',;])@!?(?:file|image):([^\s"]*)$/.exec(value.slice(0, caret));
  if (path && caret === end && !/^\S/.test(value.slice(caret))) {
    return { sign: PATH, letters: path[1], start: caret - path[1].length };
  }
  const found = /(?:^(\/)|(?:^|[\s([{"',;])(@))(\w*)$/.exec(value.slice(0, caret));
  if (!found || caret !== end || /^\w/.test(value.slice(caret))) return null;
  const [, slash, at, letters] = found;
  return { sign: slash ?? at, letters, start: caret - letters.length - 1 };
}

/** @param {Choice[]} offered @param {string} letters */
export function matching(offered, letters) {
  const wanted = letters.toLowerCase();
  /** @param {Choice} item */
  const begins = (item) => item.name.toLowerCase().startsWith(wanted);
  /** @param {Choice} item */
  const holds = (item) => !begins(item) && item.name.toLowerCase().includes(wanted);
  return [...offered.filter(begins), ...offered.filter(holds)];
}

/** @param {Choice} item @param {string} id @param {string} sign */
function choice({ name, help, arguments: wanted }, id, sign) {
  const row = tag("li", "nbc-choice", { role: "option", id });
  row.append(tag("span", "nbc-choice-name", {}, `${sign}${name}`));
  if (wanted) row.append(tag("span", "nbc-choice-arguments", {}, wanted));
  row.append(tag("span", "nbc-choice-help", {}, help));
  return row;
}
