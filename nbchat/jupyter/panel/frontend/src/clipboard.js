// Copying to the clipboard, also on pages without HTTPS

import { tag } from "./dom.js";

const SHOWN_MILLISECONDS = 1500;

/** Copy, and say on the button whether that succeeded.
 * @param {HTMLElement} pressed
 * @param {string} text
 */
export async function showCopied(pressed, text) {
  const label = (pressed.dataset.label ??= pressed.getAttribute("aria-label") ?? "");
  const isCopied = await copyText(text);
  pressed.setAttribute("aria-label", isCopied ? "Copied" : "Press Ctrl+C");
  pressed.dataset.icon = isCopied ? "done" : "copy";
  setTimeout(() => {
    pressed.setAttribute("aria-label", label);
    pressed.dataset.icon = "copy";
  }, SHOWN_MILLISECONDS);
}

/** @param {string} text */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text); // the clipboard API needs HTTPS, many hubs have none
  }
}

/** @param {string} text */
function copyBySelection(text) {
  const focused = document.activeElement;
  const area = tag("textarea", "nbc-offscreen", { "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return isCopied;
}
