// Saved sessions: search, resume, rename, copy, export, delete

import { showCopied } from "./clipboard.js";
import { Dialog } from "./dialog.js";
import { all, button, iconButton, isComposing, later, newToken, on, plural, pressedIn, primary, region, tag } from "./dom.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { Answer } from "./dialog.js" */
/** @import { ChatPanel } from "./panel.js" */

const UNFOUND = "No session contains these words.";
const NONE = "No conversation is saved yet. Each one is listed here after its first message.";

export class SessionsDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "Sessions", className: "nbc-sessions" });
    const typing = { type: "search", placeholder: "Search for words", "data-first": "" };
    this.search = tag("input", "", { ...typing, "aria-label": "Search all sessions" });
    this.list = tag("ul", "nbc-session-list", { "aria-label": "Sessions" });
    const scrolling = region("Sessions");
    this.scroller = tag("div", "nbc-history-scroller", scrolling, this.list);
    this.create = button("", "New session", "Start a new session and keep this one");
    const bar = tag("div", "nbc-search", {}, this.search, this.status, this.create);
    this.content.append(bar, this.scroller);
    this.footer.remove();
    on(this.search, "input", later(() => this.refresh()));
    on(this.create, "click", () => this.leave("/new"));
    on(this.list, "click", (event) => this.clicked(event));
    on(this.list, "keydown", (event) => this.typed(event));
  }

  /** @param {HTMLElement} opener */
  open(opener) {
    this.search.value = "";
    this.isChanging = false; // a command was sent, whose note is shown here
    this.textToken = null; // of the session whose text was requested
    this.list.replaceChildren();
    super.open(opener);
    this.tell("Searching …");
    this.refresh();
  }

  refresh() {
    if (!this.isOpen) return;
    const query = this.search.value.trim();
    this.query({ type: "sessions", query });
  }

  /** @param {Protocol.SessionsList} message */
  answered({ sessions, current, total }) {
    const isSearch = this.search.value.trim() !== ""; // then the best match is first
    const rows = isSearch ? sessions.map((each) => sessionRow(each, current)) : byDay(sessions, current);
    this.list.replaceChildren(...(rows.length ? rows : [tag("li", "nbc-nothing", {}, isSearch ? UNFOUND : NONE)]));
    if (!this.isChanging) this.tell(plural(total, "session"));
    this.isChanging = false;
  }

  draw() {
    const { isBlocked } = this;
    const pressed = [this.create, ...this.list.querySelectorAll("button")];
    this.keepFocus(() => pressed.forEach((each) => (each.disabled = isBlocked)));
  }

  /** @param {Event} event */
  clicked(event) {
    const pressed = pressedIn(event, "button");
    const row = pressed?.closest("li");
    if (!pressed || !row) return;
    /** @type {Record<string, () => void>} */
    const steps = {
      resume: () => this.leave(`/resume ${row.dataset.session}`),
      copy: () => this.askText(row, (text) => showCopied(pressed, text)),
      export: () => this.askText(row, (text) => save(text, fileName(titleOf(row)))),
      rename: () => this.name(row),
      title: () => this.rename(row),
      same: () => this.unname(row),
      delete: () => this.confirm(row, true),
      keep: () => this.confirm(row, false),
      gone: () => this.delete(row),
    };
    steps[pressed.dataset.step ?? ""]?.();
  }

  /** As Markdown
   * @param {HTMLElement} row
   * @param {(text: string) => void} then
   */
  askText(row, then) {
    this.textToken = newToken();
    this.then = then;
    this.panel.send({ type: "export", session: row.dataset.session ?? "", token: this.textToken });
  }

  /** @param {Answer} message */
  hear(message) {
    if (message.token !== this.textToken) return super.hear(message);
    this.textToken = null;
    if (message.type === "refused") this.tell(message.reason);
    if (message.type === "session_text") this.then?.(message.text);
  }

  /** A field in place of the title
   * @param {HTMLElement} row
   */
  name(row) {
    for (const other of all(this.list, "li")) if (other !== row) this.unname(other);
    const title = titleOf(row);
    const field = tag("input", "nbc-session-name", { type: "text", "aria-label": "Title", maxlength: "200" });
    field.value = title;
    row.querySelector(".nbc-session-title")?.after(field);
    row.classList.add("nbc-is-renaming");
    const save = primary("Save", "Save the title (Enter)");
    const cancel = button("", "Cancel", "Keep the title (Escape)");
    save.dataset.step = "title";
    cancel.dataset.step = "same";
    row.append(tag("div", "nbc-session-buttons nbc-session-naming", {}, save, cancel));
    field.select();
  }

  /** @param {HTMLElement} row */
  unname(row) {
    if (!row.matches(".nbc-is-renaming")) return;
    row.classList.remove("nbc-is-renaming");
    all(row, ".nbc-session-name, .nbc-session-naming").forEach((each) => each.remove());
    /** @type {HTMLElement | null} */
    const opener = row.querySelector("[data-step=rename]");
    opener?.focus();
  }

  /** @param {HTMLElement} row */
  rename(row) {
    const field = /** @type {HTMLInputElement | null} */ (row.querySelector(".nbc-session-name"));
    const title = field?.value.trim();
    const isNew = title && title !== titleOf(row);
    this.unname(row);
    if (!isNew) return;
    this.isChanging = true;
    this.panel.say(`/rename ${row.dataset.session} ${title}`);
  }

  /** @param {KeyboardEvent} event */
  typed(event) {
    const row = /** @type {HTMLElement} */ (event.target).closest("li");
    const isInName = /** @type {HTMLElement} */ (event.target).matches(".nbc-session-name");
    if (!row || !isInName || isComposing(event) || !["Enter", "Escape"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation(); // Escape closes the dialog
    if (event.key === "Enter") this.rename(row);
    else this.unname(row);
  }

  /** @param {HTMLElement} row @param {boolean} isAsking */
  confirm(row, isAsking) {
    const [usual, asking] = all(row, ".nbc-session-buttons");
    usual.hidden = isAsking;
    asking.hidden = !isAsking;
    /** @type {HTMLElement | null} */
    const last = (isAsking ? asking : usual).querySelector("button:last-child");
    last?.focus();
  }

  /** @param {HTMLElement} row */
  delete(row) {
    this.isChanging = true;
    this.search.focus();
    const rest = row.dataset.branches ? " with branches" : "";
    this.panel.say(`/delete ${row.dataset.session}${rest}`);
  }

  /** @param {HTMLElement} item */
  see(item) {
    if (!this.isOpen || !this.isChanging || !item.matches(".nbc-note, .nbc-error")) return;
    this.tell(item.textContent);
  }
}

/** Rows below headings such as "Today"; the sessions are the newest first
 * @param {Protocol.SessionInfo[]} sessions @param {string} current
 */
function byDay(sessions, current) {
  let last = "";
  return sessions.flatMap((known) => {
    const name = dayName(new Date(known.used_at), new Date());
    const isNew = name !== last;
    last = name;
    const heading = tag("li", "nbc-session-day", {}, name);
    return isNew ? [heading, sessionRow(known, current)] : [sessionRow(known, current)];
  });
}

/** @param {Date} then @param {Date} today */
export function dayName(then, today) {
  if (Number.isNaN(then.getTime())) return "Earlier";
  const midnight = (/** @type {Date} */ time) => new Date(time.getFullYear(), time.getMonth(), time.getDate());
  const days = Math.round((midnight(today).getTime() - midnight(then).getTime()) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return "Previous 7 days";
  if (days < 30) return "Previous 30 days";
  return then.toLocaleString("en-GB", { month: "long", year: "numeric" });
}

/** @param {Protocol.SessionInfo} known @param {string} current */
function sessionRow(known, current) {
  const { id, title, notebook, model, used_at: used, messages, snippet, branches } = known;
  const isCurrent = id === current;
  const file = notebook.split(/[\\/]/).at(-1);
  const versions = branches > 1 ? `${branches} branches` : "";
  const facts = [moment(used), plural(messages, "message"), versions, model, file].filter(Boolean);
  const name = tag("div", "nbc-session-title", {}, title || "(empty)");
  const about = tag("div", "nbc-session-about", {}, name);
  about.append(tag("div", "nbc-session-facts", {}, facts.join(" · ")));
  if (snippet) about.append(tag("div", "nbc-session-facts", {}, snippet));
  const row = tag("li", "nbc-session", { "data-session": id }, about);
  if (isCurrent) row.append(tag("span", "nbc-chip", {}, "current"));
  if (versions) row.dataset.branches = versions;
  row.append(...sessionButtons(title, isCurrent, versions));
  return row;
}

/** @param {string} title @param {boolean} isCurrent @param {string} versions */
function sessionButtons(title, isCurrent, versions) {
  /** @type {(label: string, about: string, name: string, icon?: string) => HTMLButtonElement} */
  const step = (label, about, name, icon = "") => {
    const made = icon ? iconButton("", icon, label, about) : button("", label, about);
    made.dataset.step = name;
    made.setAttribute("aria-label", `${label}: ${title}`);
    return made;
  };
  const usual = tag("div", "nbc-session-buttons", {});
  const asking = tag("div", "nbc-session-buttons", { hidden: "" }, warning(versions));
  usual.append(
    step("Rename", "Give this session another title", "rename", "edit"),
    step("Copy", "Copy this session as Markdown", "copy", "copy"),
    step("Export", "Save this session as a Markdown file", "export"),
  );
  if (isCurrent) return [usual];
  usual.prepend(step("Resume", "Continue this session", "resume"));
  usual.append(step("Delete", "Delete this session", "delete"));
  const gone = step("Delete permanently", "Delete this session", "gone");
  gone.classList.add("nbc-danger");
  asking.append(gone, step("Cancel", "Keep this session", "keep"));
  return [usual, asking];
}

/** @param {string} versions */
function warning(versions) {
  return versions ? `All ${versions} will be deleted. This can't be undone.` : "This can't be undone.";
}

/** @param {Element} row */
function titleOf(row) {
  return row.querySelector(".nbc-session-title")?.textContent ?? "";
}

/** A name that every file system takes
 * @param {string} title
 */
export function fileName(title) {
  const plain = title.replace(/[^\p{L}\p{N}]+/gu, " ").trim();
  return `${[...plain].slice(0, 60).join("").trim().replaceAll(" ", "-") || "chat"}.md`;
}

/** @param {string} text @param {string} name */
function save(text, name) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  tag("a", "", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000); // some browsers read it later
}

/** @param {string} time */
function moment(time) {
  const then = new Date(time);
  /** @type {Intl.DateTimeFormatOptions} */
  const parts = { dateStyle: "medium", timeStyle: "short" };
  return Number.isNaN(then.getTime()) ? time : then.toLocaleString("en-GB", parts);
}
