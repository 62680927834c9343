// The settings dialog: groups of settings, one scope and one Save for all that changed

import { Dialog } from "./dialog.js";
import { button, on, onSubmit, option, plural, primary, submitByEnter, tag } from "./dom.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { ChatPanel } from "./panel.js" */

const EMPTY = '""';
const TRUE = new Set(["true", "1", "yes", "on"]);

/** Labels by the names of settings, in groups; what is not named here is under ADVANCED.
 * @type {Record<string, Record<string, string>>}
 */
const GROUPS = {
  Answers: {
    effort: "Reasoning effort",
    max_output_tokens: "Longest answer",
  },
  "Long conversations": {
    automatic: "Compact automatically",
    policy: "How to compact",
    context_token_threshold: "Compact after this many input tokens",
    summary_model: "Model that writes summaries",
    notifications: "Show a line after each compaction",
  },
  "This notebook": {
    notebook_tools: "Let the model edit and run cells",
    rules_files: "Use the project's rules",
    keep_transcript: "Keep a transcript in the notebook",
  },
};

const ADVANCED = "Advanced";

/** @type {Record<string, string>} labels of settings under ADVANCED */
const MORE = {
  window: "Context window",
  fallback_model: "Second model for summaries",
  summary_prompt: "Instructions for summaries",
  context_tools: "Let the model decide when to compact",
  temperature: "Temperature",
  top_p: "Top-p sampling",
  cache_lifetime: "Prompt cache",
  timeout_seconds: "Time limit",
  attempts: "Attempts after errors",
};

const LABELS = Object.assign({}, ...Object.values(GROUPS), MORE);

const FOLDERS = /\S*[\\/](?=[^\\/]+$)/; // of the file that a value comes from

