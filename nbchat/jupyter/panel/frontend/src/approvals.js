// Approval of tool calls: the buttons on a call's card

import { button, count, pressedIn, tag } from "./dom.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { ChatPanel } from "./panel.js" */

/** @param {HTMLElement} card */
export function addDecision(card) {
  if (!card.dataset.ticket) return;
  /** @type {HTMLDetailsElement} */ (card).open = true;
  const tool = card.querySelector(".nbc-tool-name")?.textContent;
  const always = `Run this call, and approve every later ${tool} call in this session`;
  card.append(
    tag(
      "div",
      "nbc-decision",
      { role: "group", "aria-label": `Run ${tool}?` },
      button("nbc-primary nbc-approve", "Approve", "Run this call"),
      button("nbc-deny", "Deny", "Don't run this call. The model sees that you denied it."),
      button("nbc-always", "Always approve in this session", always),
      button("nbc-unread", "Show the rest", "You can approve once you've seen the whole call"),
    ),
  );
  setSeen(card, 0);
}

/** How far a card was read, as a share of its height
 * @param {HTMLElement} card
 * @param {number} share
 */
function setSeen(card, share) {
  const isSeen = share > 0.99;
  card.dataset.seenTo = String(share);
  for (const name of ["approve", "always"]) choiceOf(card, name).disabled = !isSeen;
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
    root.addEventListener("click", (event) => this.clicked(event));
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
    /** @type {NodeListOf<HTMLElement>} */
    const cards = this.panel.parts.log.querySelectorAll("[data-ticket][data-seen-to]");
    for (const card of cards) {
      const read = Number(card.dataset.seenTo);
      const { part, height } = this.inSight(card);
      if (height && part.bottom > part.top) setSeen(card, readUpTo(read, part, height));
    }
  }

  /** The part of a card between the edges of the transcript and of the window
   * @param {HTMLElement} card
   */
  inSight(card) {
    const [inner, outer] = [card, this.panel.parts.scroller].map((each) => each.getBoundingClientRect());
    const top = Math.max(outer.top, 0) - inner.top;
    const bottom = Math.min(outer.bottom, window.innerHeight) - inner.top;
    const part = { top: Math.max(0, top), bottom: Math.min(inner.height, bottom) };
    return { part, height: inner.height };
  }

  /** Scroll to what was not read yet.
   * @param {HTMLElement} card
   */
  readOn(card) {
    const { scroller } = this.panel.parts;
    const unread = Number(card.dataset.seenTo) * card.getBoundingClientRect().height;
    const { top } = card.getBoundingClientRect();
    this.panel.transcript.isPinned = false;
    scroller.scrollTop += top + unread - scroller.getBoundingClientRect().top - 24;
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
    closeDecision(card);
    if (choice.matches(".nbc-deny")) this.deny(ticket);
    else this.approve(ticket, choice.matches(".nbc-always"));
  }

  /** @param {string} ticket @param {boolean} always */
  approve(ticket, always) {
    this.panel.send({ type: "approve", ticket, always });
    this.panel.server.post("approve", { ticket, always });
  }

  /** @param {string} ticket */
  deny(ticket) {
    this.panel.send({ type: "deny", ticket });
    this.panel.server.post("deny", { ticket });
  }
}

/** Focus the card's title: the buttons are removed a moment later.
 * @param {HTMLElement} card
 */
function closeDecision(card) {
  card.querySelector("summary")?.focus({ preventScroll: true });
  /** @type {NodeListOf<HTMLButtonElement>} */
  const choices = card.querySelectorAll(".nbc-decision button");
  for (const choice of choices) choice.disabled = true;
}
