// The items of the transcript as elements by key, and the text that streams in below

import { addUndo } from "./cell_undo.js";
import { addDecision } from "./approvals.js";
import { finishBlocks } from "./code_blocks.js";
import { addProposalButtons, addRetryButton } from "./compact_dialog.js";
import { all, boxOf, focusQuietly, fromHtml, newToken, on, pressedIn, tag } from "./dom.js";
import { RETRY_MILLISECONDS } from "./kernel_connection.js";
import { addRest } from "./long_text.js";
import { linkSources } from "./memory.js";
import { addAgainButton, addBackButton, addRulesAnswers } from "./message_actions.js";
import { streamOf } from "./stream.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { ChatPanel } from "./panel.js" */
/** @import { Kind } from "./stream.js" */

const NEAR_BOTTOM_PIXELS = 40;
const NEAR_TOP_PIXELS = 800; // where earlier messages are requested
const JUMP_PIXELS = 40; // of its button, with the gap below
const MANY_BLOCKS = 50; // then blocks out of sight get no layout

/** @typedef {Protocol.Item & Pick<Protocol.ItemOperation, "streamed">} ShownItem */

const MOVING_MILLISECONDS = 1000; // a wheel keeps scrolling for a while

export class Transcript {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    /** @type {Map<number, HTMLElement>} by key */
    this.items = new Map();
    /** @type {number | null} */
    this.before = null; // the key below which there is more
    /** @type {string | null} */
    this.earlierToken = null; // of the request for it
    this.askAgainAt = 0;
    /** @type {Map<Kind, ReturnType<typeof streamOf>>} */
    this.live = new Map();
    this.isPinned = true; // to the bottom
    this.top = 0; // where it was scrolled to last
    this.isHeld = false; // or to the card of a call that waits
    /** @type {Element | null} */
    this.listing = null; // whose beginning was shown
    this.movedAt = 0; // when the user last did what may scroll
    for (const name of ["wheel", "touchmove", "pointerdown", "keydown"]) {
      const { scroller } = panel.parts;
      const note = (/** @type {Event} */ event) => pressedIn(event, "button") || (this.movedAt = Date.now());
      scroller.addEventListener(name, note, { passive: true });
    }
    on(panel.parts.scroller, "wheel", (event) => this.onWheel(event), { passive: true });
  }

  get isEmpty() {
    return !this.items.size && !this.live.size;
  }

  // Whether there is more than fits
  get isLong() {
    const { scroller } = this.panel.parts;
    return scroller.scrollHeight > scroller.clientHeight;
  }

  // Whether nothing was said yet; what commands answered does not count
  get isUnsaid() {
    return !this.live.size && [...this.items.values()].every((item) => item.matches(".nbc-note, .nbc-error, .nbc-rules"));
  }

  /** @param {Protocol.Snapshot} snapshot */
  restore(snapshot) {
    this.live.clear();
    this.panel.parts.live.replaceChildren();
    this.restart(snapshot);
    const streams = /** @type {[Kind, Protocol.Live][]} */ (Object.entries(snapshot.live));
    for (const [kind, { html, text }] of streams) {
      this.addBlock({ kind, html, text });
    }
    this.isPinned = true;
  }

  /** @param {Pick<Protocol.Snapshot, "items" | "before">} page */
  restart({ items, before }) {
    this.items.clear();
    this.panel.actions.clear();
    this.panel.parts.log.replaceChildren();
    this.top = 0;
    this.before = before;
    this.awaitNothing();
    items.forEach((item) => this.setItem(item));
  }

  /** Show an item; returns its element if it is new.
   * @param {ShownItem} item
   */
  setItem(item) {
    const { key } = item;
    if (key < (this.before ?? 0)) return null; // it is not here yet
    const { log } = this.panel.parts;
    const fresh = this.itemOf(item);
    const known = this.items.get(key);
    this.items.set(key, fresh);
    if (known) {
      this.redraw(known, fresh);
      this.showChange(fresh);
    }
    if (!known && !this.attachResult(fresh, log)) {
      // A notice that comes while one reads does not move what is read.
      if (fresh.matches(".nbc-notice, .nbc-banner") && !this.panel.state.is_busy) this.isPinned &&= !this.isLong;
      log.append(fresh);
    }
    const divider = dividerOf(fresh);
    const isChanged = divider && known && dividerOf(known)?.dataset.state !== divider.dataset.state;
    return !known || isChanged || known.matches("[data-state='running']") ? fresh : null;
  }

  /** Without a focused element the next key would be a notebook command.
   * @param {HTMLElement} known
   * @param {HTMLElement} fresh
   */
  redraw(known, fresh) {
    const hadFocus = known.contains(document.activeElement);
    known.replaceWith(fresh);
    if (hadFocus) focusQuietly(fresh.querySelector("summary") ?? this.panel.parts.scroller);
  }

  /** What /undo and the like have changed may be out of sight.
   * @param {HTMLElement} fresh
   */
  showChange(fresh) {
    if (!this.panel.showsChange || !dividerOf(fresh)) return;
    this.panel.showsChange = false;
    const { scroller } = this.panel.parts;
    const [inner, outer] = [boxOf(fresh), boxOf(scroller)];
    if (inner.top >= outer.top && inner.bottom <= outer.bottom) return;
    this.isPinned = false;
    scroller.scrollTop += inner.top - outer.top - 8;
  }

  /** @param {ShownItem} item */
  itemOf({ html, streamed, ...named }) {
    const fresh = fromHtml(html);
    const text = /** @type {HTMLElement} */ (fresh.querySelector(".nbc-md"));
    const height = streamed ? this.stream(streamed).root.offsetHeight : 0;
    if (streamed === "thinking") fresh.querySelector(".nbc-text")?.prepend(this.textOf(streamed));
    else if (streamed) text.prepend(...this.blocksOf(streamed));
    text?.classList.toggle("nbc-long", text.childElementCount > MANY_BLOCKS);
    finishBlocks(fresh, this.panel.notebook);
    addRetryButton(fresh);
    addProposalButtons(fresh);
    addBackButton(fresh);
    addUndo(fresh);
    addAgainButton(fresh);
    addDecision(fresh);
    addRulesAnswers(fresh);
    addRest(fresh, named.position);
    linkSources(fresh);
    this.panel.dialogs.forEach((dialog) => dialog.see(fresh));
    const dressed = this.panel.actions.dress(fresh, named);
    // Until it is drawn an item has an assumed height: a streamed one keeps its own.
    if (height) dressed.style.containIntrinsicSize = `auto ${height}px`;
    this.panel.roving.dress(dressed);
    return dressed;
  }

  /** A call's result is the second half of its card, and its pictures follow there.
   * @param {HTMLElement} result
   * @param {HTMLElement} parent
   */
  attachResult(result, parent) {
    if (!result.matches(".nbc-tool-result")) return false;
    const own = all(parent, ".nbc-tool").filter((card) => card.dataset.call === result.dataset.call);
    if (result.matches(".nbc-tool-picture")) {
      const answered = own.findLast((card) => card.dataset.state);
      answered?.append(result);
      return answered !== undefined;
    }
    const call = own.find((card) => !card.dataset.state);
    if (!call) return false;
    call.dataset.state = result.dataset.state;
    const title = call.querySelector("summary");
    if (title) title.dataset.size = result.dataset.size;
    call.append(result);
    return true;
  }

  /** @param {number} key */
  dropItem(key) {
    const { scroller } = this.panel.parts;
    const gone = this.items.get(key);
    if (gone?.contains(document.activeElement)) focusQuietly(scroller);
    gone?.remove();
    this.panel.actions.forget(key);
    this.items.delete(key);
  }

  askEarlier() {
    if (this.before === null || this.panel.isGone || Date.now() < this.askAgainAt) return;
    const { scroller } = this.panel.parts;
    const isFar = scroller.scrollTop > NEAR_TOP_PIXELS && !this.isApprovalAbove();
    if (isFar || !scroller.clientHeight) return;
    this.earlierToken = newToken();
    this.askAgainAt = Date.now() + RETRY_MILLISECONDS;
    this.panel.send({ type: "earlier", before: this.before, token: this.earlierToken });
  }

  // The card of a call that waits may be on an earlier page.
  isApprovalAbove() {
    return this.panel.state.waiting.some(({ key }) => key < (this.before ?? 0));
  }

  /** @param {Protocol.EarlierPage} page */
  addEarlier({ items, before, token }) {
    if (token !== this.earlierToken) return;
    const { log, scroller } = this.panel.parts;
    const below = scroller.scrollHeight - scroller.scrollTop;
    const page = tag("div");
    for (const item of items) {
      const fresh = this.itemOf(item);
      if (!this.attachResult(fresh, page)) page.append(fresh);
      this.items.set(item.key, fresh);
    }
    all(log, ":scope > .nbc-tool-result").forEach((result) => this.attachResult(result, page));
    log.prepend(...page.childNodes);
    scroller.scrollTop = scroller.scrollHeight - below;
    this.before = before;
    this.awaitNothing();
    this.panel.draw();
  }

  awaitNothing() {
    this.earlierToken = null;
    this.askAgainAt = 0;
  }

  /** Text after Stop is not shown, but kept: the finished item reuses what was streamed.
   * @param {Pick<Protocol.TextOperation, "kind" | "text">} operation
   */
  addText({ kind, text }) {
    const stream = this.stream(kind);
    stream.isCut ||= this.panel.isFrozen;
    if (stream.isCut) stream.hiddenText += text;
    else stream.open.append(text);
  }

  /** @param {Omit<Protocol.BlockOperation, "op">} operation */
  addBlock({ kind, html, text }) {
    const stream = this.stream(kind);
    stream.isCut ||= this.panel.isFrozen;
    const target = stream.isCut ? stream.hidden : stream.blocks;
    target.insertAdjacentHTML("beforeend", html);
    if (stream.isCut) stream.hiddenText = text;
    else {
      finishBlocks(target, this.panel.notebook);
      this.panel.roving.dress(target);
      stream.open.data = text;
    }
  }

  /** @param {Kind} kind */
  blocksOf(kind) {
    const { blocks, hidden } = this.stream(kind);
    return [...blocks.childNodes, ...hidden.childNodes];
  }

  /** @param {Kind} kind */
  textOf(kind) {
    const { open, hiddenText } = this.stream(kind);
    return open.data + hiddenText;
  }

  /** @param {Kind} kind */
  stream(kind) {
    if (!this.live.has(kind)) {
      const stream = streamOf(kind);
      this.live.set(kind, stream);
      if (!this.panel.isFrozen) this.panel.parts.live.append(stream.root);
    }
    return /** @type {ReturnType<typeof streamOf>} */ (this.live.get(kind));
  }

  /** @param {Kind} kind */
  settle(kind) {
    this.live.get(kind)?.root.remove();
    this.live.delete(kind);
  }

  keepAtBottom() {
    const { scroller } = this.panel.parts;
    this.isPinned &&= !this.isGoingUp;
    if (this.isPinned && !this.isEmpty) {
      scroller.scrollTop = scroller.scrollHeight;
      this.showBeginning();
      this.keepApprovalInSight();
      this.top = scroller.scrollTop;
    }
    this.panel.decisions.look();
    this.drawJump();
    this.askEarlier();
  }

  // A long list such as that of /help is read from its beginning.
  showBeginning() {
    const { scroller, log } = this.panel.parts;
    const last = log.lastElementChild;
    if (!last?.matches(".nbc-reply") || last === this.listing) return;
    const above = boxOf(last).top - boxOf(scroller).top - 8;
    if (above >= 0) return; // it fits, or has no layout yet
    this.listing = last;
    scroller.scrollTop += above;
    this.isPinned = false; // what arrives next does not move it
  }

  // The way to what is below: the end of the call that waits, else the newest message
  drawJump() {
    const { scroller, jump, log } = this.panel.parts;
    const decision = log.querySelector("[data-ticket] .nbc-decision");
    const [inner, outer] = [decision, scroller].map((each) => each?.getBoundingClientRect() ?? new DOMRect());
    // Not over buttons that are in sight
    const isBelow = decision && inner.top > outer.bottom - JUMP_PIXELS;
    const isAbove = decision && inner.bottom < outer.top + JUMP_PIXELS;
    jump.textContent = decision ? "Waiting for you" : "Latest";
    jump.hidden = decision ? !(isBelow || isAbove) : this.isPinned;
    jump.toggleAttribute("data-up", Boolean(isAbove));
  }

  // Other calls may be below the one that waits; of a tall card the beginning is shown.
  keepApprovalInSight() {
    const { scroller, log } = this.panel.parts;
    const card = log.querySelector("[data-ticket]");
    this.isHeld = false;
    if (!card) return;
    const [inner, outer] = [boxOf(card), boxOf(scroller)];
    const above = inner.top - outer.top - 8;
    if (above >= 0) return;
    scroller.scrollTop += above;
    this.isHeld = true;
  }

  get isByUser() {
    return Date.now() - this.movedAt < MOVING_MILLISECONDS;
  }

  get below() {
    const { scroller } = this.panel.parts;
    return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
  }

  // A person reads, however little it is as yet: what streams in doesn't take them back.
  get isGoingUp() {
    return this.isByUser && this.panel.parts.scroller.scrollTop < this.top && this.below > 1;
  }

  // The page scrolls a moment later, and text may come before it has. A long output inside
  // that scrolls by itself leaves the page where it is.
  /** @param {WheelEvent} event */
  onWheel({ deltaY, ctrlKey, target }) {
    if (deltaY >= 0 || ctrlKey || !this.isLong) return;
    let inner = target instanceof Element ? target : null;
    while (inner && inner !== this.panel.parts.scroller && !inner.scrollTop) inner = inner.parentElement;
    if (inner === this.panel.parts.scroller) this.isPinned = false;
  }

  onScroll() {
    const { scroller } = this.panel.parts;
    if (this.isHeld && !this.isByUser) {
      this.drawJump();
      return;
    }
    // What came since, or a box that grew, is no scrolling up; a held card is read on.
    const moved = scroller.scrollTop - this.top; // 0 where the panel itself has scrolled
    const isNear = this.below < NEAR_BOTTOM_PIXELS;
    if (isNear && moved > 0) this.isPinned = true;
    else if (this.isHeld || (isNear ? this.isGoingUp : moved < 0)) this.isPinned = false;
    this.top = scroller.scrollTop;
    this.drawJump();
    this.askEarlier();
  }
}

/** The line of a compaction: with its actions it is inside an item.
 * @param {HTMLElement} item
 * @returns {HTMLElement | null}
 */
function dividerOf(item) {
  return item.matches("[data-divider]") ? item : item.querySelector(":scope > [data-divider]");
}
