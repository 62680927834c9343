// The list of sessions, without a browser

import assert from "node:assert/strict";
import { test } from "node:test";

import { dayName, fileName } from "../../../../nbchat/jupyter/panel/frontend/src/sessions.js";

const TODAY = new Date(2026, 10, 23, 0, 5);

test("sessions are named by the days that have begun since", () => {
  const names = [
    [new Date(2026, 10, 23, 0, 1), "Today"],
    [new Date(2026, 10, 24, 9, 0), "Today"], // a clock that was put back
    [new Date(2026, 10, 22, 23, 59), "Yesterday"],
    [new Date(2026, 10, 17, 12, 0), "Previous 7 days"],
    [new Date(2026, 10, 16, 12, 0), "Previous 30 days"],
    [new Date(2026, 8, 1, 12, 0), "September 2026"],
    [new Date("nonsense"), "Earlier"],
  ];
  for (const [then, name] of names) assert.equal(dayName(then, TODAY), name);
});

test("a file is named by a session's title, whatever that contains", () => {
  const names = [
    ["Orders of May", "Orders-of-May.md"],
    ["../../etc/passwd\u202e", "etc-passwd.md"],
    ["Größe: ½?", "Größe-½.md"],
    ["<b>", "b.md"],
    ["///", "chat.md"],
    ["x".repeat(500), `${"x".repeat(60)}.md`],
  ];
  for (const [title, name] of names) assert.equal(fileName(title), name);
});
