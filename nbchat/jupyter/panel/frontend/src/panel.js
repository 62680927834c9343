// The view of a chat: draws what the kernel sends, and sends what the user does.
// Messages are described in protocol.json. Text is set as text; only `html` fields,
// which nbchat.rendering made safe, are inserted as HTML.

import { Decisions, waitingText } from "./approvals.js";
import { Beside } from "./beside.js";
import { Branches } from "./branches.js";
import { CodeActions } from "./code_blocks.js";
import { Attached, PreviewDialog, listenForFiles } from "./attachments.js";
import { CompactDialog } from "./compact_dialog.js";
import { Completer } from "./completion.js";
import { ContextDialog } from "./context_usage.js";
import { Dialog, isReachable } from "./dialog.js";
import { focusQuietly, fromHtml, iconButton, newToken, on, plural, pressedIn, setText, tag } from "./dom.js";
import { HistoryView } from "./full_history.js";
import { drawMeter, drawModel } from "./header.js";
import { Box } from "./input_box.js";
import { Height } from "./height.js";
import { KernelLink } from "./kernel_connection.js";
import { SILENT, frame, goneText } from "./layout.js";
import { MemoryDialog } from "./memory.js";
import { LongTexts } from "./long_text.js";
import { Menu } from "./menu.js";
import { Actions, Editing } from "./message_actions.js";
import { KeyReplacement } from "./key_form.js";
import { ModelDialog } from "./models.js";
import { NotebookCells } from "./notebook.js";
import { Known, KnownDialog } from "./notebook_known.js";
import { NotebookRequests } from "./notebook_requests.js";
import { PinsDialog } from "./pins.js";
import { RemoveDialog } from "./remove_dialog.js";
import { PolicyDialog } from "./policy.js";
import { Roving } from "./roving.js";
import { RunDialog } from "./run_dialog.js";
import { Announcer } from "./screen_reader.js";
import { ServerRoute } from "./server_route.js";
import { ServersDialog } from "./servers.js";
import { SessionsDialog } from "./sessions.js";
import { SettingsDialog } from "./settings.js";
import { Start } from "./start.js";
import { RegenerateDialog, SummaryDialog } from "./summary_dialogs.js";
import { Transcript } from "./transcript.js";

/** @import { Kernel, NotebookModel } from "./notebook.js" */
/** @import * as Protocol from "../protocol.js" */

/** What a view uses of the widget's model and of the page around it.
 * @typedef {object} Model
 * @property {((name: "height" | "theme") => string) & ((name: "protocol") => number)} get
 * @property {(name: string, react: (message: Protocol.KernelToView) => void) => void} on
 * @property {(name: string, react: (message: Protocol.KernelToView) => void) => void} off
 * @property {(message: Protocol.ViewToKernel) => void} send
 * @property {{ kernel?: Kernel | null, context?: { model?: NotebookModel, path?: string } }} [widget_manager]
 */

/** @typedef {Protocol.Events["events"][number]} Operation */
/** @typedef {{ focus: string, keep: number | null, upto?: number | null }} Compaction One by hand */

const PROTOCOL = 1;
const CHANGES = /^\/(?:undo|redo|edit|include|exclude)\b/; // commands that change an earlier line
const QUEUED_SHOWN = 1_000; // characters of a message that waits
const ALLOWED = { ask: "", edits: "Edits cells without asking · Ask again", all: "Edits and runs cells without asking · Ask again" };

/** @param {{ model: Model, el: HTMLElement }} widget */
function render({ model, el }) {
  const panel = new Panel(model, el);
  return () => panel.remove();
}

export default { render };

/** @typedef {Panel} ChatPanel The type of a panel, for the other modules */

