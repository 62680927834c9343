// Dialogs that edit or regenerate the summary

import { FOCUS, focusInput } from "./compact_dialog.js";
import { Dialog, field } from "./dialog.js";
import { on, primary, tag } from "./dom.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { ChatPanel } from "./panel.js" */

const REFUSED = ".nbc-error, .nbc-banner:is([data-state='skipped'], [data-state='failed'])";

export class SummaryDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "Edit the summary", className: "nbc-summary-dialog" });
    this.text = tag("textarea", "", { rows: "9", "data-first": "" });
    this.facts = tag("pre", "nbc-output");
    const label = tag("div", "nbc-label", {}, "Facts kept by code (not editable)");
    this.kept = tag("div", "nbc-kept", {}, label, this.facts);
    this.save = primary("Save", "Use this summary", "submit");
    this.addForm(this.save, field("Summary", this.text), this.kept);
    on(this.text, "input", () => this.draw());
  }

  /** @param {HTMLElement} opener */
  open(opener) {
    this.text.value = this.facts.textContent = "";
    this.text.disabled = true;
    this.isSaving = false;
    super.open(opener);
    this.box.focus();
    this.tell("Loading …");
    this.query({ type: "summary" });
  }

  /** @param {Protocol.SummaryText} message */
  answered({ text, facts }) {
    this.tell("");
    this.text.disabled = false;
    this.text.value = text;
    this.facts.textContent = facts;
    this.kept.hidden = !facts;
    this.text.focus();
    this.text.setSelectionRange(0, 0);
  }

  draw() {
    const { isBlocked } = this;
    const isEmpty = this.text.disabled || !this.text.value.trim();
    this.keepFocus(() => (this.save.disabled = isBlocked || isEmpty));
  }

  submit() {
    this.isSaving = true;
    this.tell("Saving …");
    this.panel.command(`/edit ${this.text.value.trim()}`);
  }

  /** The reason of a refusal is in the transcript, which the dialog covers.
   * @param {HTMLElement} item
   */
  see(item) {
    if (!this.isSaving || !item.matches(REFUSED)) return;
    this.isSaving = false;
    this.tell(item.textContent);
  }

  refresh() {
    if (this.isOpen && this.isSaving) this.close();
  }
}

export class RegenerateDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "Regenerate the summary", className: "nbc-regenerate" });
    this.focus = focusInput();
    this.confirm = primary("Regenerate", "If it fails, the current summary is kept", "submit");
    this.addForm(this.confirm, field(FOCUS, this.focus));
  }

  /** @param {HTMLElement} opener */
  open(opener) {
    this.focus.value = "";
    super.open(opener);
  }

  draw() {
    const { isBlocked } = this;
    this.keepFocus(() => (this.confirm.disabled = isBlocked));
  }

  submit() {
    this.close();
    this.panel.command(`/regenerate ${this.focus.value.trim()}`.trim());
  }
}
