// The menu of the header

import { on, pressedIn } from "./dom.js";

/** @import { ChatPanel } from "./panel.js" */

const CELLS = "You see and approve each change and each run";

export class Menu {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    this.selected = "";
    const { more, menu } = panel.parts;
    on(more, "click", () => (menu.hidden ? this.open() : this.close()));
    on(more, "keydown", (event) => {
      if (event.key === "ArrowDown") this.pressed(event, () => this.open());
    });
    on(menu, "keydown", (event) => this.onKey(event));
    on(menu, "click", (event) => this.clicked(event));
    on(menu, "focusout", ({ relatedTarget: next }) => {
      if (next instanceof Node && next !== more && !menu.contains(next)) this.hide();
    });
    on(panel.parts.root, "pointerdown", ({ target }) => {
      const isInside = target instanceof Node && (menu.contains(target) || more.contains(target));
      if (!isInside) this.hide();
    });
  }

  get all() {
    return /** @type {HTMLButtonElement[]} */ ([...this.panel.parts.menu.querySelectorAll("button")]);
  }

  get items() {
    return this.all.filter((item) => !item.hidden && !item.disabled);
  }

  open() {
    const { more, menu } = this.panel.parts;
    this.selected = selectedIn(this.panel.parts.log);
    menu.hidden = false;
    more.setAttribute("aria-expanded", "true");
    this.items[0].focus();
  }

  hide() {
    const { more, menu } = this.panel.parts;
    menu.hidden = true;
    more.setAttribute("aria-expanded", "false");
  }

  close() {
    this.hide();
    this.panel.parts.more.focus();
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const { items } = this;
    const index = items.findIndex((item) => item === document.activeElement);
    /** @param {number} to */
    const go = (to) => items.at(to % items.length)?.focus();
    /** @type {Record<string, () => void>} */
    const steps = {
      ArrowDown: () => go(index + 1),
      ArrowUp: () => go(index - 1),
      Home: () => go(0),
      End: () => go(-1),
      Escape: () => this.close(),
      Tab: () => this.close(),
    };
    if (steps[event.key]) this.pressed(event, steps[event.key]);
  }

  /** @param {Event} event @param {() => void} step */
  pressed(event, step) {
    event.preventDefault();
    step();
  }

  /** @param {Event} event */
  clicked(event) {
    const item = pressedIn(event, "[role=menuitem]");
    if (!item) return;
    this.close();
    this.panel.choose(item.dataset.item ?? "");
  }

  draw() {
    const { more } = this.panel.parts;
    const { state, isGone } = this.panel;
    const { pins = [], phase, is_busy: isBusy, policy } = state;
    /** @type {Record<string, boolean>} */
    const isHidden = { policy: !policy };
    isHidden.side = !this.panel.beside.isOffered;
    const isNotebook = Boolean(this.panel.notebook.model); // Voila and pages have none
    isHidden.transcript = !isNotebook;
    isHidden.cells = !isNotebook || state.offers_cells !== false;
    isHidden.noCells = !isNotebook || !state.offers_cells;
    /** @type {Record<string, boolean>} */
    const isWaiting = { new: isBusy, compact: isBusy, remove: isBusy, cells: isBusy, noCells: isBusy };
    /** @type {Record<string, string>} */
    const notes = { pins: pins.length ? ` (${pins.length})` : "", policy: `: ${policy}` };
    for (const item of this.all) {
      const { item: name = "", label } = item.dataset;
      item.hidden = Boolean(isHidden[name]);
      item.disabled = Boolean(isWaiting[name]);
      item.title = item.disabled ? "Wait for the answer or stop it" : name === "cells" ? CELLS : "";
      item.textContent = `${label}${notes[name] ?? ""}`;
    }
    const { menu } = this.panel.parts;
    for (const group of /** @type {Iterable<HTMLElement>} */ (menu.children)) group.hidden = !group.querySelector("button:not([hidden])");
    more.disabled = phase !== "ready" || isGone;
    if (more.disabled) this.hide();
  }
}

/** What is selected in the conversation, before the focus leaves it
 * @param {HTMLElement} log
 */
function selectedIn(log) {
  const selection = document.getSelection();
  return selection?.anchorNode && log.contains(selection.anchorNode) ? String(selection).trim() : "";
}
