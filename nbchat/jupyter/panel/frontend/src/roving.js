// Messages are one stop of the Tab key: ArrowUp and ArrowDown go from one to the next,
// ArrowRight and ArrowLeft through the buttons of one

import { isReachable } from "./dialog.js";

const INNER = "button, summary, a[href]";
const OWN_STOPS = ".nbc-decision button"; // a call that waits is answered by Tab and Enter

const LABELS = { prompt: "Your message", answer: "Answer", banner: "Compaction", attachment: "Attachment" };

export class Roving {
  constructor(panel) {
    this.panel = panel;
    this.current = null; // the message that Tab reaches
    const { log } = panel.parts;
    log.addEventListener("keydown", (event) => this.onKey(event));
    log.addEventListener("focusin", ({ target }) => this.choose(this.items.find((item) => item.contains(target))));
  }

  get items() {
    return [...this.panel.parts.log.querySelectorAll(":scope > :not(.nbc-spent)")];
  }

  // Take the buttons of an item out of the order of Tab.
  dress(item) {
    for (const each of item.querySelectorAll(INNER)) {
      if (!each.matches(OWN_STOPS)) each.tabIndex = -1;
    }
    const label = LABELS[item.dataset.kind];
    if (label) {
      item.setAttribute("role", "group");
      item.setAttribute("aria-label", label);
    }
  }

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

  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || !this.current) return;
    const { items, current } = this;
    const inner = [current, ...[...current.querySelectorAll(INNER)].filter(isReachable)];
    const [at, within] = [items.indexOf(current), inner.indexOf(document.activeElement)];
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
