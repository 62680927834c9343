// Approval of tool calls: the buttons on a call's card

import { all, boxOf, button, count, focusQuietly, isComposing, on, pressedIn, setDisabled, tag } from "./dom.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { ChatPanel } from "./panel.js" */

/** @param {HTMLElement} card */
export function addDecision(card) {
  if (!card.dataset.ticket) return;
  /** @type {HTMLDetailsElement} */ (card).open = true;
  const tool = card.querySelector(".nbc-tool-name")?.textContent;
  const always = `Run this call, and approve every later ${tool} call in this session`;
  const about = { type: "text", placeholder: "Reason (optional)", "aria-label": "Reason for denying" };
  const reason = tag("input", "nbc-reason", about);
  card.append(
    tag(
      "div",
      "nbc-decision",
      { role: "group", "aria-label": `Run ${tool}?` },
      button("nbc-primary nbc-approve", "Approve", "Run this call"),
      button("nbc-deny", "Deny", "Don't run this call. The model sees that you denied it."),
      reason,
      button("nbc-turn", "Approve all of this turn", "Run this call and others like it until the answer is complete"),
      button("nbc-always", "Always approve in this session", always),
      ...("draft" in card.dataset ? [button("nbc-change", "Edit", "Change it before you approve")] : []),
      ...(card.dataset.place ? [button("nbc-place", "Show cell", "Scroll the notebook to the cell")] : []),
      button("nbc-unread", "Show the rest", "You can approve once you've seen the whole call"),
    ),
  );
  setSeen(card, 0);
}

/** A text to edit in place of what the card shows of it; what a person wrote was seen.
 * @param {HTMLElement} card
 */
function edit(card) {
  const text = tag("textarea", "nbc-draft", { rows: "8", "aria-label": "New source", spellcheck: "false" });
  text.value = card.dataset.draft ?? "";
  card.querySelector(".nbc-arguments")?.replaceChildren(text);
  card.querySelector(".nbc-change")?.remove();
  card.dataset.edited = "";
  setSeen(card, 1);
  text.focus();
}

/** What a person has made of the draft; null for no change
 * @param {HTMLElement} card
 */
function draftOf(card) {
  const text = /** @type {HTMLTextAreaElement | null} */ (card.querySelector(".nbc-draft"));
  return text ? text.value : null;
}

/** How far a card was read, as a share of its height
 * @param {HTMLElement} card
 * @param {number} share
 */
function setSeen(card, share) {
  const isSeen = share > 0.99;
  card.dataset.seenTo = String(share);
  for (const name of ["approve", "turn", "always"]) choiceOf(card, name).disabled = !isSeen;
  choiceOf(card, "unread").hidden = isSeen;
}

/** @param {HTMLElement} card @param {string} name @returns {HTMLButtonElement} */
function choiceOf(card, name) {
  return /** @type {HTMLButtonElement} */ (card.querySelector(`.nbc-${name}`));
}

/** Where what was read, from the top without a gap, ends now
 * @param {number} seenTo
 * @param {{ top: number, bottom: number }} part in sight
 * @param {number} height
 */
export function readUpTo(seenTo, { top, bottom }, height) {
  return top <= seenTo * height + 1 ? Math.max(seenTo, Math.min(1, bottom / height)) : seenTo;
}

/** @param {Protocol.Waiting[]} waiting */
export function waitingText(waiting) {
  const [first, ...others] = waiting;
  if (!first) return "";
  return others.length ? `${count(waiting.length)} tool calls are waiting for your approval` : `${first.tool} is waiting for your approval`;
}

