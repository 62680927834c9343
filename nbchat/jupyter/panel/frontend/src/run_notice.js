// Notices about a cell that runs for the model: a line above the box says what it waits for
// or that it does not stop; the card of its call has what it asks with input().

import { button, focusQuietly, on, onSubmit, primary, tag } from "./dom.js";

/** @import { Kernel } from "./notebook.js" */
/** @import { ChatPanel } from "./panel.js" */

export class RunNotice {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    this.shownFor = ""; // a token; empty where nothing is shown
    /** @type {HTMLElement | null} */
    this.question = null; // of a cell, until it is answered
  }

  get line() {
    return this.panel.parts.running;
  }

  /** @param {string} shownFor @param {string} text @param {...HTMLElement} controls */
  show(shownFor, text, ...controls) {
    this.shownFor = shownFor;
    this.line.replaceChildren(tag("span", "", { role: "status" }, text), ...controls);
    this.line.hidden = false;
  }

  /** @param {string} shownFor */
  hide(shownFor) {
    if (shownFor !== this.shownFor) return;
    this.shownFor = "";
    this.line.replaceChildren();
    this.line.hidden = true;
  }

  /** A run waits for another cell.
   * @param {string} token @param {string} text @param {() => void} withdraw
   */
  wait(token, text, withdraw) {
    if (!text) return this.hide(token);
    const undo = button("", "Withdraw", "Don't run the model's cell");
    on(undo, "click", () => {
      this.hide(token);
      withdraw();
    });
    this.show(token, text, undo);
  }

  /** A cell asks for a line of text.
   * @param {string} prompt @param {boolean} isSecret @param {(value: string) => void} reply
   */
  ask(prompt, isSecret, reply) {
    const type = isSecret ? "password" : "text";
    const label = prompt || "The cell asks for input";
    const input = tag("input", "nbc-run-input", { type, "aria-label": label, autocomplete: "off" });
    const send = primary("Answer", "Send this to the cell", "submit");
    const form = tag("form", "nbc-run-form", {}, tag("span", "", { role: "status" }, label), input, send);
    onSubmit(form, () => reply(input.value));
    this.question = form;
    this.panel.draw();
    if (!this.panel.parts.input.value) focusQuietly(input);
  }

  endQuestion() {
    this.question?.remove();
    this.question = null;
    this.hide("question");
  }

  // A card that was drawn again gets the question again. Where the call has ended before
  // its cell, and on an earlier page, it is above the box.
  draw() {
    const { question } = this;
    if (!question || (question.isConnected && !question.closest(".nbc-tool[data-state]"))) return;
    const hadFocus = question.contains(document.activeElement);
    this.place(question);
    if (hadFocus) focusQuietly(/** @type {HTMLElement} */ (question.querySelector("input")));
  }

  /** @param {HTMLElement} question */
  place(question) {
    const { log } = this.panel.parts;
    const card = /** @type {HTMLDetailsElement | null} */ (log.querySelector(".nbc-tool:not([data-state])"));
    if (!card) return this.show("question", "", question);
    card.open = true;
    card.append(question);
  }

  /** @param {string} name @param {Kernel} kernel */
  offerRestart(name, kernel) {
    const restart = button("", "Restart kernel", "Restart the kernel. All variables are lost.");
    const leave = button("", "Let it run", "Hide this line");
    on(restart, "click", () => {
      this.hide("stop");
      kernel.restart();
    });
    on(leave, "click", () => this.hide("stop"));
    this.show("stop", `${name} doesn't stop. Restart the kernel and lose its variables?`, restart, leave);
  }
}
