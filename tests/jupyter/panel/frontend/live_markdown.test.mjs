import assert from "node:assert/strict";
import { test } from "node:test";

const source = new URL("../../../../nbchat/jupyter/panel/frontend/src/", import.meta.url);
const { parse } = await import(new URL("live_markdown.js", source));

test("lists, headings and code take shape while they are written", () => {
  assert.deepEqual(parse("## A **b**\n\n1. Cast `x`\n2. Merge\n   - left\n\n```py\na = 1\n\nb"), [
    ["h2", "A ", ["strong", "b"]],
    ["ol", ["li", "Cast ", ["code", "x"]], ["li", "Merge", ["ul", ["li", "left"]]]],
    ["pre", "py", "a = 1\n\nb"],
  ]);
  assert.deepEqual(parse("-"), [["ul", ["li"]]]);
  assert.deepEqual(parse("1. a\n\n2. b\n* c"), [
    ["ol", ["li", "a"], ["li", "b"]],
    ["ul", ["li", "c"]],
  ]);
});

test("a table has its columns from its first line, and their sides from its second", () => {
  assert.deepEqual(parse("| a | b"), [["table", ["thead", ["tr", ["th", "a"], ["th", "b"]]], ["tbody"]]]);
  assert.deepEqual(parse("| a | b |\n|:-:|--:|\n| 1 | *2* |\nand"), [
    [
      "table",
      ["thead", ["tr", ["th:center", "a"], ["th:right", "b"]]],
      ["tbody", ["tr", ["td:center", "1"], ["td:right", ["em", "2"]]]],
    ],
    ["p", "and"],
  ]);
});

test("a rule, a quote and a paragraph end each other; a lone star is a star", () => {
  assert.deepEqual(parse("> q\n> w\n\n2 * 3 * 4 [l](http://x)\n- i\n---"), [
    ["blockquote", ["p", "q\nw"]],
    ["p", "2 * 3 * 4 ", ["u", "l"]],
    ["ul", ["li", "i"]],
    ["hr"],
  ]);
});

test("every beginning of a text can be drawn, and nothing of it is markup", () => {
  const text = "<img src=x onerror=x>\n\n  - a\n\n      deep\n~~~\n> |\n| - |\n***\n1) x\n\n\n``` x\n<b>";
  for (let end = 0; end <= text.length; end += 1) {
    const names = new Set(JSON.stringify(parse(text.slice(0, end))).match(/(?<=\[")[a-z0-9]+(?=",|"\])/g));
    assert.ok(!names.has("img") && !names.has("b"));
  }
});
