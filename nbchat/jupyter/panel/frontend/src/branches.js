// "2 / 3" at a message of which there are several versions, each in a session of its own

import { all, focusQuietly, iconButton, newToken, on, pressedIn, tag } from "./dom.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { Answer } from "./dialog.js" */
/** @import { ChatPanel } from "./panel.js" */

export class Branches {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    /** @type {Protocol.Switch[]} */
    this.switches = [];
    this.isDue = true; // to ask, once nothing runs: a new branch is saved then
    /** @type {string | null} */
    this.token = null;
    /** @type {string | null} */
    this.returnTo = null; // the button that was pressed, in the session that comes
    on(panel.parts.log, "click", (event) => this.clicked(event));
  }

  // Another session is shown
  clear() {
    this.switches = [];
    this.isDue = true;
  }

  ask() {
    if (!this.isDue) return;
    this.isDue = false;
    this.token = newToken();
    this.panel.send({ type: "branches", token: this.token });
  }

  /** @param {Answer} message */
  hear(message) {
    if (message.token !== this.token) return;
    this.token = null;
    if (message.type !== "branch_switches") return;
    this.switches = message.switches;
    all(this.panel.parts.log, ".nbc-switch").forEach((each) => each.remove());
    this.draw();
    this.goBack();
  }

  // Earlier messages may have come; the buttons are blocked while a turn runs.
  draw() {
    const isBlocked = this.panel.isBlocked;
    for (const each of this.switches) {
      const line = this.panel.actions.lineFrom(each.position);
      if (!line) continue;
      if (!line.querySelector(".nbc-switch")) line.append(this.made(each));
      /** @type {HTMLButtonElement[]} */
      const steps = all(line, ".nbc-switch button");
      for (const step of steps) {
        step.disabled = isBlocked || !step.dataset.session;
      }
    }
  }

  /** @param {Protocol.Switch} each */
  made({ position, number, sessions }) {
    const total = sessions.length;
    /** @param {string} label @param {ReturnType<typeof named>} icon @param {number} index */
    const step = (label, icon, index) => {
      const made = icon("nbc-switch-step", label);
      made.dataset.session = sessions[index] ?? "";
      made.dataset.step = `${position} ${label}`;
      return made;
    };
    /** @type {(icon: string) => (className: string, label: string) => HTMLButtonElement} */
    const named = (icon) => (className, label) => iconButton(className, icon, label);
    const about = { role: "group", "aria-label": `Version ${number} of ${total} of this message` };
    const box = tag("div", "nbc-switch", about);
    box.append(
      step("Earlier version", named("before"), number - 2),
      tag("span", "", { "aria-hidden": "true" }, `${number} / ${total}`),
      step("Later version", named("after"), number),
    );
    this.panel.roving.dress(box);
    return box;
  }

  /** @param {Event} event */
  clicked(event) {
    const pressed = pressedIn(event, ".nbc-switch-step");
    if (!pressed) return;
    this.returnTo = pressed.dataset.step ?? null;
    this.panel.command(`/resume ${pressed.dataset.session}`);
  }

  // Show the message, not the end of the chat, so that one can go on comparing.
  goBack() {
    const { log, input } = this.panel.parts;
    /** @type {HTMLButtonElement | null} */
    const step = log.querySelector(`[data-step="${CSS.escape(this.returnTo ?? "")}"]`);
    this.returnTo = null;
    if (!step) return;
    this.panel.transcript.isPinned = false;
    step.closest(".nbc-line")?.scrollIntoView({ block: "nearest" });
    /** @type {HTMLElement | null | undefined} */
    const other = step.disabled ? step.parentElement?.querySelector("button:enabled") : step;
    if (document.activeElement === input && !input.value) focusQuietly(other);
  }
}
