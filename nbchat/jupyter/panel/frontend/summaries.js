// The summary in force: put in one's own words, or written anew

const REFUSED = ".nbc-error, .nbc-banner:is([data-state='skipped'], [data-state='failed'])";

class SummaryDialog extends Dialog {
  constructor(panel) {
    super(panel, { title: "Edit the summary", className: "nbc-summary-dialog" });
    this.story = tag("textarea", "nbc-story", { rows: "9", "data-first": "" });
    this.facts = tag("pre", "nbc-output");
    const told = tag("div", "nbc-label", {}, "Facts kept by code: they stay as they are");
    this.kept = tag("div", "nbc-kept", {}, told, this.facts);
    this.save = button("nbc-primary", "Save", "Let the model see this", "submit");
    const cancel = button("", "Cancel", "Change nothing");
    this.footer.append(cancel, this.save);
    this.form = tag("form", "nbc-fields", {}, field("What the model is told", this.story));
    this.form.append(this.kept, this.footer);
    this.content.append(this.form);
    cancel.addEventListener("click", () => this.close());
    this.story.addEventListener("input", () => this.draw());
    this.form.addEventListener("submit", (event) => this.submit(event));
  }

  open(opener) {
    this.story.value = this.facts.textContent = "";
    this.story.disabled = true;
    this.isSaving = false;
    super.open(opener);
    this.box.focus();
    this.status.textContent = "Looking up the summary …";
    this.panel.send({ type: "summary", token: this.newToken() });
  }

  answered({ story, facts }) {
    this.status.textContent = "";
    this.story.disabled = false;
    this.story.value = story;
    this.facts.textContent = facts;
    this.kept.hidden = !facts;
    this.story.focus();
    this.story.setSelectionRange(0, 0);
  }

  draw() {
    const isBlocked = this.panel.isGone || this.panel.state.is_busy;
    const isEmpty = this.story.disabled || !this.story.value.trim();
    this.keepFocus(() => (this.save.disabled = isBlocked || isEmpty));
  }

  submit(event) {
    event.preventDefault();
    if (this.save.disabled) return;
    this.isSaving = true;
    this.status.textContent = "Saving …";
    this.panel.command(`/edit ${this.story.value.trim()}`);
  }

  // Why it was refused is said in the transcript, which the dialog covers.
  see(item) {
    if (!this.isSaving || !item.matches(REFUSED)) return;
    this.isSaving = false;
    this.status.textContent = item.textContent;
  }

  refresh() {
    if (this.isOpen && this.isSaving) this.close();
  }
}

class AnewDialog extends Dialog {
  constructor(panel) {
    super(panel, { title: "Write the summary anew", className: "nbc-anew" });
    const hint = { type: "text", placeholder: "open questions, decisions …", "data-first": "" };
    this.focus = tag("input", "", hint);
    this.confirm = button("nbc-primary", "Write anew", "The old one stays if it fails", "submit");
    const cancel = button("", "Cancel", "Change nothing");
    this.footer.append(cancel, this.confirm);
    this.form = tag("form", "nbc-fields", {}, field("What matters most", this.focus), this.footer);
    this.content.append(this.form);
    cancel.addEventListener("click", () => this.close());
    this.form.addEventListener("submit", (event) => this.submit(event));
  }

  open(opener) {
    this.focus.value = "";
    super.open(opener);
  }

  draw() {
    const isBlocked = this.panel.isGone || this.panel.state.is_busy;
    this.keepFocus(() => (this.confirm.disabled = isBlocked));
  }

  submit(event) {
    event.preventDefault();
    if (this.confirm.disabled) return;
    this.close();
    this.panel.command(`/regenerate ${this.focus.value.trim()}`.trim());
  }
}
