// The elements of the panel, made once

import { button, iconButton, newToken, region, tag } from "./dom.js";

/** @typedef {ReturnType<typeof frame>} Parts */

export const SILENT = "The kernel isn't responding. It's running a cell or has stopped.";

const FOREIGN =
  "This page and the kernel have different versions of nbchat. Reload the page.";

/** @type {Record<string, Record<string, string>>} by the headings of their groups */
const MENU = {
  Conversation: {
    new: "New session",
    sessions: "Sessions",
    history: "History",
    transcript: "Keep a transcript in the notebook",
    remove: "Remove text permanently …",
  },
  "What the model gets": {
    pins: "Pins",
    compact: "Compact",
    policy: "Compaction policy",
    servers: "MCP servers",
    cells: "Let the model edit and run cells",
    noCells: "Stop letting the model edit and run cells",
  },
  "This panel": {
    side: "Show beside the notebook",
    settings: "Settings",
  },
};

const EDITING = "Editing an earlier message. The original stays in your sessions.";

export function frame() {
  const parts = { ...headParts(), ...middleParts(), ...footParts() };
  const attributes = { "aria-label": "Chat", "data-lm-suppress-shortcuts": "true" };
  const { header, middle, gone, foreign, queue, choices, running, editing, knownFirst, chips, form } = parts;
  const foot = tag("div", "nbc-foot", {}, choices, running, editing, knownFirst, chips, form);
  const announcements = tag("div", "nbc-unseen", { "aria-live": "polite" });
  const rows = [header, middle, gone, foreign, queue, foot, announcements];
  const root = tag("section", "nbc", attributes, ...rows);
  return { root, announcements, ...parts };
}

function headParts() {
  const dot = tag("span", "nbc-dot", { "aria-hidden": "true" });
  const model = button("nbc-model", "", "Choose another model");
  model.setAttribute("aria-haspopup", "dialog");
  const meterText = tag("span");
  const filling = { role: "progressbar", "aria-label": "Context" };
  const meterBar = tag("span", "nbc-ring", filling);
  const opening = { type: "button", "aria-haspopup": "dialog" };
  const context = tag("button", "nbc-open-context", opening, meterText);
  const meter = tag("div", "nbc-meter", {}, meterBar, context);
  const more = iconButton("", "more", "More", "History, sessions, compaction, settings");
  more.setAttribute("aria-haspopup", "menu");
  more.setAttribute("aria-expanded", "false");
  const menu = tag("div", "nbc-menu", { role: "menu", "aria-label": "More", hidden: "" });
  menu.append(...Object.entries(MENU).map(([title, items]) => menuGroup(title, items)));
  const header = tag("header", "nbc-header", {}, dot, model, meter, more, menu);
  return { header, dot, model, meter, meterText, meterBar, context, more, menu };
}

/** @param {string} title @param {Record<string, string>} items */
function menuGroup(title, items) {
  const heading = tag("div", "nbc-menu-title", { "aria-hidden": "true" }, title);
  const shown = Object.entries(items).map(([name, label]) => menuItem(name, label));
  return tag("div", "nbc-menu-group", { role: "group", "aria-label": title }, heading, ...shown);
}

/** @param {string} name @param {string} label */
function menuItem(name, label) {
  const item = tag("button", "", { type: "button", role: "menuitem", tabindex: "-1" }, label);
  Object.assign(item.dataset, { item: name, label });
  return item;
}

