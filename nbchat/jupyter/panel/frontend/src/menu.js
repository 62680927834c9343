// The menu behind the dots

export class Menu {
  constructor(panel) {
    this.panel = panel;
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

  get items() {
    return [...this.panel.parts.menu.children].filter((item) => !item.hidden && !item.disabled);
  }

  open() {
    const { more, menu } = this.panel.parts;
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
    const { pins = [], has_sessions: hasSessions, phase, is_busy: isBusy } = this.panel.state;
    const [pinned, ...sessions] = menu.children;
    const [, create] = sessions;
    pinned.textContent = pins.length ? `Pins (${pins.length})` : "Pins";
    sessions.forEach((item) => (item.hidden = !hasSessions));
    create.disabled = Boolean(isBusy);
    create.title = isBusy ? "Wait for the answer or stop it" : "";
    more.disabled = phase !== "ready" || this.panel.isGone;
    if (more.disabled) this.hide();
  }
}
