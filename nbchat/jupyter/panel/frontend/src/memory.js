// The memory, to check: what the model sees now, beside all that was said

import { Dialog } from "./dialog.js";
import { all, button, count, focusQuietly, fromHtml, on, plural, pressedIn, region, tag } from "./dom.js";
import { historyRow } from "./full_history.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { ChatPanel } from "./panel.js" */

const AFTER = 3; // messages shown below the one that was opened

const MARK = /\[not (?:with [^\]]{1,130} )?in\s+the\s+conversation\]/;

export class MemoryDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "What the model remembers", className: "nbc-memory" });
    this.seen = tag("div", "nbc-memory-side", region("What the model sees now"));
    this.said = tag("div", "nbc-memory-side", region("All messages"));
    this.content.append(this.seen, this.said);
    on(this.seen, "click", (event) => {
      const source = pressedIn(event, ".nbc-source");
      if (source) this.show(Number(source.dataset.position));
    });
    on(panel.parts.log, "click", (event) => {
      const source = pressedIn(event, ".nbc-source");
      if (source) this.open(source, Number(source.dataset.position));
    });
  }

  /** At a message, or at the newest one that the model no longer sees.
   * @param {HTMLElement} opener
   * @param {number | null} position
   */
  open(opener, position = null) {
    /** @type {number | null} */
    this.wanted = position;
    this.position = null;
    this.seen.replaceChildren();
    this.said.replaceChildren();
    super.open(opener);
    this.tell("Loading …");
    this.query({ type: "memory" });
  }

  /** @param {Protocol.MemoryView | Protocol.HistoryPage} message */
  answered(message) {
    if (message.type === "memory_view") this.drawMemory(message);
    else this.drawSaid(message);
  }

  /** @param {Protocol.MemoryView} memory */
  drawMemory({ html, values, facts, covered, kept }) {
    const story = fromHtml(html);
    const unfound = linkValues(story, values);
    const follow = kept === 1 ? "follows" : "follow";
    const rest = kept ? ` ${plural(kept, "newer message")} ${follow} word for word.` : "";
    const replaced = this.panel.state.summary?.messages ?? covered; // as its line counts them
    const about = tag("p", "nbc-memory-about", {}, `The model reads this instead of the first ${plural(replaced, "message")}.${rest}`);
    const found = unfound === 1 ? "value in this text isn't" : "values in this text aren't";
    const hint = unfound ? ` ${count(unfound)} ${found} in any message. Check before you rely on it.` : "";
    this.seen.replaceChildren(about, story);
    if (facts) this.seen.append(linkSources(fromHtml(facts)));
    this.tell(`Click a value or a line to open the message it comes from.${hint}`);
    if (this.wanted === null) this.show(Math.max(covered - 1, 0), false);
    else this.show(this.wanted);
  }

  /** @param {number} position @param {boolean} isMarked */
  show(position, isMarked = true) {
    this.position = isMarked ? position : null;
    this.query({ type: "history", query: "", before: position + AFTER });
  }

  /** @param {Protocol.HistoryPage} page */
  drawSaid({ items }) {
    const rows = items.map((item) => historyRow(item, false, this.panel.notebook));
    this.said.replaceChildren(...rows);
    const row = rows.find((each) => each.dataset.position === String(this.position));
    this.said.scrollTop = row ? row.offsetTop - this.said.offsetTop - 24 : this.said.scrollHeight;
    row?.classList.add("nbc-found");
    for (const each of all(row, "details")) each.toggleAttribute("open", true);
    focusQuietly(row);
  }
}

/** Make each value of a story a button that opens its message; returns how many have none.
 * @param {HTMLElement} story
 * @param {Protocol.MemoryValue[]} values
 */
function linkValues(story, values) {
  let unfound = 0;
  for (const text of textsOf(story)) unfound += markUnfound(text);
  const texts = textsOf(story);
  let at = 0;
  for (const value of values) {
    const n = texts.findIndex((text, index) => index >= at && text.data.includes(value.text));
    if (n < 0) continue;
    const rest = texts[n].splitText(texts[n].data.indexOf(value.text));
    texts[n] = rest.splitText(value.text.length);
    at = n;
    const shown = value.position === null ? unfoundMark(value.text) : source(value.text, value.position);
    rest.replaceWith(shown);
    texts[n] = keepTogether(shown) ?? texts[n];
    unfound += value.position === null ? 1 : 0;
  }
  return unfound;
}

/** @param {HTMLElement} story */
function textsOf(story) {
  const walker = document.createTreeWalker(story, NodeFilter.SHOW_TEXT);
  /** @type {Text[]} */
  const texts = [];
  while (walker.nextNode()) {
    if (!walker.currentNode.parentElement?.matches(".nbc-unfound")) texts.push(/** @type {Text} */ (walker.currentNode));
  }
  return texts;
}

/** Mark what the audit wrote behind a value that it did not find; returns how many there are.
 * @param {Text} text
 * @returns {number}
 */
function markUnfound(text) {
  const [mark] = MARK.exec(text.data) ?? [];
  if (!mark) return 0;
  const rest = text.splitText(text.data.indexOf(mark));
  const after = rest.splitText(mark.length);
  rest.replaceWith(unfoundMark(mark));
  return 1 + markUnfound(after);
}

/** @param {string} text */
function unfoundMark(text) {
  return tag("span", "nbc-unfound", { title: "Not found in any message" }, text);
}

/** @param {string} text @param {number} position */
function source(text, position) {
  const made = button("nbc-source", text, `Open message #${position}`);
  made.dataset.position = String(position);
  return made;
}

/** No line begins with the mark behind a button; returns the text after that mark.
 * @param {HTMLElement} made
 */
function keepTogether(made) {
  const next = made.nextSibling;
  const [mark] = (next instanceof Text && /^[.,;:!?%)\]}\u00bb\u201d\u2019]+/.exec(next.data)) || [];
  if (!mark || !(next instanceof Text)) return null;
  const after = next.splitText(mark.length);
  const together = tag("span", "nbc-together");
  made.replaceWith(together);
  together.append(made, next);
  return after;
}

/** Make buttons of facts that know their message; the kernel's HTML has none.
 * @param {HTMLElement} root
 */
export function linkSources(root) {
  for (const fact of all(root, "span[data-position]")) {
    const made = source(fact.textContent, Number(fact.dataset.position));
    fact.replaceWith(made);
    keepTogether(made);
  }
  return root;
}