class Panel {
  /** @param {Model} model @param {HTMLElement} host */
  constructor(model, host) {
    this.model = model;
    this.parts = frame();
    /** @type {number | null} */
    this.sequence = null; // null until a snapshot came
    this.transcript = new Transcript(this);
    /** @type {Protocol.SomeState & { queue: string[], is_busy: boolean, waiting: NonNullable<Protocol.SomeState['waiting']> }} */
    this.state = { queue: [], is_busy: false, retry: null, waiting: [] };
    this.isFrozen = false; // after Stop: later text is not shown
    this.showsChange = false; // after /undo and the like: its line comes in sight
    /** @type {(() => void)[]} */
    this.undo = [];
    this.overviewHtml = ""; // of the summary that is open
    this.link = new KernelLink(this);
    this.server = new ServerRoute(this.link);
    this.announcer = new Announcer(this);
    /** @type {Compaction} */
    this.compaction = { focus: "", keep: null }; // the one requested last
    this.notebook = new NotebookCells(this);
    this.beside = new Beside(this);
    this.requests = new NotebookRequests(this);
    this.compactDialog = new CompactDialog(this);
    this.historyView = new HistoryView(this);
    this.memoryDialog = new MemoryDialog(this);
    this.settingsDialog = new SettingsDialog(this);
    this.policyDialog = new PolicyDialog(this);
    this.summaryDialog = new SummaryDialog(this);
    this.regenerateDialog = new RegenerateDialog(this);
    this.pinsDialog = new PinsDialog(this);
    this.removeDialog = new RemoveDialog(this);
    this.sessionsDialog = new SessionsDialog(this);
    this.serversDialog = new ServersDialog(this);
    this.modelDialog = new ModelDialog(this);
    this.preview = new PreviewDialog(this);
    this.context = new ContextDialog(this);
    this.runDialog = new RunDialog(this);
    this.knownDialog = new KnownDialog(this);
    /** @type {Dialog[]} */
    this.dialogs = Object.values(this).filter((part) => part instanceof Dialog);
    this.code = new CodeActions(this);
    this.decisions = new Decisions(this);
    this.roving = new Roving(this);
    this.box = new Box(this);
    this.completer = new Completer(this);
    this.attached = new Attached(this);
    this.known = new Known(this);
    this.menu = new Menu(this);
    this.actions = new Actions(this);
    this.longTexts = new LongTexts(this);
    this.editing = new Editing(this);
    this.branches = new Branches(this);
    this.start = new Start(this);
    this.keyReplacement = new KeyReplacement(this);
    this.height = new Height(this);
    host.append(this.parts.root);
    this.listenToModel();
    this.listenToUser();
    this.applyLook();
    this.draw();
    this.send({ type: "hello", view: this.notebook.open ? this.requests.view : "" });
    const timer = setInterval(() => this.tick(), 1000);
    this.undo.push(() => clearInterval(timer));
  }

  remove() {
    this.undo.forEach((step) => step());
    this.parts.root.remove();
  }

  // The kernel

  listenToModel() {
    this.onModel("msg:custom", (message) => this.receive(message));
    this.onModel("change:height", () => this.applyLook());
    this.onModel("change:theme", () => this.applyLook());
  }

  /** @param {string} name @param {(message: Protocol.KernelToView) => void} react */
  onModel(name, react) {
    this.model.on(name, react);
    this.undo.push(() => this.model.off(name, react));
  }

  /** @param {Protocol.ViewToKernel} message */
  send(message) {
    const isPersons = message.type === "send" || message.type === "branch" || message.type === "approve";
    this.link.send(isPersons ? { ...message, view: this.requests.view } : message);
  }

  get isGone() {
    return this.link.isGone;
  }

  // Nothing can be asked for while an answer is written, or without a kernel.
  get isBlocked() {
    return this.isGone || Boolean(this.state.is_busy);
  }

  /** @param {Protocol.KernelToView} message */
  receive(message) {
    this.keepFocus(() => this.take(message));
  }

  /** @param {Protocol.KernelToView} message */
  take(message) {
    this.link.onMessage();
    if (message.type === "snapshot") this.restore(message);
    if (message.type === "events") this.advance(message);
    if (message.type === "earlier_page") this.transcript.addEarlier(message);
    const askers = [...this.dialogs, this.completer, this.attached, this.known, this.actions, this.longTexts, this.branches, this.start, this.keyReplacement];
    if ("token" in message) askers.forEach((asker) => asker.hear(message));
  }

