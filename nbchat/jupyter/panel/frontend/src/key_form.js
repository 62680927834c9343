// The form for a key that a person types; it stays in the kernel's memory

import { button, tag } from "./dom.js";

/** @typedef {{ provider: string, key: string, keep: boolean }} TypedKey */

/**
 * @param {{ providerOf: () => string, canKeep: boolean, use: (typed: TypedKey) => void }} given
 * @param {HTMLElement[]} before what is before the field
 */
export function keyForm({ providerOf, canKeep, use }, ...before) {
  const typing = { type: "password", autocomplete: "off", placeholder: "Key, for this session only" };
  const key = tag("input", "", { ...typing, "aria-label": "Key" });
  const keep = tag("input", "", { type: "checkbox" });
  const keeping = tag("label", "", {}, keep, " keep it in this computer's keyring");
  const send = button("nbc-primary", "Use key", "Use this key", "submit");
  const form = tag("form", "nbc-start-row", {}, ...before, key, send);
  if (canKeep) form.append(keeping);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!key.value.trim()) return;
    use({ provider: providerOf(), key: key.value, keep: keep.checked });
    key.value = "";
  });
  return { form, key };
}
