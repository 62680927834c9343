// The header: which model and policy, and how full the context is

import { count, options, percent } from "./dom.js";

const WARNING_SHARE = 0.8;
const ALARM_SHARE = 0.95;

export function drawMeter({ meter, meterText, meterWindow, meterBar, meterFill }, figures, spent) {
  const { tokens, threshold, context, window: limit } = figures;
  const used = threshold ? tokens / threshold : 0;
  const held = limit ? context / limit : 0;
  const level = levelOf(figures);
  const share = Math.min(1, Math.max(used, held));
  meterText.textContent = threshold
    ? `${count(tokens)} / ${count(threshold)} tokens`
    : `${count(context)} tokens`;
  meterWindow.textContent = limit ? `window ${percent(held)}` : "";
  meterFill.style.width = `${100 * share}%`;
  meter.dataset.level = level;
  meter.classList.toggle("nbc-has-bar", Boolean(threshold || limit));
  const text = meterLines(figures, used, held).join(" ");
  const session = spent ? `\nThis session: ${spent}.` : "";
  meter.title = `${text}${session}\nClick for details.`;
  meterBar.setAttribute("aria-valuetext", text);
  meterBar.setAttribute("aria-valuemin", "0");
  meterBar.setAttribute("aria-valuemax", "100");
  meterBar.setAttribute("aria-valuenow", String(Math.round(100 * share)));
}

// How near the next compaction is, whichever meter will ask for it.
export function levelOf({ tokens, threshold, context, window: limit, guard }) {
  const size = guard ?? limit;
  const share = Math.max(threshold ? tokens / threshold : 0, size ? context / size : 0);
  return share >= ALARM_SHARE ? "high" : share >= WARNING_SHARE ? "medium" : "low";
}

function meterLines({ tokens, threshold, context, window: limit, guard }, used, held) {
  const due = guard ? ` It is compacted at ${count(guard)} tokens at the latest.` : "";
  const seen = limit
    ? `The context has ${count(context)} of ${count(limit)} tokens (${percent(held)} of the window).${due}`
    : `The context has ${count(context)} tokens.`;
  if (!threshold) return [seen];
  const of = `${count(tokens)} of ${count(threshold)} input tokens (${percent(used)})`;
  return [`Since the last compaction: ${of}; the next compaction is due when the bar is full.`, seen];
}

export function drawModel({ model: opener, dot }, state, isGone) {
  const { phase, model } = state;
  const names = { starting: "starting …", failed: "no model" };
  opener.textContent = names[phase] ?? model ?? (isGone ? "not connected" : "connecting …");
  opener.disabled = phase !== "ready" || isGone;
  opener.title = model ? `${model}: choose another model` : "";
  dot.dataset.state = isGone ? "gone" : dotState(state);
}

function dotState({ phase, is_busy: isBusy, waiting = [] }) {
  if (waiting.length) return "waiting";
  return isBusy ? "busy" : (phase ?? "starting");
}

export function drawPolicies(policy, { policy: inForce = "", policies = [] }, wanted) {
  const names = [...new Set([...policies, inForce])].filter(Boolean);
  const known = [...policy.options].map((option) => option.value);
  if (names.join("\n") !== known.join("\n")) policy.replaceChildren(...options(names));
  const shown = wanted ?? inForce;
  if (policy.value !== shown) policy.value = shown;
  policy.hidden = !inForce;
}
