// The menu of the header

const CELLS = "You see and approve each change and each run";

export class Menu {
  constructor(panel) {
    this.panel = panel;
    this.selected = "";
    const { more, menu } = panel.parts;
    more.addEventListener("click", () => (menu.hidden ? this.open() : this.close()));
    more.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") this.pressed(event, () => this.open());
    });
    menu.addEventListener("keydown", (event) => this.onKey(event));
    menu.addEventListener("click", (event) => this.clicked(event));
    menu.addEventListener("focusout", ({ relatedTarget: next }) => {
      if (next && next !== more && !menu.contains(next)) this.hide();
    });
    panel.parts.root.addEventListener("pointerdown", ({ target }) => {
      if (!menu.contains(target) && !more.contains(target)) this.hide();
    });
  }

  get isBeside() {
    return Boolean(this.panel.parts.root.closest(".jupyterlab-sidecar"));
  }

  get items() {
    return [...this.panel.parts.menu.children].filter((item) => !item.hidden && !item.disabled);
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

  onKey(event) {
    const { items } = this;
    const index = items.indexOf(document.activeElement);
    const go = (to) => items.at(to % items.length).focus();
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

  pressed(event, step) {
    event.preventDefault();
    step();
  }

  clicked(event) {
    const item = event.target.closest("[role=menuitem]");
    if (!item) return;
    this.close();
    this.panel.choose(item.dataset.item);
  }

  draw() {
    const { more, menu } = this.panel.parts;
    const { state, isGone } = this.panel;
    const { pins = [], phase, is_busy: isBusy, policy } = state;
    const isHidden = { sessions: !state.has_sessions, new: !state.has_sessions };
    isHidden.remove = !state.has_sessions;
    isHidden.settings = !state.has_settings;
    isHidden.policy = !policy;
    isHidden.servers = !state.has_servers;
    isHidden.side = !state.has_side || !isInLab() || this.isBeside;
    isHidden.back = !this.isBeside;
    const isNotebook = Boolean(this.panel.notebook.model); // Voila and pages have none
    isHidden.cells = !isNotebook || state.offers_cells !== false;
    isHidden.noCells = !isNotebook || !state.offers_cells;
    const isWaiting = { new: isBusy, compact: isBusy, remove: isBusy, cells: isBusy, noCells: isBusy };
    const notes = { pins: pins.length ? ` (${pins.length})` : "", policy: `: ${policy}` };
    for (const item of menu.children) {
      const { item: name, label } = item.dataset;
      item.hidden = Boolean(isHidden[name]);
      item.disabled = Boolean(isWaiting[name]);
      item.title = item.disabled ? "Wait for the answer or stop it" : name === "cells" ? CELLS : "";
      item.textContent = `${label}${notes[name] ?? ""}`;
    }
    more.disabled = phase !== "ready" || isGone;
    if (more.disabled) this.hide();
  }
}

// What is selected in the conversation, before the focus leaves it
function selectedIn(log) {
  const selection = document.getSelection();
  return selection?.anchorNode && log.contains(selection.anchorNode) ? String(selection).trim() : "";
}

// Notebook 7, Voila and others have no place beside the notebook.
function isInLab() {
  return document.querySelector("#jp-main-dock-panel") !== null;
}
