// Texts that were pasted or dropped into the box: no rule is read from them

import { on } from "./dom.js";

const SHORTEST = 40; // characters of one line; a word or a name is the person's own
const MOST = 30; // texts that are remembered
const PART = 8; // characters of a part by which a changed text is recognised
const PART_END = /[\n.!?\u3002\uff01\uff1f\u0964]/;

export class Pastes {
  constructor() {
    /** @type {string[]} */
    this.texts = [];
    this.copied = ""; // from the box itself
  }

  /** @param {HTMLTextAreaElement} input */
  listen(input) {
    const copy = () => {
      const selected = input.value.slice(input.selectionStart, input.selectionEnd);
      this.copied = this.within(selected).length ? "" : selected;
    };
    on(input, "copy", copy);
    on(input, "cut", copy);
    on(input, "paste", (event) => this.add(event.clipboardData?.getData("text/plain") ?? ""));
    on(input, "drop", (event) => {
      const text = event.dataTransfer?.getData("text/plain") ?? "";
      if (!input.value.includes(text)) this.add(text); // else it is moved
    });
  }

  /** @param {string} pasted */
  add(pasted) {
    const text = pasted.replaceAll("\r\n", "\n").trim();
    const isOwn = text === this.copied.trim();
    if (isOwn || (text.length < SHORTEST && !text.includes("\n"))) return;
    this.texts = [...this.texts.filter((each) => each !== text), text].slice(-MOST);
  }

  /** Those that are in a text, whole or in part
   * @param {string} text
   */
  within(text) {
    return this.texts.filter((pasted) => text.includes(pasted) || isInParts(pasted, text));
  }
}

/** @param {string} pasted @param {string} text */
function isInParts(pasted, text) {
  const parts = pasted.split(PART_END).map((part) => part.trim());
  return parts.some((part) => part.length >= PART && text.includes(part));
}
