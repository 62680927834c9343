// Pinned rules, which compactions keep word for word

import { Dialog } from "./dialog.js";
import { button, on, onSubmit, pressedIn, primary, setDisabled, submitByEnter, tag } from "./dom.js";

/** @import { ChatPanel } from "./panel.js" */

const CHECKPOINT = "Checkpoint: ";

export class PinsDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    const note = ": rules sent with every request, never compacted";
    super(panel, { title: "Pins", className: "nbc-pins", note });
    this.drawn = "";
    /** @type {{ text: string, number: number } | null} */
    this.adding = null; // the rule sent last, until it is in the list
    this.list = tag("ol", "nbc-pin-list", { "aria-label": "Pinned" });
    this.none = tag("div", "nbc-none", {}, "Nothing is pinned yet.");
    this.text = tag("textarea", "", { rows: "2", "data-first": "", "aria-label": "New rule" });
    this.text.placeholder = "A rule, such as: never promise a date";
    this.add = primary("Pin", "Keep this rule word for word", "submit");
    this.form = tag("form", "nbc-pin-form", {}, this.text, this.add);
    this.content.append(this.list, this.none);
    this.footer.before(this.form);
    onSubmit(this.form, () => this.submit());
    on(this.text, "input", () => this.draw());
    submitByEnter(this.text);
    on(this.list, "click", (event) => this.remove(event));
  }

  /** @param {HTMLElement} opener */
  open(opener) {
    this.isChanging = false;
    super.open(opener);
  }

  draw() {
    if (!this.isOpen) return;
    const { pins = [], is_busy: isBusy } = this.panel.state;
    const isBlocked = isBusy || this.panel.isGone;
    if (this.adding && pins.length > this.adding.number) this.clear();
    this.none.hidden = pins.length > 0;
    this.keepFocus(() => {
      if (this.drawn !== JSON.stringify(pins)) this.list.replaceChildren(...pins.map(pinRow));
      this.drawn = JSON.stringify(pins);
      setDisabled(this.list, "button", isBlocked);
      this.add.disabled = isBlocked || !this.text.value.trim();
    });
  }

  submit() {
    if (this.add.disabled) return;
    const { pins = [] } = this.panel.state;
    this.adding = { text: this.text.value, number: pins.length };
    this.change(`/pin ${this.text.value.trim()}`);
    this.text.focus();
  }

  clear() {
    if (this.text.value === this.adding?.text) this.text.value = "";
    this.adding = null;
  }

  /** @param {Event} event */
  remove(event) {
    const removed = pressedIn(event, "button");
    if (!removed) return;
    this.text.focus();
    this.change(`/unpin ${removed.dataset.number}`);
  }

  /** @param {string} text */
  change(text) {
    this.isChanging = true;
    this.tell("");
    this.panel.say(text);
  }

  /** The reason of a refusal is in the transcript, which the dialog covers.
   * @param {HTMLElement} item
   */
  see(item) {
    if (!this.isChanging || !item.matches(".nbc-error")) return;
    this.isChanging = false;
    this.adding = null;
    this.tell(item.textContent);
  }
}

/** @param {string} text @param {number} index */
function pinRow(text, index) {
  const isCheckpoint = text.startsWith(CHECKPOINT);
  const rule = isCheckpoint ? text.slice(CHECKPOINT.length) : text;
  const shown = tag("div", "nbc-pin-text", {}, rule);
  if (isCheckpoint) shown.prepend(tag("span", "nbc-chip", {}, "checkpoint"), " ");
  const remove = button("", "Remove", "Unpin this rule");
  remove.dataset.number = String(index + 1);
  return tag("li", "nbc-pin", {}, shown, remove);
}
