// What the model is told of the notebook, unasked: a chip above the box, and what it sends

import { Dialog } from "./dialog.js";
import { all, button, count, newToken, on, plural, region, tag } from "./dom.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { Answer } from "./dialog.js" */
/** @import { ChatPanel } from "./panel.js" */

const FIRST =
  "The model also sees an outline of this notebook: its cells, variables and last error. Click below to see or change it.";
const TOLD = "nbchat-told-of-outline"; // said once in this browser

export class KnownDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "What the model knows", className: "nbc-known" });
    this.hint = tag("p", "nbc-known-hint", {}, "The latest state is sent with each message. It isn't kept in the chat.");
    this.parts = tag("div", "nbc-known-parts", { role: "group", "aria-label": "Parts" });
    const scrolling = region("What is sent");
    this.sent = tag("pre", "nbc-output", scrolling);
    this.agree = button("nbc-primary", "", "Send it with each request from now on");
    this.off = button("", "Turn off", "Don't tell the model about the notebook, in any chat");
    const done = button("", "Done", "Back to the message");
    done.dataset.first = "";
    this.content.append(this.hint, this.parts, this.sent);
    this.footer.append(this.off, this.agree, done);
    on(done, "click", () => this.close());
    on(this.agree, "click", () => this.ask({ agrees: true }));
    on(this.off, "click", () => this.leave("/set notebook_context off"));
    on(this.parts, "change", () => this.ask({ left_out: this.leftOut() }));
  }

  /** @param {HTMLElement} opener */
  open(opener) {
    super.open(opener);
    this.ask({});
  }

  close() {
    super.close();
    this.panel.known.look(); // an answer that comes only now is not heard
  }

  /** @param {Partial<Protocol.Knows>} change */
  ask(change) {
    this.query({ type: "knows", left_out: null, agrees: false, ...change });
  }

  leftOut() {
    /** @type {HTMLInputElement[]} */
    const boxes = all(this.parts, "input");
    return boxes.filter((each) => !each.checked).map((each) => each.name);
  }

  /** @param {Answer} message */
  answered(message) {
    if (message.type !== "known") return;
    const { text, tokens, parts, asks_for: provider } = message;
    this.panel.known.take(message);
    this.tell(text ? `About ${plural(tokens, "token")}` : "");
    this.sent.textContent = text || "Nothing is sent.";
    this.agree.hidden = !provider;
    this.agree.textContent = `Share with ${provider}`;
    const names = parts.map((part) => part.name).join();
    if (this.parts.dataset.names !== names) this.parts.replaceChildren(...parts.map(partBox));
    this.parts.dataset.names = names;
  }
}

/** @param {Protocol.KnownPart} part */
function partBox({ name, label, total, is_on: isOn }) {
  const box = tag("input", "", { type: "checkbox", name });
  box.checked = isOn;
  return tag("label", "", {}, box, total ? `${label} (${count(total)})` : label);
}

export class Known {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    this.token = "";
    const { known } = panel.parts;
    on(known, "click", () => panel.knownDialog.open(known));
    on(panel.parts.input, "focus", () => this.look());
  }

  look() {
    if (this.panel.isGone || this.panel.state.phase !== "ready") return;
    this.token = newToken();
    this.panel.send({ type: "knows", left_out: null, agrees: false, token: this.token });
  }

  /** @param {Answer} message */
  hear(message) {
    if (message.token !== this.token) return;
    this.token = "";
    if (message.type === "known") this.take(message);
  }

  /** @param {Protocol.Known} answer */
  take({ text, parts, asks_for: provider, is_off: isOff }) {
    const { known, knownFirst } = this.panel.parts;
    known.hidden = isOff || !parts.length;
    known.classList.toggle("nbc-is-asking", Boolean(provider));
    known.textContent = provider ? `Share this notebook with ${provider}?` : chipText(text, parts);
    const isFirst = !known.hidden && !provider && !localStorage.getItem(TOLD);
    knownFirst.hidden = !isFirst;
    if (isFirst && !knownFirst.textContent) knownFirst.textContent = FIRST;
  }

  // With the first message the sentence has been read.
  said() {
    const { knownFirst } = this.panel.parts;
    if (!knownFirst.hidden) localStorage.setItem(TOLD, "yes");
    knownFirst.hidden = true;
  }
}

/** @param {string} text @param {Protocol.KnownPart[]} parts */
export function chipText(text, parts) {
  const counted = parts.filter((part) => part.is_on && part.total).toReversed(); // cells first
  const words = counted.map(({ name, total }) => plural(total, name === "cells" ? "cell" : "variable"));
  return text ? `Knows: ${words.join(", ") || "parts of the notebook"}` : "Knows nothing about the notebook";
}
