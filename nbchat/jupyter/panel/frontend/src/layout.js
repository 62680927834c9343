// The elements of the panel, made once

import { button, newToken, tag } from "./dom.js";

export const SILENT = "The kernel is not responding: it is running a cell or has stopped";

const FOREIGN =
  "This page and the kernel have different versions of nbchat. Reload the page.";

const MENU = { pins: "Pins", sessions: "Sessions", new: "New session" };

const EDITING = "Editing an earlier message. The original stays in your sessions.";

export function frame() {
  const parts = { ...headParts(), ...middleParts(), ...footParts() };
  const attributes = { "aria-label": "Chat", "data-lm-suppress-shortcuts": "true" };
  const { header, middle, gone, foreign, queue, choices, editing, attachments, form } = parts;
  const foot = tag("div", "nbc-foot", {}, choices, editing, attachments, form);
  const announcements = tag("div", "nbc-unseen", { "aria-live": "polite" });
  const rows = [header, middle, gone, foreign, queue, foot, announcements];
  const root = tag("section", "nbc", attributes, ...rows);
  return { root, announcements, ...parts };
}

function headParts() {
  const dot = tag("span", "nbc-dot", { "aria-hidden": "true" });
  const model = button("nbc-model", "", "Choose another model");
  model.setAttribute("aria-haspopup", "dialog");
  const meterText = tag("span", "nbc-meter-text");
  const meterWindow = tag("span", "nbc-meter-window");
  const meterFill = tag("span", "nbc-meter-fill");
  const filling = { role: "progressbar", "aria-label": "Tokens" };
  const meterBar = tag("span", "nbc-meter-bar", filling, meterFill);
  const context = tag("button", "nbc-open-context", { type: "button" }, meterText, meterWindow);
  context.setAttribute("aria-haspopup", "dialog");
  const meter = tag("div", "nbc-meter", {}, context, meterBar);
  const choosing = { "aria-label": "Compaction policy", title: "Compaction policy" };
  const policy = tag("select", "nbc-policy", { ...choosing, hidden: "" });
  const history = button("nbc-open-history", "History", "Read and search all messages");
  const compact = button("nbc-compact", "Compact", "Compact the conversation …");
  const gear = button("nbc-gear", "\u2699\ufe0e", "Settings"); // as text, not as an emoji
  gear.setAttribute("aria-label", "Settings");
  const opening = { "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": "More" };
  const more = button("nbc-more", "\u22ef", "Pins and sessions");
  for (const [name, value] of Object.entries(opening)) more.setAttribute(name, value);
  const menu = tag("div", "nbc-menu", { role: "menu", "aria-label": "More", hidden: "" });
  menu.append(...Object.entries(MENU).map(([name, label]) => menuItem(name, label)));
  const buttons = tag("div", "nbc-header-buttons", {}, policy, history, compact, gear, more, menu);
  const header = tag("header", "nbc-header", {}, dot, model, meter, buttons);
  const meters = { meter, meterText, meterWindow, meterBar, meterFill, context };
  return { header, dot, model, ...meters, policy, history, compact, gear, more, menu };
}

function menuItem(name, label) {
  const item = tag("button", "", { type: "button", role: "menuitem", tabindex: "-1" }, label);
  item.dataset.item = name;
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
  const live = tag("div", "nbc-live", { "aria-live": "off" });
  const statusText = tag("span", "nbc-status-text");
  const pulse = tag("span", "nbc-pulse", { "aria-hidden": "true" });
  const status = tag("div", "nbc-status", { role: "status" }, pulse, statusText);
  const content = tag("div", "nbc-content", {}, empty, log, live, status);
  const scrolling = { tabindex: "0", role: "region", "aria-label": "Transcript" };
  const scroller = tag("div", "nbc-scroller", scrolling, content);
  const jump = button("nbc-jump", "Latest", "Jump to the latest message");
  const badge = tag("span", "nbc-badge");
  const summaryText = tag("div", "nbc-summary-shown");
  const title = tag("summary", "", {}, tag("span", "nbc-summarized-title", {}, "Summary"), badge);
  const summarized = tag("details", "nbc-summarized", { hidden: "" }, title, summaryText);
  const middle = tag("div", "nbc-middle", {}, summarized, scroller, jump);
  const bar = { summarized, badge, summaryText };
  return { middle, ...bar, scroller, content, empty, log, live, status, statusText, jump };
}

function footParts() {
  const gone = tag("div", "nbc-gone", { role: "alert" });
  const foreign = tag("div", "nbc-gone", { role: "alert" }, FOREIGN);
  const queue = tag("ul", "nbc-queue", { "aria-label": "Queued messages" });
  const listId = `nbc-choices-${newToken()}`; // several panels may be on one page
  const attachments = tag("ul", "nbc-attachments", { "aria-label": "Attached", hidden: "" });
  const choices = tag("ul", "nbc-choices", { id: listId, role: "listbox", hidden: "" });
  const typing = { rows: "1", placeholder: "Ask anything", "aria-label": "Message" };
  const completing = { "aria-autocomplete": "list", "aria-controls": listId };
  const input = tag("textarea", "nbc-input", { ...typing, ...completing });
  const cancelEditing = button("", "Cancel", "Cancel editing (Escape)");
  const notice = tag("span", "", { role: "status" }, EDITING);
  const editing = tag("div", "nbc-editing", { hidden: "" }, notice, cancelEditing);
  const stop = button("nbc-stop", "Stop", "Stop the answer");
  const send = button("nbc-send", "Send", "Send the message", "submit");
  const buttons = tag("div", "nbc-buttons", {}, stop, send);
  const form = tag("form", "nbc-form", {}, input, buttons);
  const boxes = { editing, cancelEditing, attachments, choices, form, input, stop, send };
  return { gone, foreign, queue, ...boxes };
}

export function goneText(isEmpty) {
  const cure = "voila" in document.body.dataset ? "reload the page" : "run the cell again";
  if (isEmpty) return `The kernel has stopped or restarted. To open a chat, ${cure}.`;
  return `The kernel has stopped or restarted. You can still read the conversation; to continue, ${cure}.`;
}

export function streamOf(kind) {
  const text = document.createTextNode("");
  const open = tag("div", "nbc-text", {}, text);
  const blocks = tag("div", "nbc-md");
  const root =
    kind === "thinking"
      ? tag("details", "nbc-entry nbc-thinking", { open: "" }, tag("summary", "", {}, "Thinking"))
      : tag("article", "nbc-entry nbc-assistant", { "aria-label": "Assistant" });
  root.append(blocks, open);
  return { root, blocks, text, hidden: tag("div"), hiddenText: "", isCut: false };
}
