// Keys that a person types, and what an error about a key offers

import { button, newToken, on, onSubmit, pressedIn, primary, tag } from "./dom.js";

/** @import { Answer } from "./dialog.js" */
/** @import { ChatPanel } from "./panel.js" */

/** @typedef {{ provider: string, key: string }} TypedKey */

/**
 * @param {{ providerOf: () => string, use: (typed: TypedKey) => void }} given
 * @param {HTMLElement[]} before what is before the field
 */
export function keyForm({ providerOf, use }, ...before) {
  const typing = { type: "password", autocomplete: "off", placeholder: "API key" };
  const key = tag("input", "", { ...typing, "aria-label": "Key" });
  const send = primary("Use key", "Use this key", "submit");
  const form = tag("form", "nbc-start-row nbc-key-form", {}, ...before, key, send);
  onSubmit(form, () => {
    if (!key.value.trim()) return;
    use({ provider: providerOf(), key: key.value });
    key.value = "";
  });
  return { form, key };
}

/** Where a typed key is, as the answer says
 * @param {string} place
 */
export function placeText(place) {
  if (place === "keyring") return "Saved the key in this computer's keyring.";
  return place === "kernel" ? "The key stays in this kernel only, because there's no keyring." : "";
}

/** @param {HTMLElement} note */
export function addKeyButtons(note) {
  const { key, server } = note.dataset;
  if (server) {
    const where = `Send it to ${server}, and to no other server`;
    note.append(button("nbc-send-key", `Send the key to ${server}`, where));
    note.append(button("nbc-again", "Continue without a key", "Ask this server again without a key"));
  }
  if (key) note.append(button("nbc-replace-key", server ? "Use another key" : "Replace key", "Type a key"));
}

/** Replaces a refused key in the error that tells of it, and asks again */
export class KeyReplacement {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    /** @type {string | null} */
    this.token = null;
    this.status = tag("span", "nbc-empty-hint", { role: "status" });
    on(panel.parts.root, "click", (event) => this.clicked(event));
  }

  /** @param {Event} event */
  clicked(event) {
    const { panel } = this;
    if (panel.isBlocked) return;
    const sent = pressedIn(event, ".nbc-send-key");
    if (sent) panel.send({ type: "send_key", token: this.newToken(sent.parentElement) });
    const replaced = pressedIn(event, ".nbc-replace-key");
    if (replaced) this.open(replaced);
  }

  /** @param {HTMLButtonElement} opener */
  open(opener) {
    const note = opener.parentElement;
    const provider = note?.dataset.key ?? "";
    const use = (/** @type {TypedKey} */ typed) => {
      this.panel.send({ type: "use_key", ...typed, token: this.newToken(note) });
    };
    const { form, key } = keyForm({ providerOf: () => provider, use });
    opener.replaceWith(form);
    key.focus();
  }

  /** @param {HTMLElement | null} note where a refusal is shown */
  newToken(note) {
    this.token = newToken();
    this.status.textContent = "";
    note?.append(this.status);
    return this.token;
  }

  /** @param {Answer} message */
  hear(message) {
    if (message.token !== this.token) return;
    this.token = null;
    if (message.type === "refused") this.status.textContent = message.reason;
    if (message.type === "key_used") this.panel.command("/again");
  }
}
