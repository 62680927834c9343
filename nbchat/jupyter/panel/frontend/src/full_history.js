// All messages, to read and search

import { finishBlocks } from "./code_blocks.js";
import { Dialog } from "./dialog.js";
import { button, fromHtml, later, on, plural, region, tag } from "./dom.js";
import { addRest } from "./long_text.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { NotebookCells } from "./notebook.js" */
/** @import { ChatPanel } from "./panel.js" */

/** @type {Partial<Record<Protocol.HistoryItem["seen"], string>>} */
const SEEN = {
  summarized: "in the summary",
  shortened: "shortened",
  excluded: "excluded",
};

export class HistoryView extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    const note = ": all messages, including those the model no longer sees";
    super(panel, { title: "History", className: "nbc-history", note });
    const typing = { type: "search", placeholder: "Search for words", "data-first": "" };
    this.search = tag("input", "", { ...typing, "aria-label": "Search the history" });
    this.earlier = button("nbc-earlier", "Earlier", "Show earlier messages");
    this.list = tag("div", "nbc-history-list");
    const scrolling = region("Messages");
    this.scroller = tag("div", "nbc-history-scroller", scrolling, this.earlier, this.list);
    this.content.append(tag("div", "nbc-search", {}, this.search, this.status), this.scroller);
    this.footer.remove();
    on(this.search, "input", later(() => this.isOpen && this.ask(null)));
    on(this.earlier, "click", () => this.ask(this.first ?? null));
  }

  /** @param {HTMLElement} opener */
  open(opener) {
    this.search.value = "";
    super.open(opener);
    this.ask(null);
  }

  close() {
    super.close();
    this.list.replaceChildren();
    this.earlier.hidden = true;
  }

  /** @param {number | null} before */
  ask(before) {
    this.before = before;
    const query = this.search.value.trim();
    this.tell("Searching …");
    this.query({ type: "history", query, before });
  }

  /** @param {Protocol.HistoryPage} page */
  answered({ items, total, has_more: hasMore }) {
    const isSearch = this.search.value.trim() !== "";
    const rows = items.map((item) => historyRow(item, isSearch, this.panel.notebook));
    const below = this.scroller.scrollHeight - this.scroller.scrollTop;
    if (this.before === null) this.list.replaceChildren(...rows);
    else this.list.prepend(...rows);
    this.first = items.find((item) => item.position !== null)?.position ?? 0;
    this.earlier.hidden = !hasMore;
    const height = this.scroller.scrollHeight;
    const bottom = this.before === null ? height : height - below;
    this.scroller.scrollTop = isSearch ? 0 : bottom; // the best match is at the top
    this.tell(plural(total, isSearch ? "match" : "message"));
  }
}

/**
 * @param {Protocol.HistoryItem} item
 * @param {boolean} isSearch
 * @param {NotebookCells} notebook
 */
export function historyRow({ position, label, seen, html }, isSearch, notebook) {
  const content = fromHtml(html) ?? tag("div");
  if (isSearch && content.matches("details")) /** @type {HTMLDetailsElement} */ (content).open = true;
  finishBlocks(content, notebook);
  addRest(content, position ?? undefined);
  if (position === null) return tag("div", "nbc-row nbc-row-wide", {}, content);
  const about = { "data-seen": seen, "data-position": String(position), tabindex: "-1" };
  const number = tag("span", "nbc-row-position", {}, `#${position}`);
  const mark = SEEN[seen] ? [tag("span", "nbc-chip", {}, SEEN[seen])] : [];
  const gutter = tag("div", "nbc-row-gutter", {}, label, " ", number, ...mark);
  return tag("div", "nbc-row", about, gutter, content);
}
