// Long texts: a message shows its beginning and more in steps; none is laid out as a whole

import { button, count, newToken, on, pressedIn, tag } from "./dom.js";

/** @import { Answer } from "./dialog.js" */
/** @import { ChatPanel } from "./panel.js" */

const PART = 20_000; // characters in one element

export class LongTexts {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    /** @type {HTMLElement | null} */
    this.rest = null; // what is asked for now
    /** @type {string | null} */
    this.token = null;
    this.left = 0; // parts still to come
    on(panel.parts.root, "click", (event) => this.clicked(event));
  }

  /** @param {Event} event */
  clicked(event) {
    const rest = pressedIn(event, ".nbc-rest-show")?.parentElement;
    if (!rest || this.panel.isGone) return;
    const { dataset } = rest;
    const step = Number(dataset.step ?? 1);
    dataset.step = String(2 * step); // the whole of 2 MB in five clicks
    this.rest = rest;
    this.left = step;
    this.panel.transcript.isPinned = false; // what comes is read from here
    this.ask(rest);
  }

  /** @param {HTMLElement} rest */
  ask({ dataset }) {
    this.token = newToken();
    this.left -= 1;
    this.panel.send({ type: "message", position: Number(dataset.position), start: Number(dataset.end), token: this.token });
  }

  /** @param {Answer} message */
  hear(message) {
    const { rest, token } = this;
    if (message.token !== token || !rest) return;
    this.token = null;
    if (message.type !== "message_text") return;
    rest.before(...inParts(message.text));
    rest.dataset.end = String(message.end);
    drawRest(rest);
    if (rest.isConnected && this.left) this.ask(rest);
  }
}

/** A long message gets a button that shows more of it.
 * @param {HTMLElement} item
 * @param {number} [position]
 */
export function addRest(item, position) {
  const rest = /** @type {HTMLElement | null} */ (item.querySelector(".nbc-rest"));
  if (!rest) return;
  rest.dataset.position = String(position);
  rest.append(tag("span"), button("nbc-rest-show", "Show more", "Copy takes the whole text"));
  drawRest(rest);
}

/** @param {HTMLElement} rest */
function drawRest(rest) {
  const { end, length } = rest.dataset;
  if (end === length) rest.remove();
  else if (rest.firstChild) rest.firstChild.textContent = `${count(Number(end))} of ${count(Number(length))} characters`;
}

/** A text as elements of which a browser lays out those in sight
 * @param {string} text
 */
export function inParts(text) {
  const parts = [];
  for (let start = 0, end = 0; start < text.length; start = end) {
    end = partEnd(text, start);
    parts.push(tag("div", "nbc-text nbc-text-part", {}, text.slice(start, end)));
  }
  return parts;
}

/** After a line if one ends there, and not inside a character of two units
 * @param {string} text @param {number} start
 */
function partEnd(text, start) {
  const end = start + PART;
  if (end >= text.length) return text.length;
  const line = text.lastIndexOf("\n", end - 1) + 1;
  if (line > start + PART / 2) return line;
  return /[\ud800-\udbff]/.test(text[end - 1]) ? end - 1 : end;
}
