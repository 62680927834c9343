// The dialog that removes a text for good, from all that is kept of the session

import { Dialog, field } from "./dialog.js";
import { button, tag } from "./dom.js";

/** @import { ChatPanel } from "./panel.js" */

const SHORTEST = 4; // characters, as /redact takes them

const REMOVED =
  "Removes this text from the session and its branches: from messages, tool outputs, summaries, facts, pins, " +
  "the search index, shared copies and logs. This can't be undone. Files that were " +
  "exported still contain it, and so do the servers that it was sent to.";

export class RemoveDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "Remove permanently", className: "nbc-removing" });
    const typing = { rows: "3", "data-first": "", placeholder: "A password, a name, a number …" };
    this.text = tag("textarea", "", { ...typing, spellcheck: "false" });
    this.confirm = button("nbc-danger", "Remove permanently", "Remove it everywhere", "submit");
    const cancel = button("", "Cancel", "Close without changes");
    this.footer.append(cancel, this.confirm);
    this.form = tag("form", "nbc-fields", {}, field("Text to remove", this.text));
    this.form.append(tag("div", "", {}, REMOVED), this.footer);
    this.content.append(this.form);
    cancel.addEventListener("click", () => this.close());
    this.text.addEventListener("input", () => this.draw());
    this.form.addEventListener("submit", (event) => this.submit(event));
  }

  /** @param {HTMLElement} opener @param {string} [text] */
  open(opener, text = "") {
    this.text.value = text;
    super.open(opener);
  }

  close() {
    this.text.value = "";
    super.close();
  }

  draw() {
    if (!this.isOpen) return;
    const isBlocked = this.panel.isGone || this.panel.state.is_busy;
    const isShort = this.text.value.trim().length < SHORTEST;
    this.keepFocus(() => (this.confirm.disabled = isBlocked || isShort));
  }

  /** @param {Event} event */
  submit(event) {
    event.preventDefault();
    if (this.confirm.disabled) return;
    const text = this.text.value.trim();
    this.close();
    this.panel.parts.announcements.replaceChildren(); // they repeat messages
    this.panel.command(`/redact ${text}`);
  }
}
