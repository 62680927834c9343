// Text that streams in: its finished blocks, and the open one as it grows

import { finishBlocks } from "./code_blocks.js";
import { tag } from "./dom.js";
import { parse } from "./live_markdown.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { Node as MarkdownNode } from "./live_markdown.js" */

/** @typedef {Protocol.TextOperation["kind"]} Kind Of what streams in */

const LONGEST_DRAWN = 20_000; // characters of an open block that are drawn as Markdown
const LONGEST_SHOWN = 100_000; // of one that are shown while it grows

/** @param {Kind} kind */
export function streamOf(kind) {
  const isThinking = kind === "thinking";
  const blocks = tag("div", "nbc-md");
  const open = isThinking ? new OpenText() : new OpenBlock();
  const root = isThinking
    ? tag("details", "nbc-entry nbc-thinking", { open: "" }, tag("summary", "", {}, "Thinking"))
    : tag("article", "nbc-entry nbc-assistant", { "aria-label": "Assistant", dir: "auto" });
  root.append(blocks, open.root);
  return { root, blocks, open, hidden: tag("div"), hiddenText: "", isCut: false };
}

class OpenText {
  constructor() {
    this.node = document.createTextNode("");
    this.root = tag("div", "nbc-text", {}, this.node);
  }

  get data() {
    return this.node.data;
  }

  set data(text) {
    this.node.data = text;
  }

  /** @param {string} text */
  append(text) {
    this.node.appendData(text);
  }
}

class OpenBlock {
  constructor() {
    this.root = tag("div", "nbc-md nbc-open");
    this.text = "";
    /** @type {Text | null} */
    this.growing = null; // the text node of a code block that has not ended
  }

  get data() {
    return this.text;
  }

  set data(text) {
    this.text = text;
    this.draw();
  }

  /** @param {string} text */
  append(text) {
    this.text += text;
    if (this.text.length > LONGEST_SHOWN) return;
    if (this.growing && !/[`~]/.test(text)) this.growing.appendData(text);
    else if (this.text.length > LONGEST_DRAWN && !this.growing) this.root.append(text);
    else this.draw();
  }

  draw() {
    const drawn = parse(this.text).map(elementOf);
    this.root.replaceChildren(...drawn);
    finishBlocks(this.root, null);
    const last = drawn.at(-1);
    const end = last instanceof Element && last.localName === "pre" ? last.firstChild?.lastChild : null;
    this.growing = end instanceof Text && end.data ? end : null;
  }
}

/** @param {MarkdownNode} node @returns {HTMLElement | string} */
function elementOf(node) {
  if (typeof node === "string") return node;
  const [name, ...inside] = node;
  if (name !== "pre") {
    const [plain, side] = name.split(":");
    const known = /** @type {keyof HTMLElementTagNameMap} */ (plain);
    return tag(known, "", side ? { style: `text-align:${side}` } : {}, ...inside.map(elementOf));
  }
  const [language, code] = /** @type {string[]} */ (inside);
  const block = tag("pre", "nbc-code", {}, tag("code", "", {}, document.createTextNode(code)));
  if (language) block.dataset.language = language.toLowerCase();
  return block;
}
