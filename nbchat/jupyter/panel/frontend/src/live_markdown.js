// Markdown that is still being written, as a tree that is drawn while it grows: what a
// reader needs to see tables, lists and code take shape. The kernel renders each finished
// block, with formulas, colours and links, and that replaces this.

/**
 * @typedef {string | [string, ...Node[]]} Node Text, or a tag and what is in it.
 * @typedef {(lines: string[]) => { node: Node, rest: string[] } | null} Reader
 */

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+|$)/;
const SPANS = /`([^`]+)`|\*\*([^*\s](?:[^*]*[^*\s])?)\*\*|\*([^*\s](?:[^*]*[^*\s])?)\*|~~([^~]+)~~|\[([^\]]+)\]\([^)\s]*\)/g;
const SPAN_TAGS = ["code", "strong", "em", "s", "u"];

/** The blocks of a text; a code block is ["pre", language, code].
 * @param {string} text
 * @returns {Node[]}
 */
export function parse(text) {
  let lines = text.split("\n");
  const found = [];
  while (lines.length) {
    if (!lines[0].trim()) {
      lines = lines.slice(1);
      continue;
    }
    const { node, rest } = block(lines);
    found.push(node);
    lines = rest;
  }
  return found;
}

/** @param {string[]} lines */
function block(lines) {
  for (const read of [code, heading, rule, table, quote, list]) {
    const found = read(lines);
    if (found) return found;
  }
  return paragraph(lines);
}

/** @type {Reader} */
function code(lines) {
  const [, fence, language] = FENCE.exec(lines[0]) ?? [];
  if (!fence) return null;
  const ends = (/** @type {string} */ line) => line.trim().startsWith(fence) && !/[^`~\s]/.test(line);
  const last = lines.findIndex((line, n) => n > 0 && ends(line));
  const end = last < 0 ? lines.length : last;
  return { node: ["pre", language, lines.slice(1, end).join("\n")], rest: lines.slice(end + 1) };
}

/** @type {Reader} */
function heading([line, ...rest]) {
  const [, marks, text] = HEADING.exec(line) ?? [];
  return marks ? { node: [`h${marks.length}`, ...spans(text)], rest } : null;
}

/** @type {Reader} */
function rule([line, ...rest]) {
  return RULE.test(line) ? { node: ["hr"], rest } : null;
}

/** @type {Reader} */
function table(lines) {
  if (!lines[0].trimStart().startsWith("|")) return null;
  const other = lines.findIndex((line) => !line.trimStart().startsWith("|"));
  const rows = other < 0 ? lines : lines.slice(0, other);
  const isRuled = rows.length > 1 && /^[\s|:-]*$/.test(rows[1]);
  const sides = isRuled ? cells(rows[1]).map(sideOf) : [];
  const body = rows.slice(isRuled ? 2 : 1);
  /** @type {(name: string) => (row: string) => Node} */
  const rowOf = (name) => (row) => ["tr", ...cells(row).map((text, n) => /** @type {Node} */ ([`${name}${sides[n] ?? ""}`, ...spans(text)]))];
  const node = /** @type {Node} */ (["table", ["thead", rowOf("th")(rows[0])], ["tbody", ...body.map(rowOf("td"))]]);
  return { node, rest: lines.slice(rows.length) };
}

// What a column's dashes say of its side, behind the tag's name
/** @param {string} dashes */
function sideOf(dashes) {
  if (!dashes.endsWith(":")) return "";
  return dashes.startsWith(":") ? ":center" : ":right";
}

/** @param {string} row */
function cells(row) {
  return row.trim().replace(/^\||\|$/g, "").split("|").map((text) => text.trim());
}

/** @type {Reader} */
function quote(lines) {
  const other = lines.findIndex((line) => !/^ {0,3}>/.test(line));
  const quoted = other < 0 ? lines : lines.slice(0, other);
  if (!quoted.length) return null;
  const inside = quoted.map((line) => line.replace(/^ {0,3}> ?/, ""));
  return { node: ["blockquote", ...parse(inside.join("\n"))], rest: lines.slice(quoted.length) };
}

/** @type {Reader} */
function list(lines) {
  const [, , first] = ITEM.exec(lines[0]) ?? [];
  if (!first) return null;
  const isOrdered = /\d/.test(first);
  /** @type {string[][]} */
  const items = [];
  let width = 4; // less than it is a marker indented: up to the first item's text
  let rest = lines;
  for (; rest.length; rest = rest.slice(1)) {
    const [line] = rest;
    const [all, , mark] = ITEM.exec(line) ?? [];
    const indent = /^ */.exec(line)?.[0].length ?? 0;
    if (mark && indent < width && /\d/.test(mark) === isOrdered) {
      width = (all ?? "").length || 2;
      items.push([boxed(line.slice((all ?? "").length))]);
    } else if (!line.trim() || indent >= Math.min(width, 2)) {
      items.at(-1)?.push(line.slice(Math.min(width, indent)));
    } else break;
  }
  const nodes = items.map((item) => /** @type {Node} */ (["li", ...unwrapped(parse(item.join("\n")))]));
  return { node: [isOrdered ? "ol" : "ul", ...nodes], rest };
}

// The box of a task list
/** @param {string} text */
function boxed(text) {
  return text.replace(/^\[ \] /, "\u2610 ").replace(/^\[x\] /i, "\u2611 ");
}

// The first paragraph of an item is its text.
/** @param {Node[]} nodes */
function unwrapped([first, ...others]) {
  const isText = Array.isArray(first) && first[0] === "p";
  const text = isText ? /** @type {Node[]} */ (first.slice(1)) : [first];
  return [...text.filter((node) => node !== undefined), ...others];
}

/** @param {string[]} lines */
function paragraph(lines) {
  const ends = (/** @type {string} */ line) => !line.trim() || [FENCE, HEADING, ITEM].some((each) => each.test(line));
  const other = lines.findIndex((line, n) => n > 0 && ends(line));
  const end = other < 0 ? lines.length : other;
  return { node: /** @type {Node} */ (["p", ...spans(lines.slice(0, end).join("\n"))]), rest: lines.slice(end) };
}

/** @param {string} text @returns {Node[]} */
function spans(text) {
  /** @type {Node[]} */
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(SPANS)) {
    const n = found.slice(1).findIndex((inside) => inside !== undefined);
    parts.push(text.slice(end, found.index), [SPAN_TAGS[n], found[n + 1]]);
    end = found.index + found[0].length;
  }
  return [...parts, text.slice(end)].filter((part) => part !== "");
}