function middleParts() {
  const empty = tag(
    "div",
    "nbc-empty",
    {},
    tag("div", "nbc-empty-title", {}, "What would you like to know?"),
    tag("div", "nbc-empty-hint", {}, "Enter to send, Shift+Enter for a new line"),
    tag("div", "nbc-empty-hint", {}, "/ for commands, @ to attach from the notebook"),
  );
  // Not live: earlier pages and redrawn items are added here, too (see screen_reader.js).
  const quiet = { role: "log", "aria-label": "Conversation", "aria-live": "off" };
  const log = tag("div", "nbc-log", quiet);
  const overviewCount = tag("span", "nbc-badge");
  const overviewText = tag("div", "nbc-overview-text");
  const overviewTitle = tag("summary", "", {}, "Summary ", overviewCount);
  const overview = tag("details", "nbc-overview", { hidden: "" }, overviewTitle, overviewText);
  const live = tag("div", "nbc-live", { "aria-live": "off" });
  const statusText = tag("span", "nbc-status-text");
  const pulse = tag("span", "nbc-pulse", { "aria-hidden": "true" });
  const status = tag("div", "nbc-status", { role: "status" }, pulse, statusText);
  const content = tag("div", "nbc-content", {}, empty, overview, log, live, status);
  const scrolling = region("Transcript");
  const scroller = tag("div", "nbc-scroller", scrolling, content);
  const jump = button("nbc-jump", "Latest", "Jump to the latest message");
  const middle = tag("div", "nbc-middle", {}, scroller, jump);
  const summary = { overview, overviewCount, overviewText };
  return { middle, scroller, content, empty, ...summary, log, live, status, statusText, jump };
}

function footParts() {
  const goneText = tag("span", "", { role: "alert" });
  const reopen = button("nbc-primary", "Reopen chat", "Load nbchat and run this cell again");
  const gone = tag("div", "nbc-gone", {}, goneText, reopen);
  const foreign = tag("div", "nbc-gone", { role: "alert" }, FOREIGN);
  const queue = tag("ul", "nbc-queue", { "aria-label": "Queued messages" });
  const listId = `nbc-choices-${newToken()}`; // several panels may be on one page
  const known = button("nbc-known-chip", "", "See or change what the model knows about the notebook");
  known.hidden = true;
  known.setAttribute("aria-haspopup", "dialog");
  const allowed = button("nbc-allowed", "", "Ask me again before each change and each run");
  allowed.hidden = true;
  const chips = tag("div", "nbc-chips", {}, known, allowed);
  const knownFirst = tag("div", "nbc-known-first", { role: "status", hidden: "" });
  const attachments = tag("ul", "nbc-attachments", { "aria-label": "Attached", hidden: "" });
  const choices = tag("ul", "nbc-choices", { id: listId, role: "listbox", hidden: "" });
  const typing = { rows: "1", placeholder: "Ask anything", "aria-label": "Message", dir: "auto" };
  const completing = { "aria-autocomplete": "list", "aria-controls": listId };
  const input = tag("textarea", "nbc-input", { ...typing, ...completing });
  const cancelEditing = button("", "Cancel", "Cancel editing (Escape)");
  const notice = tag("span", "", { role: "status" }, EDITING);
  const editing = tag("div", "nbc-editing", { hidden: "" }, notice, cancelEditing);
  const running = tag("div", "nbc-editing nbc-cell-notice", { hidden: "" });
  const attach = iconButton("", "attach", "Attach a file");
  const mention = button("nbc-mention", "@", "Attach from the notebook: a variable, cell, error …");
  mention.setAttribute("aria-label", "Attach from the notebook");
  const stop = iconButton("nbc-stop", "stop", "Stop", "Stop the answer (Escape)");
  const send = iconButton("nbc-send", "send", "Send", "Send the message (Enter)", "submit");
  const buttons = tag("div", "nbc-buttons", {}, attach, mention, tag("span"), stop, send);
  const form = tag("form", "nbc-form", {}, attachments, input, buttons);
  const pressed = { attach, mention, stop, send };
  const boxes = { chips, known, allowed, knownFirst, running, editing, cancelEditing, attachments, choices, form, input, ...pressed };
  return { gone, goneText, reopen, foreign, queue, ...boxes };
}

/** What is said of a chat whose kernel is gone
 * @param {{ wasOpen: boolean, isRunning: boolean, canReopen: boolean }} about the page
 */
export function goneText({ wasOpen, isRunning, canReopen }) {
  if ("voila" in document.body.dataset) return "The kernel stopped. Reload the page to go on.";
  const seen = !isRunning ? "The kernel stopped." : wasOpen ? "The kernel restarted." : "This chat is closed.";
  if (canReopen) return seen;
  return isRunning ? `${seen} Run this cell again to go on.` : `${seen} Start it and run this cell again to go on.`;
}
