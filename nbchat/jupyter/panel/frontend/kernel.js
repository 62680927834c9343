// What a panel knows of its kernel: whether it answers, is slow to, or is gone

const ENDED = new Set(["restarting", "autorestarting", "terminating", "dead"]);
const RETRY_MILLISECONDS = 3000; // ask again for a snapshot that does not come
const SILENCE_MILLISECONDS = 10000; // a busy kernel says something more often than this
const IDLE_MILLISECONDS = 2 * RETRY_MILLISECONDS; // one without work answers long before

class KernelLink {
  constructor(panel) {
    this.panel = panel;
    this.isGone = false;
    this.isSlow = false; // no answer yet: it may be running a cell, or be gone
    this.lastHeard = this.askedAt = Date.now();
    this.id = this.kernel?.id;
    panel.onModel("comm_live_update", () => this.setGone(true));
    panel.onModel("comm:close", () => this.setGone(true));
    this.listenToStatus();
  }

  get kernel() {
    return this.panel.model.widget_manager?.kernel; // null where there is none
  }

  // Voilà tells its widgets nothing of a kernel that ends.
  listenToStatus() {
    const { statusChanged } = this.kernel ?? {};
    const react = (_kernel, status) => ENDED.has(status) && this.setGone(true);
    statusChanged?.connect(react);
    this.panel.undo.push(() => statusChanged?.disconnect(react));
  }

  send(message) {
    try {
      this.panel.model.send(message);
    } catch (error) {
      console.warn("nbchat: the kernel did not take a message", error);
      this.setGone(true);
    }
  }

  heard() {
    this.lastHeard = Date.now();
    this.id = this.kernel?.id;
    if (this.isSlow) this.setSlow(false);
    this.setGone(false);
  }

  // Something was asked of it that takes time from now on.
  expectNews() {
    this.lastHeard = Date.now();
  }

  // Once a second: ask for what does not come
  tick() {
    if (this.isGone) return;
    if (this.isLost()) return this.setGone(true);
    const { sequence, state } = this.panel;
    const isNew = sequence === null;
    const silence = Date.now() - this.lastHeard;
    const patience = isNew ? RETRY_MILLISECONDS : SILENCE_MILLISECONDS;
    if (silence < patience || !(isNew || state.is_busy)) return;
    if (Date.now() - this.askedAt >= patience) this.askAgain();
    this.setSlow(isNew || silence > patience + RETRY_MILLISECONDS);
  }

  // JupyterLab tells its widgets nothing of a kernel that another one takes the place of,
  // and restores those that a notebook was saved with, whether or not there is a kernel.
  isLost() {
    const { kernel } = this;
    if (this.id !== undefined && kernel?.id !== this.id) return true;
    const isUnheard = this.panel.sequence === null;
    const couldAnswer = kernel === null || kernel?.status === "idle";
    return isUnheard && couldAnswer && Date.now() - this.lastHeard > IDLE_MILLISECONDS;
  }

  // Unlike a resync this is always answered, by a kernel that can.
  askAgain() {
    this.askedAt = Date.now();
    this.send({ type: "hello" });
  }

  setSlow(isSlow) {
    this.isSlow = isSlow;
    this.panel.drawStatus();
  }

  setGone(isGone) {
    if (this.isGone === isGone) return;
    this.isGone = isGone;
    this.panel.keepFocus(() => this.panel.draw());
  }
}