export class SettingsDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "Settings", className: "nbc-settings" });
    /** @type {Map<string, SettingRow>} */
    this.rows = new Map();
    /** @type {SettingRow[]} */
    this.saving = []; // whose answer is still to come
    this.saved = 0; // how many are saved together
    this.scope = tag("select", "", { "aria-label": "Save for" });
    this.save = primary("Save", "Save what you changed", "submit");
    const close = button("", "Cancel", "Close without saving");
    this.form = tag("form", "nbc-setting-form", { "aria-label": "Settings" });
    this.list = tag("div", "nbc-setting-list");
    this.search = tag("input", "nbc-setting-search", { type: "search", placeholder: "Search settings", "aria-label": "Search settings" });
    this.search.dataset.first = "";
    on(this.search, "input", () => this.find());
    on(this.search, "keydown", (event) => event.key === "Enter" && event.preventDefault());
    this.footer.append(this.scope, close, this.save);
    this.form.append(this.search, this.list, this.footer);
    this.content.append(this.form);
    on(close, "click", () => this.close());
    on(this.form, "input", () => this.draw());
    onSubmit(this.form, () => this.saveChanges());
  }

  /** @param {HTMLElement} opener */
  open(opener) {
    this.rows.clear();
    this.list.replaceChildren();
    this.search.value = "";
    this.saving = [];
    super.open(opener);
    this.tell("Loading …");
    this.refresh();
  }

  refresh() {
    if (this.isOpen) this.query({ type: "settings" });
  }

  /** @param {Protocol.SettingsList} message */
  answered({ settings, provider, model }) {
    if (!this.rows.size) this.tell("");
    if (!this.rows.size) this.addGroups(settings);
    for (const setting of settings) this.rows.get(setting.name)?.update(setting);
    const chosen = Math.max(this.scope.selectedIndex, 0);
    /** @type {[string, string][]} */
    const scopes = [
      ["", "For all models"],
      [provider, `For this provider (${provider})`],
      [model, `For this model (${model})`],
      ["session", "For this session"],
    ];
    this.scope.replaceChildren(...scopes.map(([name, text]) => option(name, text)));
    this.scope.selectedIndex = chosen;
  }

  /** @param {Protocol.SettingInForce[]} settings */
  addGroups(settings) {
    const known = new Map(settings.map((setting) => [setting.name, setting]));
    const named = Object.values(GROUPS).flatMap((group) => Object.keys(group));
    const others = [...known.keys()].filter((name) => !named.includes(name));
    const first = Object.keys(MORE).filter((name) => known.has(name));
    const rest = [...new Set([...first, ...others])];
    for (const [title, group] of Object.entries(GROUPS)) this.addGroup(title, Object.keys(group), known);
    this.addGroup(ADVANCED, rest, known);
  }

  /** @param {string} title @param {string[]} names @param {Map<string, Protocol.SettingInForce>} known */
  addGroup(title, names, known) {
    const found = names.map((name) => known.get(name)).filter((setting) => setting !== undefined);
    const rows = found.map((setting) => this.addRow(setting));
    if (!rows.length) return;
    const isAdvanced = title === ADVANCED;
    const heading = tag(isAdvanced ? "summary" : "h3", "nbc-setting-group", {}, title);
    const set = tag(isAdvanced ? "details" : "div", "nbc-setting-set", {}, heading, ...rows);
    this.list.append(tag("div", "", { role: "group", "aria-label": title }, set));
  }

  // Rows whose label, name or help has all words
  find() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of this.rows.values()) row.root.hidden = !words.every((word) => row.words.includes(word));
    for (const group of /** @type {Iterable<HTMLElement>} */ (this.list.children)) {
      const isFound = group.querySelector(".nbc-setting:not([hidden])");
      group.hidden = !isFound;
      const details = group.querySelector("details");
      if (details && words.length) details.open = Boolean(isFound);
    }
    const isNothing = words.length && ![...this.rows.values()].some((row) => !row.root.hidden);
    this.tell(isNothing ? "No setting contains these words." : "");
  }

  /** @param {Protocol.SettingInForce} setting */
  addRow(setting) {
    const row = new SettingRow(setting, () => this.send(row, "default", row.setFor));
    this.rows.set(setting.name, row);
    return row.root;
  }

  draw() {
    if (!this.isOpen) return;
    const changed = [...this.rows.values()].filter((row) => row.isChanged);
    const isBlocked = this.panel.isGone || !changed.length;
    this.keepFocus(() => (this.save.disabled = isBlocked));
    this.save.textContent = changed.length > 1 ? `Save ${changed.length} changes` : "Save";
  }

  saveChanges() {
    const changed = [...this.rows.values()].filter((row) => row.isChanged);
    for (const row of changed) this.send(row, row.value.trim() || EMPTY, this.scope.value);
    this.draw();
  }

  /** @param {SettingRow} row @param {string} value @param {string | null} [scope] */
  send(row, value, scope) {
    if (this.panel.isGone) return;
    row.accept();
    row.tell("");
    this.saving.push(row);
    this.saved = this.saving.length;
    this.tell("Saving …");
    this.panel.say(`/set ${row.name} ${value}${scope ? ` for ${scope}` : ""}`);
  }

  /** The command's answer is in the transcript, which the dialog covers.
   * @param {HTMLElement} item
   */
  see(item) {
    if (!this.isOpen || !this.saving.length || !item.matches(".nbc-note, .nbc-error")) return;
    const row = this.saving.shift();
    const isRefused = item.matches(".nbc-error");
    const text = (item.textContent ?? "").replace(row?.name ?? "", (name) => labelOf(name));
    if (isRefused) {
      row?.refuse(text);
      item.hidden = true;
      this.saved = 0;
    }
    const isAll = !this.saving.length && this.saved > 1;
    this.tell(isRefused ? "Not saved." : isAll ? `${plural(this.saved, "setting")} saved` : text);
  }

  /** A refused change stays in its field; the message box doesn't get it.
   * @param {string} text
   */
  keeps(text) {
    return this.isOpen && text.startsWith("/set ");
  }
}

/** What a setting is called; else what its name says, with units behind it
 * @param {string} name
 */
