// The connection to the kernel: whether it answers, is busy, or is gone

/** @import * as Protocol from "../protocol.js" */
/** @import { ChatPanel } from "./panel.js" */

const ENDED = new Set(["restarting", "autorestarting", "terminating", "dead"]);
export const RETRY_MILLISECONDS = 3000; // ask again for a snapshot that does not come
const SILENCE_MILLISECONDS = 10000; // a busy kernel sends messages more often
const IDLE_MILLISECONDS = 2 * RETRY_MILLISECONDS; // an idle kernel answers long before

export class KernelLink {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    this.isGone = false;
    this.isSlow = false; // no answer yet: it runs a cell, or is gone
    this.lastHeard = this.askedAt = Date.now();
    this.id = this.kernel?.id;
    panel.onModel("comm_live_update", () => this.setGone(true));
    panel.onModel("comm:close", () => this.setGone(true));
    this.listenToStatus();
  }

  get kernel() {
    return this.panel.model.widget_manager?.kernel; // null where there is none
  }

  // Whether there is a kernel that could open the chat again
  get isRunning() {
    return ["idle", "busy"].includes(this.kernel?.status ?? "");
  }

  // Voilà does not report to its widgets that a kernel ended.
  listenToStatus() {
    const { statusChanged } = this.kernel ?? {};
    /** @param {unknown} _kernel @param {string} status */
    const react = (_kernel, status) => ENDED.has(status) && this.setGone(true);
    statusChanged?.connect(react);
    this.panel.undo.push(() => statusChanged?.disconnect(react));
  }

  /** @param {Protocol.ViewToKernel} message */
  send(message) {
    try {
      this.panel.model.send(message);
    } catch (error) {
      console.warn("nbchat: the kernel did not accept a message", error);
      this.setGone(true);
    }
  }

  onMessage() {
    this.lastHeard = Date.now();
    this.id = this.kernel?.id;
    if (this.isSlow) this.setSlow(false);
    this.setGone(false);
  }

  // A request was sent: measure the silence from now on.
  expectMessage() {
    this.lastHeard = Date.now();
  }

  // Once a second: ask again for what did not arrive
  tick() {
    if (this.isGone) return this.panel.drawGone(); // another kernel may be there by now
    if (this.isLost()) return this.setGone(true);
    const { sequence, state } = this.panel;
    const isNew = sequence === null;
    const silence = Date.now() - this.lastHeard;
    const patience = isNew ? RETRY_MILLISECONDS : SILENCE_MILLISECONDS;
    if (silence < patience || !(isNew || state.is_busy)) return;
    if (Date.now() - this.askedAt >= patience) this.askAgain();
    this.setSlow(isNew || silence > patience + RETRY_MILLISECONDS);
  }

  // JupyterLab does not tell its widgets when another kernel replaces theirs, and restores
  // the widgets of a saved notebook with or without a kernel.
  isLost() {
    const { kernel } = this;
    if (this.id !== undefined && kernel?.id !== this.id) return true;
    const isUnheard = this.panel.sequence === null;
    const couldAnswer = kernel === null || kernel?.status === "idle";
    return isUnheard && couldAnswer && Date.now() - this.lastHeard > IDLE_MILLISECONDS;
  }

  // Unlike a resync, a hello is always answered.
  askAgain() {
    this.askedAt = Date.now();
    this.send({ type: "hello" });
  }

  /** @param {boolean} isSlow */
  setSlow(isSlow) {
    this.isSlow = isSlow;
    this.panel.drawStatus();
  }

  /** @param {boolean} isGone */
  setGone(isGone) {
    if (this.isGone === isGone) return;
    this.isGone = isGone;
    this.panel.keepFocus(() => this.panel.draw());
  }
}
