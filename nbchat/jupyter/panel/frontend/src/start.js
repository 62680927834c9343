// What an empty chat offers: a model, a key, and questions about the notebook

import { button, newToken, on, option, setDisabled, tag } from "./dom.js";
import { keyForm } from "./key_form.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { Answer } from "./dialog.js" */
/** @import { TypedKey } from "./key_form.js" */
/** @import { ChatPanel } from "./panel.js" */

export class Start {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    /** @type {string | null} */
    this.token = null;
    this.asked = ""; // the state for which the options were requested
    /** @type {Protocol.StartOptions | null} */
    this.offered = null;
    /** @type {HTMLElement | null} */
    this.reason = null; // why the model cannot answer
    this.box = tag("div", "nbc-start");
    panel.parts.empty.firstElementChild?.after(this.box);
  }

  draw() {
    const { panel } = this;
    const { phase, model, problem, is_busy: isBusy } = panel.state;
    if (panel.isGone || phase === "starting") return;
    const isEmpty = !panel.parts.empty.hidden;
    this.place(isEmpty);
    if (!isEmpty && !problem) return;
    const state = JSON.stringify([model, problem, phase]);
    if (state !== this.asked) {
      this.asked = state;
      this.token = newToken();
      panel.send({ type: "start", token: this.token });
    }
    const isTold = panel.parts.log.lastElementChild?.matches(".nbc-error, :has(> .nbc-error)"); // by a failed turn
    if (this.reason) this.reason.hidden = !isEmpty && Boolean(isTold);
    setDisabled(this.box, "button", isBusy);
  }

  /** In an empty chat; without a model also below what was said
   * @param {boolean} isEmpty
   */
  place(isEmpty) {
    const { empty, content, status } = this.panel.parts;
    if (isEmpty && this.box.parentElement !== empty) empty.firstElementChild?.after(this.box);
    if (!isEmpty && this.box.parentElement !== content) content.insertBefore(this.box, status);
    this.box.hidden = !isEmpty && !this.panel.state.problem;
  }

  /** @param {Answer} message */
  hear(message) {
    if (message.token !== this.token) return;
    this.token = null;
    if (message.type === "start_options") this.offered = message;
    if (message.type === "key_used") this.asked = "";
    if (message.type === "refused" && this.status) this.status.textContent = message.reason;
    else this.show();
  }

  show() {
    const { offered } = this;
    if (!offered) return;
    const { problem, is_trial: isTrial } = this.panel.state;
    const parts = [];
    if (!problem) parts.push(this.suggestions(offered));
    this.reason = problem ? tag("p", "nbc-start-problem", { role: "status" }, sentence(problem)) : null;
    if (this.reason) parts.push(this.reason);
    if (isTrial) parts.push(tag("p", "nbc-start-problem nbc-empty-hint", {}, TRIAL));
    if (problem || isTrial) parts.push(this.models(offered, isTrial), this.keys(offered));
    this.box.replaceChildren(...parts);
    this.draw();
  }

  /** @param {Protocol.StartOptions} offered @param {boolean} [isTrial] */
  models(offered, isTrial) {
    const { megabytes, model, is_installed: isInstalled } = offered.trial;
    const row = tag("div", "nbc-start-row");
    const choose = button("", "Choose a model", "List the models, or name one");
    on(choose, "click", () => this.panel.modelDialog.open(choose));
    const size = megabytes ? `, downloads ${megabytes} MB` : "";
    const trial = button("", `Use the trial model (poor answers${size})`, `Use ${model}`);
    on(trial, "click", () => this.panel.command(`/model ${model}`));
    if (!isTrial || megabytes) row.append(trial);
    row.append(choose);
    if (!isInstalled) row.append(tag("p", "nbc-empty-hint", {}, `${model} needs the package xllamacpp. Run %pip install xllamacpp in a cell.`));
    return row;
  }

  /** @param {Protocol.StartOptions} offered */
  keys({ providers }) {
    const choices = providers.map(({ provider }) => option(provider, provider));
    const provider = tag("select", "", { "aria-label": "Provider" }, ...choices);
    provider.value = (this.panel.state.model ?? "").split(":")[0];
    if (!provider.value) provider.selectedIndex = 0;
    this.status = tag("span", "nbc-empty-hint", { role: "status" });
    const use = (/** @type {TypedKey} */ typed) => {
      this.token = newToken();
      this.panel.send({ type: "use_key", ...typed, token: this.token });
    };
    const { form } = keyForm({ providerOf: () => provider.value, use }, provider);
    const isFolded = !this.panel.state.problem;
    if (!isFolded) return tag("div", "", {}, form, this.status);
    const folded = tag("details", "nbc-start-key", {}, tag("summary", "", {}, "Use a key"));
    folded.append(form, this.status);
    return folded;
  }

  /** @param {Protocol.StartOptions} offered */
  suggestions({ suggestions }) {
    const row = tag("div", "nbc-start-row");
    for (const { label, text } of suggestions) {
      const ask = button("", label, text);
      on(ask, "click", () => this.panel.say(text));
      row.append(ask);
    }
    return row;
  }
}

/** @param {string} text */
function sentence(text) {
  const end = text.endsWith(".") ? "" : ".";
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${end}`;
}

const TRIAL =
  "This is a small trial model, and its answers are poor. For real work, choose a model or set a key.";
