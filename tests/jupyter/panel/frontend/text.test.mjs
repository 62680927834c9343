import assert from "node:assert/strict";
import { test } from "node:test";

const source = new URL("../../../../nbchat/jupyter/panel/frontend/src/", import.meta.url);
const { plural, percent } = await import(new URL("dom.js", source));
const { wordAtCaret, matching } = await import(new URL("completion.js", source));
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

test("the meter is full when the policy compacts, not when the window is full", async () => {
  const { fullness, levelOf } = await import(new URL("header.js", source));
  const nothing = { tokens: 0, threshold: null, context: 0, guard: null, window: null };
  const guarded = { ...nothing, context: 1_200, guard: 1_500, window: 200_000 };
  assert.equal(levelOf(fullness(guarded)), "medium");
  assert.equal(levelOf(fullness({ ...guarded, context: 1_450 })), "high");
  assert.equal(fullness({ ...guarded, tokens: 900, threshold: 1_000 }), 0.9);
  assert.equal(fullness({ ...nothing, context: 50_000, window: 200_000 }), 0.25);
  assert.equal(fullness({ ...nothing, context: 50_000 }), 0);
});

test("a call is read when each part of it was in sight, in order", async () => {
  const { readUpTo } = await import(new URL("approvals.js", source));
  const height = 1000;
  const first = readUpTo(0, { top: 0, bottom: 400 }, height);
  assert.equal(first, 0.4);
  assert.equal(readUpTo(first, { top: 700, bottom: 1000 }, height), 0.4);
  const second = readUpTo(first, { top: 390, bottom: 800 }, height);
  assert.equal(readUpTo(second, { top: 100, bottom: 300 }, height), 0.8);
  assert.equal(readUpTo(second, { top: 800, bottom: 1000 }, height), 1);
});

test("a setting's label says in words what its name says", async () => {
  const { labelOf } = await import(new URL("settings.js", source));
  assert.equal(labelOf("window_share"), "Window share");
  assert.equal(labelOf("first_byte_seconds"), "First byte (seconds)");
});

test("what an empty field means is said in the field, not in its help", async () => {
  const { helpOf } = await import(new URL("settings.js", source));
  const help = "Longest silence. None: 300; for the embedded model 600. Then it fails.";
  assert.deepEqual(helpOf(help, "float"), ["Longest silence. Then it fails.", "300; for the embedded model 600"]);
  assert.deepEqual(helpOf("Effort. None: as the model does.", "choice"), ["Effort. Default: as the model does.", ""]);
  assert.deepEqual(helpOf("Share of the tokens.", "float"), ["Share of the tokens.", ""]);
});

test("a setting says what it does now", async () => {
  const { labelOf, nowOf } = await import(new URL("settings.js", source));
  assert.equal(labelOf("context_token_threshold"), "Compact after this many input tokens");
  assert.equal(nowOf("true", "", "bool"), "on");
  assert.equal(nowOf("24000", "", "int"), "24,000");
  assert.equal(nowOf("", "75 % of the model's window", "int"), "75 % of the model's window");
  assert.equal(nowOf("Be brief.\nNames stay.", "", "text"), "Be brief. …");
});
