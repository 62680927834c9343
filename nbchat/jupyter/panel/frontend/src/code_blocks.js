// Buttons of a code block: copy, insert, run

import { showCopied } from "./clipboard.js";
import { all, iconButton, on, pressedIn, tag } from "./dom.js";

/** @import { NotebookCells } from "./notebook.js" */
/** @import { ChatPanel } from "./panel.js" */

/** @typedef {"copy" | "more" | "insert" | "above" | "replace" | "run"} Action */
/** @typedef {{ code: string, language: string, bar: Element, pressed: HTMLButtonElement }} Pressed */

const NOTICE_MILLISECONDS = 6000;

// What draws nothing, or changes the direction of other characters
const ANY_INVISIBLE = /(?![\n\t ])[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Z}\p{DI}\u2800]/gu;
// In an answer's code not the joiners and variants that belong to letters and emojis
const INVISIBLE = new RegExp(`(?![\\u200c\\u200d\\ufe0f\\u00a0])${ANY_INVISIBLE.source}`, "gu");

/** What the kernel's HTML leaves to the page: bars of code, and each block's direction.
 * Code that is still being written has no buttons: `notebook` is null.
 * @param {HTMLElement} root
 * @param {NotebookCells | null} notebook
 */
export function finishBlocks(root, notebook) {
  for (const block of all(root, ".nbc-md > *")) block.dir = "auto";
  for (const block of all(root, ".nbc-md pre:not(.nbc-codebox > pre)")) {
    const box = tag("div", "nbc-codebox");
    block.replaceWith(box);
    box.append(codeBar(block.dataset.language ?? "", notebook), block);
    markInvisible(block);
  }
}

/** @param {string} name @param {NotebookCells | null} notebook */
function codeBar(name, notebook) {
  const language = tag("span", "nbc-language", {}, name);
  const notice = tag("span", "nbc-code-notice", { role: "status" });
  const bar = tag("div", "nbc-codebar", {}, language, notice);
  if (!notebook) return bar;
  bar.append(codeButton("copy", "Copy code"));
  if (!notebook.model) return bar;
  const where = "the last selected cell";
  bar.append(codeButton("insert", "Insert", `Insert it as a new cell below ${where}`));
  if (notebook.speaks(name)) bar.append(codeButton("run", "Run", "Run it in a new cell …"));
  const more = codeButton("more", "More actions for this code", "Insert above, replace");
  more.setAttribute("aria-expanded", "false");
  const above = codeButton("above", "Insert above", `Insert it as a new cell above ${where}`);
  const replace = codeButton("replace", "Replace cell", `Replace ${where} with it`);
  bar.append(tag("span", "nbc-code-more", { hidden: "" }, above, replace), more);
  return bar;
}

/** @type {Record<string, string>} */
const ICONS = { insert: "below" };

/** @param {string} action @param {string} label @param {string} [title] */
function codeButton(action, label, title = label) {
  const made = iconButton(`nbc-code-${action}`, ICONS[action] ?? action, label, title);
  made.dataset.action = action;
  return made;
}

/** @param {Node} block */
export function markAllInvisible(block) {
  return markInvisible(block, ANY_INVISIBLE);
}

/** Show the code point beside each; what is copied or inserted is unchanged.
 * @param {Node} block
 * @param {RegExp} invisible
 */
export function markInvisible(block, invisible = INVISIBLE) {
  const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
  /** @type {Text[]} */
  const texts = [];
  while (walker.nextNode()) texts.push(/** @type {Text} */ (walker.currentNode));
  const hiding = texts.filter(({ data }) => data.search(invisible) >= 0);
  for (const text of hiding) {
    /** @type {(string | HTMLElement)[]} */
    const parts = [];
    let end = 0;
    for (const { 0: mark, index } of text.data.matchAll(invisible)) {
      const number = (mark.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
      parts.push(text.data.slice(end, index));
      parts.push(tag("span", "nbc-invisible", { "data-mark": `U+${number}` }, mark));
      end = index + mark.length;
    }
    text.replaceWith(...parts, text.data.slice(end));
  }
  return hiding.length > 0;
}

export class CodeActions {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    on(panel.parts.root, "click", (event) => this.clicked(event));
  }

  /** @param {Event} event */
  clicked(event) {
    const pressed = pressedIn(event, ".nbc-codebar button");
    const bar = pressed?.closest(".nbc-codebar");
    const block = pressed?.closest(".nbc-codebox")?.querySelector("pre");
    if (!pressed || !bar || !block) return;
    const language = block.dataset.language ?? "";
    const action = /** @type {Action} */ (pressed.dataset.action);
    this[action]({ code: block.textContent, language, bar, pressed });
  }

  /** @param {Pressed} pressed */
  copy({ code, pressed }) {
    showCopied(pressed, code);
  }

  /** @param {Pressed} pressed */
  more({ bar, pressed }) {
    const others = /** @type {HTMLElement} */ (bar.querySelector(".nbc-code-more"));
    others.hidden = !others.hidden;
    pressed.setAttribute("aria-expanded", String(!others.hidden));
  }

  /** @param {Pressed} pressed */
  insert({ code, language, bar }) {
    const index = this.panel.notebook.insertBelow(source(code), language);
    this.notify(bar, `Inserted${this.beside("below", index - 1)} as ${this.cell(index)}`);
  }

  /** @param {Pressed} pressed */
  above({ code, language, bar }) {
    const index = this.panel.notebook.insertAbove(source(code), language);
    this.notify(bar, `Inserted${this.beside("above", index + 1)} as ${this.cell(index)}`);
  }

  /** @param {Pressed} pressed */
  replace({ code, language, bar }) {
    const before = this.panel.notebook.prompt(this.panel.notebook.index);
    const index = this.panel.notebook.replace(source(code), language);
    const hint = "First click the cell to replace";
    this.notify(bar, index === null ? hint : `Replaced ${[before, this.cell(index)].filter(Boolean).join(", ")}`);
  }

  /** @param {Pressed} pressed */
  run({ code, language, bar, pressed }) {
    const text = source(code);
    this.panel.runDialog.show(text, pressed, () => this.runNow(text, language, bar));
  }

  /** @param {string} code @param {string} language @param {Element} bar */
  async runNow(code, language, bar) {
    const { notebook } = this.panel;
    const index = notebook.insertBelow(code, language);
    const cell = this.cell(index);
    this.notify(bar, `Running as ${cell}`, null);
    const isDone = await notebook.run(index);
    const place = [notebook.prompt(index), cell].filter(Boolean).join(", ");
    this.notify(bar, `${isDone ? "Ran" : "Failed"} as ${place}`);
  }

  /** By the number that the notebook shows at the cell, if it was run
   * @param {string} where
   * @param {number} index
   */
  beside(where, index) {
    const prompt = this.panel.notebook.prompt(index);
    return prompt && ` ${where} ${prompt}`;
  }

  /** @param {number} index */
  cell(index) {
    return `cell ${index + 1} of ${this.panel.notebook.cells.length}`;
  }

  /** @param {Element} bar @param {string} text @param {number | null} milliseconds */
  notify(bar, text, milliseconds = NOTICE_MILLISECONDS) {
    const notice = /** @type {HTMLElement} */ (bar.querySelector(".nbc-code-notice"));
    notice.textContent = text;
    const forget = () => notice.textContent === text && (notice.textContent = "");
    if (milliseconds) setTimeout(forget, milliseconds);
  }
}

/** The line break before the closing fence is part of the fence.
 * @param {string} code
 */
function source(code) {
  return code.replace(/\n$/, "");
}
