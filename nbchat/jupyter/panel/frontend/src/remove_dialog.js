// The dialog that removes a text for good, from all that is kept of the session

import { Dialog, field } from "./dialog.js";
import { button, on, tag } from "./dom.js";

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
    this.addForm(this.confirm, field("Text to remove", this.text), tag("div", "", {}, REMOVED));
    on(this.text, "input", () => this.draw());
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
    const { isBlocked } = this;
    const isShort = this.text.value.trim().length < SHORTEST;
    this.keepFocus(() => (this.confirm.disabled = isBlocked || isShort));
  }

  submit() {
    const text = this.text.value.trim();
    this.close();
    this.panel.parts.announcements.replaceChildren(); // they repeat messages
    this.panel.command(`/redact ${text}`);
  }
}
