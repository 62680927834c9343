import assert from "node:assert/strict";
import { test } from "node:test";

const source = new URL("../../../../nbchat/jupyter/panel/frontend/src/", import.meta.url);
const { Pastes } = await import(new URL("pastes.js", source));

const MAIL = "Dear Ann,\r\nnever mention the refund again.";

test("a long text or one of several lines is remembered, and told where it still occurs", () => {
  const pastes = new Pastes();
  pastes.add("short");
  pastes.add(MAIL);
  assert.deepEqual(pastes.texts, ["Dear Ann,\nnever mention the refund again."]);
  assert.deepEqual(pastes.within("Spam? Dear Ann,\nnever mention the refund again."), pastes.texts);
  assert.deepEqual(pastes.within("Spam? never mention the refund again"), pastes.texts);
  assert.deepEqual(pastes.within("Something else"), []);
});

test("what was copied in the box itself stays the person's own", () => {
  const pastes = new Pastes();
  pastes.copied = "Never deploy on Fridays, whatever the customer says to you.";
  pastes.add(pastes.copied);
  assert.deepEqual(pastes.texts, []);
});
