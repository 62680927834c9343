// Dialogs that edit or regenerate the summary

import { Dialog, field } from "./dialog.js";
import { button, tag } from "./dom.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { ChatPanel } from "./panel.js" */

const REFUSED = ".nbc-error, .nbc-banner:is([data-state='skipped'], [data-state='failed'])";

export class SummaryDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "Edit the summary", className: "nbc-summary-dialog" });
    this.text = tag("textarea", "nbc-summary-edit", { rows: "9", "data-first": "" });
    this.facts = tag("pre", "nbc-output");
    const label = tag("div", "nbc-label", {}, "Facts kept by code (not editable)");
    this.kept = tag("div", "nbc-kept", {}, label, this.facts);
    this.save = button("nbc-primary", "Save", "Use this summary", "submit");
    const cancel = button("", "Cancel", "Close without changes");
    this.footer.append(cancel, this.save);
    this.form = tag("form", "nbc-fields", {}, field("Summary", this.text));
    this.form.append(this.kept, this.footer);
    this.content.append(this.form);
    cancel.addEventListener("click", () => this.close());
    this.text.addEventListener("input", () => this.draw());
    this.form.addEventListener("submit", (event) => this.submit(event));
  }

  /** @param {HTMLElement} opener */
  open(opener) {
    this.text.value = this.facts.textContent = "";
    this.text.disabled = true;
    this.isSaving = false;
    super.open(opener);
    this.box.focus();
    this.status.textContent = "Loading …";
    this.panel.send({ type: "summary", token: this.newToken() });
  }

  /** @param {Protocol.SummaryText} message */
  answered({ text, facts }) {
    this.status.textContent = "";
    this.text.disabled = false;
    this.text.value = text;
    this.facts.textContent = facts;
    this.kept.hidden = !facts;
    this.text.focus();
    this.text.setSelectionRange(0, 0);
  }

  draw() {
    const isBlocked = this.panel.isGone || this.panel.state.is_busy;
    const isEmpty = this.text.disabled || !this.text.value.trim();
    this.keepFocus(() => (this.save.disabled = isBlocked || isEmpty));
  }

  /** @param {Event} event */
  submit(event) {
    event.preventDefault();
    if (this.save.disabled) return;
    this.isSaving = true;
    this.status.textContent = "Saving …";
    this.panel.command(`/edit ${this.text.value.trim()}`);
  }

  /** The reason of a refusal is in the transcript, which the dialog covers.
   * @param {HTMLElement} item
   */
  see(item) {
    if (!this.isSaving || !item.matches(REFUSED)) return;
    this.isSaving = false;
    this.status.textContent = item.textContent;
  }

  refresh() {
    if (this.isOpen && this.isSaving) this.close();
  }
}

export class RegenerateDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "Regenerate the summary", className: "nbc-regenerate" });
    const hint = { type: "text", placeholder: "open questions, decisions …", "data-first": "" };
    this.focus = tag("input", "", hint);
    this.confirm = button("nbc-primary", "Regenerate", "If it fails, the current summary is kept", "submit");
    const cancel = button("", "Cancel", "Close without changes");
    this.footer.append(cancel, this.confirm);
    this.form = tag("form", "nbc-fields", {}, field("What the summary should focus on (optional)", this.focus), this.footer);
    this.content.append(this.form);
    cancel.addEventListener("click", () => this.close());
    this.form.addEventListener("submit", (event) => this.submit(event));
  }

  /** @param {HTMLElement} opener */
  open(opener) {
    this.focus.value = "";
    super.open(opener);
  }

  draw() {
    const isBlocked = this.panel.isGone || this.panel.state.is_busy;
    this.keepFocus(() => (this.confirm.disabled = isBlocked));
  }

  /** @param {Event} event */
  submit(event) {
    event.preventDefault();
    if (this.confirm.disabled) return;
    this.close();
    this.panel.command(`/regenerate ${this.focus.value.trim()}`.trim());
  }
}