  /** @param {Protocol.Snapshot} snapshot */
  restore(snapshot) {
    if (this.sequence === snapshot.seq) return;
    const isNew = this.sequence === null && snapshot.is_new;
    this.sequence = snapshot.seq;
    this.branches.clear();
    this.transcript.restore(snapshot);
    this.setState(snapshot.state);
    this.box.restoreDraft();
    this.draw();
    if (isNew) this.notebook.enter();
  }

  /** @param {Protocol.Events} batch */
  advance(batch) {
    if (this.sequence === null) return; // the snapshot is on its way
    if (batch.seq !== this.sequence + 1) {
      this.send({ type: "resync", seq: this.sequence });
      this.sequence = null;
      return;
    }
    this.sequence = batch.seq;
    batch.events.forEach((operation) => this.apply(operation));
    this.announcer.announce();
    this.draw();
  }

  /** @param {Operation} operation */
  apply(operation) {
    const { transcript } = this;
    const { op } = operation;
    if (op === "restart") this.restart(operation);
    if (op === "item") this.announcer.add(transcript.setItem(operation));
    if (op === "drop") transcript.dropItem(operation.key);
    if (op === "text") transcript.addText(operation);
    if (op === "block") transcript.addBlock(operation);
    if (op === "settle") transcript.settle(operation.kind);
    if (op === "state") this.setState(operation.state);
    if (op === "draft") this.box.offerDraft(operation);
  }

  /** @param {Protocol.RestartOperation} operation */
  restart(operation) {
    this.editing.leave();
    this.branches.clear();
    this.transcript.restart(operation);
  }

  // Once a second: count down, and repair what a lost message broke

  tick() {
    if (this.state.retry) this.drawStatus();
    this.link.tick();
  }

  // The state

  /** @param {Protocol.SomeState} changes */
  setState(changes) {
    this.state = { ...this.state, ...changes };
    if (changes.is_busy === false || changes.queue?.length) this.isFrozen = false;
    if (changes.is_busy === false || changes.phase === "ready") this.rest();
    if (changes.queue) this.box.forgetSent(changes.queue);
    if (changes.retry) this.retryAt = Date.now() + 1000 * changes.retry.seconds;
  }

  // The turn is over
  rest() {
    this.dialogs.forEach((dialog) => dialog.refresh());
    this.branches.ask();
    this.known.look();
    this.requests.endTurn();
  }

  /** Without a focused element the next key would be a notebook command.
   * @param {() => void} step
   */
  keepFocus(step) {
    const { root, input, scroller } = this.parts;
    const hadFocus = root.contains(document.activeElement);
    step();
    const { activeElement: focused } = document;
    if (!hadFocus || (root.contains(focused) && isReachable(focused))) return;
    const dialog = this.dialogs.find((each) => each.isOpen);
    focusQuietly(dialog?.box ?? (input.disabled ? scroller : input));
  }

  applyLook() {
    const { root } = this.parts;
    this.height.apply();
    root.dataset.theme = this.model.get("theme");
    const isForeign = this.model.get("protocol") !== PROTOCOL;
    this.parts.foreign.hidden = !isForeign;
  }

  draw() {
    this.drawHeader();
    this.drawStatus();
    this.drawQueue();
    this.drawButtons();
    const isUnsaid = this.transcript.isUnsaid && !this.state.queue.length;
    const isOpening = this.sequence === null || this.state.phase === "starting";
    this.parts.empty.hidden = !isUnsaid || isOpening;
    this.drawOverview();
    this.drawGone();
    this.start.draw();
    this.beside.draw();
    this.requests.notice.draw();
    this.menu.draw();
    this.actions.draw();
    this.branches.draw();
    this.dialogs.forEach((dialog) => dialog.draw());
    this.roving.draw();
    this.transcript.keepAtBottom();
    if (this.state.waiting.length) this.decisions.look();
  }

  // What the model sees in place of the first messages; its text is made when it is opened
  drawOverview() {
    const { overview, overviewCount, overviewText } = this.parts;
    const { summary } = this.state;
    overview.hidden = !summary;
    if (!summary) overview.open = false;
    const count = summary ? plural(summary.messages, "message") : "";
    setText(overviewCount, count);
    const html = summary && overview.open ? summary.html : "";
    if (this.overviewHtml === html) return;
    this.overviewHtml = html;
    overviewText.replaceChildren(...(html ? [fromHtml(html)] : []));
  }