export class Decisions {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    const { root, log } = panel.parts;
    on(root, "click", (event) => this.clicked(event));
    on(root, "keydown", (event) => this.denied(event));
    const look = () => this.look();
    window.addEventListener("scroll", look, { capture: true, passive: true });
    const shown = new IntersectionObserver(look, { threshold: [0, 0.25, 0.5, 0.75, 1] });
    shown.observe(log);
    panel.undo.push(() => window.removeEventListener("scroll", look, { capture: true }));
    panel.undo.push(() => shown.disconnect());
  }

  // Note which part of each waiting card is in sight now.
  look() {
    if (document.hidden || this.panel.isGone) return;
    for (const card of all(this.panel.parts.log, "[data-ticket][data-seen-to]")) {
      const { part, height } = this.inSight(card);
      const read = Number(card.dataset.seenTo) * grownBy(card, height);
      if ("edited" in card.dataset) continue;
      if (height && part.bottom > part.top) setSeen(card, readUpTo(read, part, height));
    }
  }

  /** The part of a card between the edges of the transcript and of the window
   * @param {HTMLElement} card
   */
  inSight(card) {
    const [inner, outer] = [card, this.panel.parts.scroller].map(boxOf);
    const top = Math.max(outer.top, 0) - inner.top;
    const bottom = Math.min(outer.bottom, window.innerHeight) - inner.top;
    const height = callHeight(card);
    const part = { top: Math.max(0, top), bottom: Math.min(height, bottom) };
    return { part, height };
  }

  /** Scroll to what was not read yet.
   * @param {HTMLElement} card
   */
  readOn(card) {
    const { scroller } = this.panel.parts;
    const unread = Number(card.dataset.seenTo) * callHeight(card);
    const { top } = boxOf(card);
    this.panel.transcript.isPinned = false;
    scroller.scrollTop += top + unread - boxOf(scroller).top - 24;
    const { part } = this.inSight(card);
    // In a cell's panel the page itself may have to scroll.
    if (part.bottom <= unread + 1) scrollPage(scroller, boxOf(card).top + unread);
    this.look();
  }

  /** @param {Event} event */
  clicked(event) {
    const choice = pressedIn(event, ".nbc-tool .nbc-decision button");
    if (!choice || this.panel.isGone) return;
    const card = /** @type {HTMLElement} */ (choice.closest(".nbc-tool"));
    const { ticket = "" } = card.dataset;
    if (choice.matches(".nbc-unread")) {
      this.readOn(card);
      return;
    }
    if (choice.matches(".nbc-change")) return edit(card);
    if (choice.matches(".nbc-place")) return this.showPlace(card);
    const draft = draftOf(card);
    const reason = reasonOf(card);
    closeDecision(card);
    if (choice.matches(".nbc-deny")) this.deny(ticket, reason);
    else this.approve({ ticket, always: choice.matches(".nbc-always"), turn: choice.matches(".nbc-turn"), draft });
  }

  /** Enter in the reason denies.
   * @param {KeyboardEvent} event
   */
  denied(event) {
    const input = /** @type {HTMLElement} */ (event.target);
    const isReason = input instanceof HTMLInputElement && input.matches(".nbc-decision .nbc-reason");
    if (!isReason || event.key !== "Enter" || isComposing(event) || this.panel.isGone) return;
    event.preventDefault();
    const card = /** @type {HTMLElement} */ (input.closest(".nbc-tool"));
    const reason = reasonOf(card);
    closeDecision(card);
    this.deny(card.dataset.ticket ?? "", reason);
  }

  /** @param {HTMLElement} card */
  showPlace(card) {
    const { notebook } = this.panel;
    const index = notebook.open ? notebook.find(card.dataset.place) : -1;
    if (index >= 0) notebook.show(index);
  }

  /** @param {{ ticket: string, always: boolean, turn: boolean, draft: string | null }} answer */
  approve(answer) {
    this.panel.send({ type: "approve", ...answer });
    this.panel.server.post("approve", answer);
  }

  /** @param {string} ticket @param {string} reason */
  deny(ticket, reason) {
    this.panel.send({ type: "deny", ticket, reason });
    this.panel.server.post("deny", { ticket, reason });
  }
}

/** How much a share of the call as it was is of the call as it is: what came since was not seen.
 * A wider or narrower card shows the same call in another height.
 * @param {HTMLElement} card
 * @param {number} height
 */
function grownBy(card, height) {
  const { seenHeight, seenWidth } = card.dataset;
  const width = String(card.clientWidth);
  const before = seenWidth === width ? Number(seenHeight) : height;
  Object.assign(card.dataset, { seenHeight: String(height), seenWidth: width });
  return height > before ? before / height : 1;
}

/** Of a card without its buttons, which are no part of the call
 * @param {HTMLElement} card
 */
function callHeight(card) {
  const { top, bottom } = boxOf(card);
  return (card.querySelector(".nbc-decision")?.getBoundingClientRect().top ?? bottom) - top;
}

/** @param {HTMLElement} card */
function reasonOf(card) {
  const input = /** @type {HTMLInputElement | null} */ (card.querySelector(".nbc-reason"));
  return input?.value.trim() ?? "";
}

/** Scroll what the panel is in, so that a line of it comes to the upper third.
 * @param {HTMLElement} scroller of the panel
 * @param {number} line its place in the window
 */
function scrollPage(scroller, line) {
  let outer = scroller.parentElement;
  while (outer && (outer.scrollHeight <= outer.clientHeight || getComputedStyle(outer).overflowY === "visible")) {
    outer = outer.parentElement;
  }
  (outer ?? document.scrollingElement)?.scrollBy(0, line - window.innerHeight / 3);
}

/** Focus the card's title: the buttons are removed a moment later.
 * @param {HTMLElement} card
 */
function closeDecision(card) {
  focusQuietly(card.querySelector("summary"));
  setDisabled(card, ".nbc-decision :is(button, input)", true);
}
