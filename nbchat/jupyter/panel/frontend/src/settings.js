// The settings dialog, one row per setting

import { Dialog } from "./dialog.js";
import { button, option, options, submitByEnter, tag } from "./dom.js";

const EMPTY = '""';
const TRUE = new Set(["true", "1", "yes", "on"]);

export class SettingsDialog extends Dialog {
  constructor(panel) {
    super(panel, { title: "Settings", className: "nbc-settings" });
    this.rows = new Map();
    this.saving = 0; // answers that are still to come
  }

  open(opener) {
    this.rows.clear();
    this.content.replaceChildren();
    this.saving = 0;
    super.open(opener);
    this.status.textContent = "Loading …";
    this.refresh();
  }

  refresh() {
    if (this.isOpen) this.panel.send({ type: "settings", token: this.newToken() });
  }

  answered({ settings, provider, model }) {
    if (!this.rows.size) this.status.textContent = "";
    const scopes = [
      ["", "all models"],
      [provider, `this provider (${provider})`],
      [model, `this model (${model})`],
      ["session", "this session"],
    ];
    for (const setting of settings) {
      const row = this.rows.get(setting.name) ?? this.addRow(setting);
      row.update(setting, scopes);
    }
  }

  addRow(setting) {
    const row = new SettingRow(setting, (text) => this.save(text));
    this.rows.set(setting.name, row);
    this.content.append(row.root);
    return row;
  }

  save(text) {
    if (this.panel.isGone) return;
    this.saving += 1;
    this.status.textContent = "Saving …";
    this.panel.say(text);
  }

  // The command's answer is in the transcript, which the dialog covers.
  see(item) {
    if (!this.isOpen || !this.saving || !item.matches(".nbc-note, .nbc-error")) return;
    this.saving -= 1;
    this.status.textContent = item.textContent;
  }
}

class SettingRow {
  constructor(setting, save) {
    this.kind = setting.kind;
    this.name = setting.name;
    this.known = null; // the saved value: another one is being edited
    this.input = settingInput(setting);
    this.input.setAttribute("aria-label", setting.name);
    this.scope = tag("select", "nbc-setting-scope", { "aria-label": `Scope of ${setting.name}` });
    this.origin = tag("span", "nbc-setting-origin");
    this.help = tag("span", "nbc-setting-help");
    const name = tag("span", "nbc-setting-name", {}, setting.name);
    const about = tag("div", "nbc-setting-about", {}, name, this.origin, this.help);
    const submit = button("", "Save", `Save ${setting.name}`, "submit");
    submit.setAttribute("aria-label", submit.title);
    this.back = button("", "Reset", `Reset ${setting.name} to its default`);
    this.back.setAttribute("aria-label", `Reset ${setting.name}`);
    const buttons = [submit, this.back];
    const controls = tag("div", "nbc-setting-controls", {}, this.input, this.scope, ...buttons);
    this.root = tag("form", "nbc-setting", {}, about, controls);
    this.root.addEventListener("submit", (event) => {
      event.preventDefault();
      this.say(save, this.value.trim() || EMPTY, this.scope.value);
    });
    this.back.addEventListener("click", () => this.say(save, "default", this.setFor));
  }

  get value() {
    return this.kind === "bool" ? String(this.input.checked) : this.input.value;
  }

  say(save, value, scope) {
    this.known = this.value;
    save(`/set ${this.name} ${value}${scope ? ` for ${scope}` : ""}`);
  }

  update({ value, origin, help, scope }, scopes) {
    this.setFor = scope;
    this.back.disabled = scope === null;
    this.origin.textContent = origin;
    this.help.textContent = help;
    if (this.known === null || this.known === this.value) this.show(value);
    const chosen = Math.max(this.scope.selectedIndex, 0);
    this.scope.replaceChildren(...scopes.map(([name, text]) => option(name, text)));
    this.scope.selectedIndex = chosen;
  }

  show(value) {
    if (this.kind === "bool") this.input.checked = TRUE.has(value.toLowerCase());
    else this.input.value = value;
    this.known = this.value;
  }
}

function settingInput({ kind, choices }) {
  if (kind === "choice") {
    const select = tag("select");
    select.append(...options(choices));
    return select;
  }
  if (kind === "text") {
    const text = tag("textarea", "", { rows: "1" }); // a prompt has lines
    submitByEnter(text);
    return text;
  }
  const types = { bool: "checkbox", int: "number", float: "number" };
  const input = tag("input", "", { type: types[kind] });
  if (kind === "float") input.step = "any";
  input.required = kind === "int" || kind === "float";
  return input;
}
