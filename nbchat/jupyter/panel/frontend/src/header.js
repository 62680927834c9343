// The header: which model answers, and how full the context is

import { count, percent } from "./dom.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { Parts } from "./layout.js" */

const WARNING_SHARE = 0.8;
const ALARM_SHARE = 0.95;

/** How full the context is until the next compaction; of the window where none is due.
 * @param {Protocol.Meter} figures
 */
export function fullness({ tokens, threshold, context, guard, window }) {
  const whole = guard ?? window;
  return Math.max(threshold ? tokens / threshold : 0, whole ? context / whole : 0);
}

/** @param {number} share */
export function levelOf(share) {
  return share >= ALARM_SHARE ? "high" : share >= WARNING_SHARE ? "medium" : "low";
}

/** @param {Parts} parts @param {Protocol.Meter} figures @param {string} [spent] */
export function drawMeter({ meter, meterText, meterBar, context }, figures, spent) {
  const share = Math.min(1, fullness(figures));
  const isKnown = Boolean(figures.threshold || figures.guard || figures.window);
  meterText.textContent = isKnown ? percent(share) : `${count(figures.context)} tokens`;
  meterBar.hidden = !isKnown;
  meter.style.setProperty("--nbc-share", `${Math.round(100 * share)}%`);
  meter.dataset.level = levelOf(share);
  const text = meterLines(figures, share).join(" ");
  meter.title = `${text}${spent ? `\nThis session: ${spent}.` : ""}\nClick for details.`;
  context.setAttribute("aria-label", `Context: ${meterText.textContent}`);
  meterBar.setAttribute("aria-valuetext", text);
  meterBar.setAttribute("aria-valuemin", "0");
  meterBar.setAttribute("aria-valuemax", "100");
  meterBar.setAttribute("aria-valuenow", String(Math.round(100 * share)));
}

/** @param {Protocol.Meter} figures @param {number} share */
function meterLines({ tokens, threshold, context, guard, window }, share) {
  const of = window ? ` of ${count(window)} tokens (${percent(context / window)} of the window)` : " tokens";
  const seen = `The context uses ${count(context)}${of}.`;
  const due = threshold || guard ? [`${percent(share)} of the way to the next compaction.`] : [];
  const sum = threshold ? [`${count(tokens)} of ${count(threshold)} input tokens since the last compaction.`] : [];
  return [...due, ...sum, seen];
}

/** @param {Parts} parts @param {Protocol.SomeState} state @param {boolean} isGone */
export function drawModel({ model: opener, dot }, state, isGone) {
  const { phase, model } = state;
  /** @type {Record<string, string>} */
  const names = { starting: "Starting …", failed: "No model" };
  opener.textContent = names[phase ?? ""] ?? model ?? (isGone ? "Not connected" : "Connecting …");
  opener.disabled = phase !== "ready" || isGone;
  const trial = state.is_trial ? "a small trial model with poor answers. " : "";
  opener.title = model ? `${model}: ${trial}Choose another model.` : "";
  opener.toggleAttribute("data-trial", Boolean(state.is_trial) && phase === "ready");
  dot.dataset.state = isGone ? "gone" : dotState(state);
}

/** @param {Protocol.SomeState} state */
function dotState({ phase, is_busy: isBusy, waiting = [], problem = "" }) {
  if (waiting.length) return "waiting";
  if (problem && !isBusy) return "unconnected";
  return isBusy ? "busy" : (phase ?? "starting");
}
