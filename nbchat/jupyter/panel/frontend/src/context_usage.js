// The context part by part, and the costs of the session

import { Dialog } from "./dialog.js";
import { about, button, count, on, percent, plural, region, tag } from "./dom.js";
import { fullness } from "./header.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { ChatPanel } from "./panel.js" */

/** @type {Record<string, string>} */
const PARTS = {
  system: "System prompt",
  tools: "Tools",
  pins: "Pinned rules",
  summary: "Summary",
  history: "Messages",
  input: "Current message",
  reserve: "Reserved for the answer",
  free: "Free",
};

export class ContextDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "Context", className: "nbc-context" });
    this.bar = tag("div", "nbc-stack", { role: "img" });
    this.parts = tag("table", "nbc-table");
    this.outlook = tag("div", "nbc-context-outlook");
    this.costs = tag("table", "nbc-table");
    const scrolling = region("Context and costs");
    this.shown = tag("div", "nbc-context-shown", scrolling);
    this.shown.append(this.status);
    this.content.append(this.shown);
    this.footer.remove();
    on(this.overlay, "click", ({ target }) => target === this.overlay && this.close());
  }

  openFromMeter() {
    const { context } = this.panel.parts;
    if (!context.disabled) this.open(context);
  }

  /** @param {HTMLElement} opener */
  open(opener) {
    this.shown.replaceChildren(this.status);
    super.open(opener);
    this.tell("Counting …");
    this.refresh();
  }

  refresh() {
    if (this.isOpen) this.query({ type: "context" });
  }

  /** @param {Protocol.ContextParts} held */
  answered(held) {
    drawStack(this.bar, held);
    this.parts.replaceChildren(...partRows(held));
    const assumed = held.is_assumed ? [this.assumption(held)] : [];
    this.outlook.replaceChildren(dueText(this.panel.state.meter, held), ...assumed, detailsOf(held));
    this.costs.replaceChildren(...costRows(held.costs));
    this.shown.replaceChildren(this.bar, this.parts, this.outlook, this.costs);
  }

  /** A window that nothing tells, and the way to set it
   * @param {Protocol.ContextParts} held
   */
  assumption({ window: size }) {
    const change = button("", "Change", "Set the context window of this model");
    on(change, "click", () => {
      this.close();
      this.panel.modelDialog.openWindow(this.panel.parts.context);
    });
    return tag("div", "", {}, `Assuming a context window of ${about(size ?? 0)}. `, change);
  }
}

/** @param {Protocol.ContextParts} held @returns {[string, number][]} */
function partsOf({ parts }) {
  return parts.filter(({ tokens }) => tokens > 0).map(({ name, tokens }) => [name, tokens]);
}

/** @param {Protocol.ContextParts} held @returns {[string, number][]} */
function freeOf({ reserve, free, window: limit }) {
  return limit === null ? [] : [["reserve", reserve ?? 0], ["free", free ?? 0]];
}

/** @param {HTMLElement} bar @param {Protocol.ContextParts} held */
function drawStack(bar, held) {
  const { total, window: limit, limit: guard } = held;
  const whole = Math.max(limit ?? 0, total, 1);
  const segments = [...partsOf(held), ...freeOf(held)].filter(([, tokens]) => tokens > 0);
  bar.replaceChildren(...segments.map(([name, tokens]) => segment(name, tokens, whole)));
  if (guard !== null && guard < whole) {
    const mark = tag("span", "nbc-stack-mark");
    mark.style.left = `${(100 * guard) / whole}%`;
    mark.title = `Compacts at about ${about(guard)}`;
    bar.append(mark);
  }
  const labels = segments.map(([name, tokens]) => `${PARTS[name]} ${percent(tokens / whole)}`);
  bar.setAttribute("aria-label", labels.join(", "));
}

/** @param {string} name @param {number} tokens @param {number} whole */
function segment(name, tokens, whole) {
  const part = tag("span", "nbc-part", { "data-part": name });
  part.style.flexGrow = String(tokens / whole);
  part.title = `${PARTS[name]}: ${plural(tokens, "token")}`;
  return part;
}

/** @param {Protocol.ContextParts} held */
function partRows(held) {
  const { total, window: limit } = held;
  const whole = Math.max(limit ?? total, 1);
  const head = tableHead(["Part", "Tokens", limit ? "Of window" : "Share"]);
  /** @param {[string, number]} part */
  const rowOf = ([name, tokens]) => partRow(name, tokens, whole);
  const sum = tableRow(["Used", count(total), share(total, whole)]);
  sum.className = "nbc-sum";
  const rows = [...partsOf(held).map(rowOf), sum, ...freeOf(held).map(rowOf)];
  return [head, tag("tbody", "", {}, ...rows)];
}

/** @param {string} name @param {number} tokens @param {number} whole */
function partRow(name, tokens, whole) {
  const swatch = tag("span", "nbc-part nbc-swatch", { "data-part": name, "aria-hidden": "true" });
  const row = tableRow([PARTS[name], count(tokens), share(tokens, whole)]);
  row.cells[0].prepend(swatch);
  return row;
}

/** @param {number} tokens @param {number} whole */
function share(tokens, whole) {
  const of = tokens / whole;
  return of > 0 && of < 0.01 ? "<1%" : percent(of);
}

/** What the ring says: the one number, about the next compaction
 * @param {Protocol.Meter | undefined} figures
 * @param {Protocol.ContextParts} held
 */
function dueText(figures, { limit: guard, window: size }) {
  if (!figures?.threshold && !figures?.guard) return "Nothing is compacted automatically.";
  const { threshold, tokens, context } = figures;
  const isSum = threshold && tokens / threshold >= context / (figures.guard || size || Infinity);
  const at = isSum ? `after ${about(threshold)} of input` : guard === null ? "" : `at about ${about(guard)}`;
  return `${percent(Math.min(1, fullness(figures)))} of the way to the next compaction${at && `, ${at}`}.`;
}

/** @param {Protocol.ContextParts} held */
function detailsOf({ window: limit, policy, outlook }) {
  const size = limit === null ? "" : `The context window has ${plural(limit, "token")}. `;
  const lines = tag("span", "", {}, `${size}${outlook} The policy is ${policy}.`);
  return tag("details", "", {}, tag("summary", "", {}, "Details"), lines);
}

/** @param {Protocol.Cost[]} costs */
function costRows(costs) {
  if (!costs.length) return [];
  const head = tableHead(["This session", "Requests", "In", "Cached", "Out", "Cost"]);
  const rows = costs.map((cost) => tableRow(costCells(cost)));
  if (rows.length > 1) rows[rows.length - 1].className = "nbc-sum";
  return [head, tag("tbody", "", {}, ...rows)];
}

/** @param {Protocol.Cost} cost */
function costCells({ label, requests, input, cached, output, is_estimated: isEstimated, dollars }) {
  const about = isEstimated ? "about " : "";
  const asked = requests === null ? "" : count(requests);
  const cost = dollars || "unknown";
  return [label, asked, `${about}${count(input)}`, count(cached), count(output), cost];
}

/** @param {string[]} names */
function tableHead(names) {
  const cells = names.map((name) => tag("th", "", { scope: "col" }, name));
  return tag("thead", "", {}, tag("tr", "", {}, ...cells));
}

/** @param {string[]} cells */
function tableRow([name, ...values]) {
  const cells = values.map((value) => tag("td", "", {}, value));
  return tag("tr", "", {}, tag("th", "", { scope: "row" }, name), ...cells);
}