  drawGone() {
    const { root, gone, goneText: shown, reopen } = this.parts;
    const { isEmpty } = this.transcript;
    const { isRunning } = this.link;
    const canReopen = this.isGone && isRunning && this.notebook.opensHere;
    const text = this.isGone ? goneText({ wasOpen: this.sequence !== null, isRunning, canReopen }) : "";
    setText(shown, text);
    gone.hidden = !this.isGone;
    reopen.hidden = !canReopen;
    root.classList.toggle("nbc-is-gone", this.isGone);
    root.classList.toggle("nbc-is-closed", this.isGone && isEmpty);
  }

  drawHeader() {
    const { meter, spent } = this.state;
    drawModel(this.parts, this.state, this.isGone);
    if (meter) drawMeter(this.parts, meter, spent);
  }

  drawStatus() {
    const { status, statusText } = this.parts;
    const text = this.isGone ? "" : (this.statusText() ?? "");
    status.hidden = !text;
    setText(statusText, text);
    const isHeld = this.state.retry || this.state.waiting.length;
    status.classList.toggle("nbc-is-waiting", Boolean(isHeld));
  }

  statusText() {
    if (this.sequence === null) {
      return this.link.isSlow ? "The kernel is busy with a cell" : "Connecting";
    }
    if (this.link.isSlow) return SILENT;
    if (this.isFrozen) return "Stopping";
    const { retry, activity, phase, queue, is_busy: isBusy, waiting } = this.state;
    if (waiting.length) return waitingText(waiting);
    if (retry) {
      const seconds = Math.max(0, Math.ceil(((this.retryAt ?? 0) - Date.now()) / 1000));
      return `${retry.reason} ${seconds ? `Retrying in ${seconds} s.` : "Retrying now."}`;
    }
    if (phase === "starting") return queue.length ? "Starting the model" : "Opening the chat";
    return isBusy ? activity : "";
  }

  drawQueue() {
    const { queue: texts } = this.state;
    const { queue } = this.parts;
    queue.hidden = !texts.length;
    if (this.shownQueue === JSON.stringify(texts)) return;
    this.shownQueue = JSON.stringify(texts);
    queue.replaceChildren(...texts.map((text, index) => this.queued(text, index)));
  }

  /** A message that waits, with buttons to take it back
   * @param {string} text
   * @param {number} index
   */
  queued(text, index) {
    const withdraw = (/** @type {boolean} */ isEdit) => {
      this.send({ type: "withdraw", index, text, edit: isEdit });
      this.focusBox();
    };
    const edit = iconButton("", "edit", "Edit", "Move it back into the message box");
    const remove = iconButton("", "close", "Remove", "Don't send it");
    on(edit, "click", () => withdraw(true));
    on(remove, "click", () => withdraw(false));
    return tag("li", "nbc-queued", {}, tag("span", "", { dir: "auto" }, text.slice(0, QUEUED_SHOWN)), edit, remove);
  }

  drawButtons() {
    const { input, send, stop, context, attach, mention, allowed } = this.parts;
    const isBusy = Boolean(this.state.is_busy);
    const isReady = this.state.phase === "ready" && !this.isGone;
    const hasText = input.value.trim() !== "";
    stop.hidden = !isBusy || this.isGone;
    stop.disabled = this.isFrozen || this.isGone;
    send.hidden = isBusy && !hasText;
    const mustWait = isBusy && this.editing.isOn;
    send.disabled = !hasText || this.isGone || mustWait;
    send.setAttribute("aria-label", isBusy && !mustWait ? "Queue" : "Send");
    context.disabled = !isReady;
    input.disabled = attach.disabled = mention.disabled = this.isGone;
    const does = ALLOWED[this.state.allowed ?? "ask"];
    allowed.hidden = !does || this.isGone;
    setText(allowed, does);
  }

  // The user

