// The panel's height, dragged at its lower edge and kept in this browser

import { on, tag } from "./dom.js";

/** @import { ChatPanel } from "./panel.js" */

const DEFAULT = "480px"; // of the widget's trait; another one was chosen in code
const KEY = "nbchat-height";
const LEAST_PIXELS = 220;
const STEP_PIXELS = 40;

export class Height {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    const about = { role: "separator", "aria-orientation": "horizontal", tabindex: "0" };
    this.grip = tag("div", "nbc-grip", { ...about, "aria-label": "Height of the chat", title: "Drag to change the height" });
    panel.parts.root.append(this.grip);
    on(this.grip, "pointerdown", (event) => this.begin(event));
    on(this.grip, "keydown", (event) => this.onKey(event));
  }

  // What the notebook's code set; else what was dragged here last
  apply() {
    const wanted = this.panel.model.get("height");
    const kept = wanted === DEFAULT ? localStorage.getItem(KEY) : null;
    this.panel.parts.root.style.height = kept ?? wanted;
    this.tell();
  }

  tell() {
    this.grip.setAttribute("aria-valuenow", String(Math.round(this.panel.parts.root.offsetHeight)));
  }

  /** @param {PointerEvent} event */
  begin(event) {
    const start = this.panel.parts.root.offsetHeight - event.clientY;
    /** @param {PointerEvent} event */
    const move = ({ clientY }) => this.set(start + clientY);
    event.preventDefault();
    this.grip.setPointerCapture(event.pointerId);
    on(this.grip, "pointermove", move);
    const end = () => this.grip.removeEventListener("pointermove", move);
    on(this.grip, "lostpointercapture", end, { once: true });
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    /** @type {Record<string, number>} */
    const steps = { ArrowUp: -STEP_PIXELS, ArrowDown: STEP_PIXELS };
    if (!steps[event.key]) return;
    event.preventDefault();
    this.set(this.panel.parts.root.offsetHeight + steps[event.key]);
  }

  /** @param {number} pixels */
  set(pixels) {
    const height = `${Math.max(LEAST_PIXELS, Math.round(pixels))}px`;
    this.panel.parts.root.style.height = height;
    localStorage.setItem(KEY, height);
    this.tell();
  }
}
