// Messages are one stop of the Tab key: ArrowUp and ArrowDown go from one to the next,
// ArrowRight and ArrowLeft through the buttons of one

import { isReachable } from "./dialog.js";
import { all, on } from "./dom.js";

/** @import { ChatPanel } from "./panel.js" */

const INNER = "button, summary, a[href]";
const OWN_STOPS = ".nbc-decision button"; // a call that waits is answered by Tab and Enter

/** @type {Record<string, string>} by the kind of the item */
const LABELS = { prompt: "Your message", answer: "Answer", banner: "Compaction", attachment: "Attachment" };

export class Roving {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    /** @type {HTMLElement | null} */
    this.current = null; // the message that Tab reaches
    const { log } = panel.parts;
    on(log, "keydown", (event) => this.onKey(event));
    on(log, "focusin", ({ target }) => {
      const focused = /** @type {Node | null} */ (target);
      this.choose(this.items.find((item) => item.contains(focused)));
    });
  }

  get items() {
    return all(this.panel.parts.log, ":scope > :not(.nbc-spent)");
  }

  /** Take the buttons of an item out of the order of Tab.
   * @param {HTMLElement} item
   */
  dress(item) {
    for (const each of all(item, INNER)) {
      if (!each.matches(OWN_STOPS)) each.tabIndex = -1;
    }
    const label = LABELS[item.dataset.kind ?? ""];
    if (label) {
      item.setAttribute("role", "group");
      item.setAttribute("aria-label", label);
    }
  }

  /** @param {HTMLElement} [item] */
  choose(item) {
    if (!item || item === this.current) return;
    this.current?.removeAttribute("tabindex");
    this.current = item;
    item.tabIndex = 0;
  }

  // After each change: the newest message, until a person goes to another one
  draw() {
    const { log, scroller } = this.panel.parts;
    if (!log.contains(document.activeElement) || !this.current?.isConnected) this.choose(this.items.at(-1));
    scroller.tabIndex = log.childElementCount ? -1 : 0;
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || !this.current) return;
    const { items, current } = this;
    const inner = [current, ...all(current, INNER).filter(isReachable)];
    const focused = /** @type {HTMLElement} */ (document.activeElement);
    const [at, within] = [items.indexOf(current), inner.indexOf(focused)];
    /** @type {Record<string, () => HTMLElement | undefined>} */
    const steps = {
      ArrowUp: () => items[at - 1],
      ArrowDown: () => items[at + 1],
      Home: () => items[0],
      End: () => items.at(-1),
      ArrowLeft: () => inner[within - 1],
      ArrowRight: () => inner[within + 1],
    };
    const next = steps[event.key]?.();
    if (!next) return;
    event.preventDefault();
    if (items.includes(next)) this.choose(next);
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }
}