export function labelOf(name) {
  if (LABELS[name]) return LABELS[name];
  const words = name.replace(/_seconds$/, " (seconds)").replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A help says behind "None:" what an empty field means: the field shows it.
 * @param {string} help
 * @param {Protocol.SettingInForce["kind"]} kind
 */
export function helpOf(help, kind) {
  if (kind === "choice") return [help.replace("None:", "Default:"), ""];
  const [found, meaning] = /\s*None: (.+?)\.(?=\s|$)/.exec(help) ?? ["", ""];
  return [help.replace(found, ""), meaning];
}

/** A choice in words
 * @param {string} name
 */
function wordOf(name) {
  return { true: "on", false: "off", ask: "ask first" }[name] ?? name;
}

/** What a setting does now, in words
 * @param {string} value
 * @param {string} meaning of an empty field
 * @param {Protocol.SettingInForce["kind"]} kind
 */
export function nowOf(value, meaning, kind) {
  if (kind === "bool") return TRUE.has(value.toLowerCase()) ? "on" : "off";
  if (kind === "int" && value) return Number(value).toLocaleString("en-US");
  const lines = value.split("\n");
  const known = value === "default" && meaning ? "" : wordOf(value);
  return (lines.length > 1 ? `${lines[0]} …` : known) || meaning || "not set";
}

class SettingRow {
  /** @param {Protocol.SettingInForce} setting @param {() => void} reset */
  constructor(setting, reset) {
    this.kind = setting.kind;
    this.name = setting.name;
    this.words = ""; // in which a search looks
    /** @type {string | null} */
    this.known = null; // the saved value: another one is being edited
    this.input = /** @type {HTMLInputElement} */ (settingInput(setting));
    const label = labelOf(setting.name);
    this.input.setAttribute("aria-label", label);
    this.origin = tag("span", "nbc-setting-origin");
    this.help = tag("span", "nbc-setting-help");
    const name = tag("span", "nbc-setting-name", { title: setting.name }, label);
    this.problem = tag("span", "nbc-setting-problem", { role: "status" });
    on(this.input, "input", () => this.tell(""));
    const about = tag("div", "nbc-setting-about", {}, name, this.help, this.origin, this.problem);
    this.back = button("nbc-setting-reset", "Reset", "Reset to the default");
    this.back.setAttribute("aria-label", `Reset ${label}`);
    on(this.back, "click", reset);
    const controls = tag("div", "nbc-setting-controls", {}, this.input, this.back);
    this.root = tag("div", "nbc-setting", {}, about, controls);
  }

  get value() {
    return this.kind === "bool" ? String(this.input.checked) : this.input.value;
  }

  get isChanged() {
    return this.known !== null && this.value !== this.known;
  }

  accept() {
    this.before = this.known;
    this.known = this.value;
  }

  /** @param {string} reason */
  refuse(reason) {
    this.known = this.before ?? null;
    this.tell(reason);
  }

  /** @param {string} problem */
  tell(problem) {
    this.problem.textContent = problem;
  }

  /** @param {Protocol.SettingInForce} setting */
  update({ value, origin, help, scope }) {
    this.setFor = scope;
    this.back.hidden = scope === null;
    const [text, meaning] = helpOf(help, this.kind);
    const from = origin === "default" ? "" : ` (${origin.replace(FOLDERS, "")})`;
    this.origin.textContent = `Now: ${nowOf(value, helpOf(help, "text")[1], this.kind)}${from}`;
    this.origin.title = origin;
    this.help.textContent = text;
    this.input.placeholder = meaning;
    this.words = `${this.name} ${this.input.getAttribute("aria-label")} ${help}`.toLowerCase();
    if (!this.isChanged) this.show(value);
  }

  /** @param {string} value */
  show(value) {
    if (this.kind === "bool") this.input.checked = TRUE.has(value.toLowerCase());
    else this.input.value = value;
    this.accept();
  }
}

/** @param {Protocol.SettingInForce} setting */
function settingInput({ kind, choices }) {
  if (kind === "choice") {
    const select = tag("select");
    select.append(...choices.map((name) => option(name, wordOf(name))));
    return select;
  }
  if (kind === "text") {
    const text = tag("textarea", "", { rows: "1", dir: "auto" }); // a prompt has lines
    submitByEnter(text);
    return text;
  }
  const types = { bool: "checkbox", int: "number", float: "number" };
  const input = tag("input", "", { type: types[kind] });
  if (kind === "float") input.step = "any";
  return input;
}
