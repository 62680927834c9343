// The dialog before a compaction by hand: what it would do, what to keep

import { Dialog, field } from "./dialog.js";
import { button, count, later, on, percent, primary, setText, tag } from "./dom.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { ChatPanel } from "./panel.js" */

const MOST_TOKENS = 1e9;

export const FOCUS = "What the summary should focus on (optional)";

export function focusInput() {
  return tag("input", "", { type: "text", placeholder: "open questions, decisions …", "data-first": "" });
}

export class CompactDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "Compact the conversation", className: "nbc-compacting" });
    /** @type {Protocol.Planned | null} */
    this.plan = null;
    /** @type {number | null} */
    this.upto = null; // position of the last message to compact
    this.figures = tag("dl", "nbc-figures");
    this.warning = tag("div", "nbc-dialog-warning", { role: "status" });
    this.focus = focusInput();
    const amount = { type: "number", min: "0", step: "any", placeholder: "set by the policy" };
    this.keep = tag("input", "", amount);
    this.confirm = primary("Compact", "Compact now", "submit");
    this.kept = field("Tokens of the newest messages to keep word for word", this.keep);
    this.addForm(this.confirm, this.figures, this.warning, field(FOCUS, this.focus), this.kept);
    on(this.keep, "input", later(() => this.isOpen && this.ask()));
  }

  /** @param {HTMLElement} opener @param {number | null} upto */
  open(opener, upto = null) {
    this.plan = null;
    this.upto = upto;
    this.kept.hidden = upto !== null;
    this.figures.replaceChildren();
    this.focus.value = this.keep.value = "";
    super.open(opener);
    this.ask();
  }

  ask() {
    const { keep, upto } = this.options();
    this.query({ type: "plan", keep, upto });
    this.draw();
  }

  options() {
    const tokens = Math.min(Math.max(0, Math.round(Number(this.keep.value))), MOST_TOKENS);
    const keep = this.keep.value === "" ? null : tokens;
    return { focus: this.focus.value.trim(), keep, upto: this.upto };
  }

  /** @param {Protocol.Planned} plan */
  answered(plan) {
    this.plan = plan;
    this.tell("");
    /** @param {[string, string]} pair */
    const row = ([name, text]) => [tag("dt", "", {}, name), tag("dd", "", {}, text)];
    this.figures.replaceChildren(...planRows(plan).flatMap(row));
  }

  draw() {
    if (!this.isOpen) return;
    const isWaiting = this.token !== null;
    const { skip = "", warning = "" } = /** @type {Partial<Protocol.Planned>} */ (this.plan ?? {});
    if (isWaiting && !this.plan) this.tell("Planning …");
    this.figures.setAttribute("aria-busy", String(isWaiting));
    const text = skip ? `Can't compact now. ${skip}` : warning;
    this.warning.hidden = !text;
    setText(this.warning, text);
    const { isBlocked } = this;
    this.keepFocus(() => (this.confirm.disabled = !this.plan || Boolean(skip) || isBlocked));
  }

  refresh() {
    if (this.isOpen) this.ask();
  }

  submit() {
    this.close();
    this.panel.compact(this.options());
  }
}

/** @param {Protocol.Planned} plan @returns {[string, string][]} */
function planRows(plan) {
  const { tokens_before: before, tokens_after: after } = plan;
  /** @type {[string, string]} */
  const messages = ["All messages", count(plan.messages)];
  /** @type {[string, string][]} */
  const known = plan.summarized ? [["Already compacted", count(plan.summarized)]] : [];
  /** @type {[string, string]} */
  const now = ["Tokens now", count(before)];
  if (plan.skip) return [messages, ...known, now];
  const saved = after < before ? ` (−${percent(1 - after / before)})` : "";
  return [
    messages,
    ...known,
    ["To be compacted", count(plan.compacted)],
    ["Kept word for word", count(plan.kept)],
    now,
    ["Tokens after compaction, at most", `${count(after)}${saved}`],
  ];
}

/** @param {HTMLElement} item */
export function addProposalButtons(item) {
  if (!item.matches(".nbc-proposal")) return;
  item.append(
    button("nbc-primary", "Compact", "Compact now"),
    button("nbc-compact-later", "Later", "Go on until the context window is nearly full"),
    button("nbc-compact-view", "View what is kept", "See what a compaction keeps word for word"),
  );
}

/** @param {HTMLElement} banner */
export function addRetryButton(banner) {
  if (!banner.matches(".nbc-banner[data-state='failed']")) return;
  banner.append(button("nbc-retry", "Try again", "Try to compact again"));
}