  listenToUser() {
    const { root, stop, scroller, jump, model, reopen } = this.parts;
    for (const name of ["keydown", "keypress", "keyup"]) {
      root.addEventListener(name, (event) => event.stopPropagation());
    }
    on(stop, "click", () => this.stop());
    on(this.parts.overview, "toggle", () => this.drawOverview());
    on(model, "click", () => this.modelDialog.open(model));
    on(reopen, "click", () => this.notebook.reopen());
    on(this.parts.allowed, "click", () => this.askAgain());
    on(this.parts.meter, "click", () => this.context.openFromMeter());
    on(scroller, "scroll", () => this.transcript.onScroll());
    on(jump, "click", () => this.jump());
    on(root, "click", (event) => this.retryClicked(event));
    listenForFiles(this.parts, this.attached);
    const resized = new ResizeObserver(() => this.transcript.keepAtBottom());
    resized.observe(scroller);
    resized.observe(this.parts.content);
    this.undo.push(() => resized.disconnect());
  }

  askAgain() {
    this.send({ type: "ask_again" });
    this.focusBox();
  }

  jump() {
    const card = /** @type {HTMLElement | null} */ (this.parts.log.querySelector("[data-ticket]"));
    if (card) {
      this.decisions.readOn(card);
      return;
    }
    this.transcript.isPinned = true;
    this.transcript.keepAtBottom();
    this.focusBox();
  }

  focusBox() {
    this.parts.input.focus();
  }

  /** @param {string} text @param {string[]} [previews] @param {string[]} [pasted] */
  say(text, previews = [], pasted = []) {
    this.known.said();
    this.expectTurn(text);
    this.send({ type: "send", text, previews, pasted });
  }

  /** A button that sends a command; it may be removed a moment later.
   * @param {string} text
   */
  command(text) {
    if (this.isBlocked) return;
    this.say(text);
    this.focusBox();
  }

  /** @param {string} name of an item of the menu */
  choose(name) {
    const { more } = this.parts;
    /** @type {Record<string, Dialog>} */
    const dialogs = {
      pins: this.pinsDialog,
      sessions: this.sessionsDialog,
      history: this.historyView,
      compact: this.compactDialog,
      policy: this.policyDialog,
      servers: this.serversDialog,
      settings: this.settingsDialog,
    };
    if (name === "side") this.beside.open();
    else if (name === "new") this.command("/new");
    else if (name === "cells" || name === "noCells") this.command(`/set notebook_tools ${name === "cells"}`);
    else if (name === "transcript") this.notebook.keepTranscript();
    else if (name === "remove") this.removeDialog.open(more, this.menu.selected);
    else dialogs[name].open(more);
  }

  /** The buttons that lead here are disabled or removed a moment later: keep the focus.
   * @param {Compaction} compaction
   */
  compact(compaction) {
    this.compaction = compaction;
    this.expectTurn(`/compact ${compaction.focus}`.trim());
    this.send({ type: "compact", ...compaction });
    this.focusBox();
  }

  /** @param {Event} event */
  retryClicked(event) {
    const asked = pressedIn(event, ".nbc-proposal > button");
    if (asked?.matches(".nbc-compact-later")) {
      asked.closest(".nbc-proposal")?.remove();
      this.focusBox();
    } else if (asked?.matches(".nbc-compact-view")) {
      this.compactDialog.open(asked);
    } else if (asked && !this.isBlocked) {
      this.compact({ focus: "", keep: null });
    }
    const isRetry = pressedIn(event, ".nbc-retry");
    if (isRetry && !this.isBlocked) this.compact(this.compaction);
  }

  /** Show Stop from the first moment; the kernel's own state follows.
   * @param {string} text
   */
  expectTurn(text) {
    this.showsChange = CHANGES.test(text);
    if (!this.showsChange) this.transcript.isPinned = true;
    this.link.expectMessage();
    this.setState({ is_busy: true, queue: [...this.state.queue, text] });
    this.draw();
  }

  stop() {
    const token = newToken(); // the same on both routes, so that it counts once
    this.isFrozen = true;
    this.requests.stopTurn();
    this.send({ type: "stop", token });
    this.server.post("stop", { chat_id: this.state.chat_id, token });
    this.draw();
    this.focusBox();
  }

}
