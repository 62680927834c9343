// Announcements for screen readers: each finished message, once

import { all, tag } from "./dom.js";

/** @import { ChatPanel } from "./panel.js" */

const ANNOUNCED_MILLISECONDS = 10_000; // then it is removed; the item itself stays readable

/** @type {Set<ChatPanel>} */
const openPanels = new Set(); // of one chat: each model has a module of its own

export class Announcer {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    /** @type {Element[]} */
    this.added = []; // items of this batch
    openPanels.add(panel);
    panel.undo.push(() => openPanels.delete(panel));
  }

  /** The user's own messages and tool calls are not announced; the status covers calls.
   * @param {HTMLElement | null} item
   */
  add(item) {
    if (item) this.added.push(item.matches(".nbc-line") ? (item.firstElementChild ?? item) : item);
  }

  // Once a batch, after it is drawn: finding the visible view forces a layout.
  announce() {
    const texts = this.added.splice(0).map(spoken).filter(Boolean);
    if (texts.length) setTimeout(() => this.isSpeaker() && this.speak(texts));
  }

  /** @param {string[]} texts */
  speak(texts) {
    const paragraphs = texts.map((text) => tag("p", "", {}, text));
    this.panel.parts.announcements.append(...paragraphs);
    setTimeout(() => paragraphs.forEach((each) => each.remove()), ANNOUNCED_MILLISECONDS);
  }

  // One of several views announces: the one with the focus, or the first visible.
  isSpeaker() {
    const views = [...openPanels].filter((panel) => panel.parts.root.getClientRects().length);
    const focused = views.find((panel) => panel.parts.root.contains(document.activeElement));
    return (focused ?? views[0]) === this.panel;
  }
}

/** @param {Element} item */
function spoken(item) {
  if (item.matches(".nbc-assistant")) return `Assistant: ${spokenText(item)}`;
  if (item.matches(".nbc-banner[data-state='running']")) return "";
  if (item.matches(".nbc-banner")) {
    const parts = all(item, ".nbc-banner-title, .nbc-banner-figures");
    return parts.map((part) => part.textContent).join(": ").replace(".: ", ". ");
  }
  return item.matches(".nbc-note, .nbc-notice, .nbc-error") ? withoutButtons(item).textContent : "";
}

/** @param {Element} item */
function withoutButtons(item) {
  const copy = /** @type {Element} */ (item.cloneNode(true));
  all(copy, "button, .nbc-error > details, .nbc-notice > details").forEach((part) => part.remove());
  return copy;
}

/** @param {Element} item */
export function spokenText(item) {
  const copy = withoutButtons(item);
  all(copy, ".nbc-language").forEach((part) => part.remove());
  const blocks = all(copy, ".nbc-md > *, .nbc-cut, .nbc-text");
  return blocks.map((block) => block.textContent.trim()).join("\n");
}
