import assert from "node:assert/strict";
import { test } from "node:test";

const source = new URL("../../../../nbchat/jupyter/panel/frontend/src/", import.meta.url);
const { plural, percent } = await import(new URL("dom.js", source));
const { wordAtCaret, matching } = await import(new URL("completion.js", source));
const { levelOf } = await import(new URL("header.js", source));
const { tidied } = await import(new URL("input_box.js", source));

test("a count agrees with its noun", () => {
  assert.equal(plural(1, "match"), "1 match");
  assert.equal(plural(2, "match"), "2 matches");
  assert.equal(plural(0, "entry"), "0 entries");
  assert.equal(plural(1204, "token"), "1,204 tokens");
  assert.equal(percent(0.136), "14%");
});

const word = (value, at = value.length) =>
  wordAtCaret({ value, selectionStart: at, selectionEnd: at });

test("a slash opens a list at the very beginning only, an @ where a word may begin", () => {
  assert.deepEqual(word("/co"), { sign: "/", letters: "co", start: 0 });
  assert.equal(word("a /co"), null);
  assert.deepEqual(word("see (@df"), { sign: "@", letters: "df", start: 5 });
  assert.equal(word("ann@home"), null);
  assert.equal(word("@df", 1), null);
});

test("a list shows first what begins with the letters", () => {
  const names = ["undo", "redo", "document"].map((name) => ({ name }));
  assert.deepEqual(matching(names, "DO").map(({ name }) => name), ["document", "undo", "redo"]);
});

test("a message keeps its indentation and loses blank lines around it", () => {
  assert.equal(tidied("\n  \n    x = 1\n  \n"), "    x = 1");
  assert.equal(tidied("  /help \n"), "/help");
});

test("the meter warns by its share of what compacts first, not by that of the window", () => {
  const tokenWindow = { tokens: 0, threshold: null, window: 16384, guard: 14108 };
  assert.equal(levelOf({ ...tokenWindow, context: 11286 }), "low");
  assert.equal(levelOf({ ...tokenWindow, context: 11287 }), "medium");
  assert.equal(levelOf({ ...tokenWindow, context: 13403 }), "high");
  const early = { tokens: 0, threshold: null, window: 8000, guard: 4000 };
  assert.equal(levelOf({ ...early, context: 3200 }), "medium");
  assert.equal(levelOf({ tokens: 4000, threshold: 5000, context: 9, window: null, guard: null }), "medium");
});
