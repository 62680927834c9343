// The dialog to choose or name a model

import { Dialog } from "./dialog.js";
import { button, plural, pressedIn, tag } from "./dom.js";
import { keyForm } from "./key_form.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { TypedKey } from "./key_form.js" */
/** @import { ChatPanel } from "./panel.js" */

const SERVERS = "A server on this computer needs no key: enter ollama:NAME, lmstudio:NAME or vllm:NAME.";

export class ModelDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "Model", className: "nbc-models" });
    /** @type {string[]} */
    this.models = [];
    /** @type {Protocol.ProviderKey[]} */
    this.withoutKey = [];
    const typing = { type: "text", placeholder: "Search, or provider:name", "data-first": "" };
    this.name = tag("input", "", { ...typing, "aria-label": "Model", spellcheck: "false" });
    this.use = button("nbc-primary", "Use", "Use this model", "submit");
    this.form = tag("form", "nbc-search", {}, this.name, this.use);
    this.list = tag("ul", "nbc-model-list", { "aria-label": "Models" });
    const scrolling = { tabindex: "0", role: "region", "aria-label": "Models" };
    this.scroller = tag("div", "nbc-history-scroller", scrolling, this.list);
    this.content.append(this.form, this.scroller);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.choose(this.wanted());
    });
    this.name.addEventListener("input", () => this.drawList());
    this.list.addEventListener("click", (event) => {
      const chosen = pressedIn(event, "button");
      if (chosen?.dataset.keyOf) this.askKey(chosen.dataset.keyOf);
      else if (chosen) this.choose(chosen.dataset.name);
    });
  }

  /** @param {HTMLElement} opener */
  open(opener) {
    this.models = [];
    this.withoutKey = [];
    this.name.value = "";
    super.open(opener);
    this.drawList();
    this.status.textContent = "Asking the server for its models …";
    this.panel.send({ type: "models", token: this.newToken() });
  }

  /** Instead of the list; the kernel takes the usual model of the provider.
   * @param {string} provider
   */
  askKey(provider) {
    const asked = this.withoutKey.find((known) => known.provider === provider);
    if (!asked) return;
    const { variable, model } = asked;
    const use = (/** @type {TypedKey} */ typed) => this.panel.send({ type: "use_key", ...typed, token: this.newToken() });
    const { form, key } = keyForm({ providerOf: () => provider, use });
    const about = `${model} needs a key of ${provider}. You can also set ${variable} and restart the kernel.`;
    this.list.replaceChildren(tag("li", "", {}, tag("p", "nbc-nothing", {}, about), form));
    this.status.textContent = "";
    key.focus();
  }

  /** @param {Protocol.ModelsList | Protocol.KeyUsed} message */
  answered(message) {
    if (message.type === "key_used") {
      this.close();
      return;
    }
    const { models, problem } = message;
    this.models = models;
    this.withoutKey = message.without_key;
    this.status.textContent = problem || `${plural(models.length, "model")}, or enter another name`;
    this.drawList();
  }

  matching() {
    const words = this.name.value.toLowerCase().split(/\s+/);
    return this.models.filter((name) => words.every((word) => name.toLowerCase().includes(word)));
  }

  drawList() {
    const { model, takes_keys: takesKeys } = this.panel.state;
    const rows = this.matching().map((name) => modelRow(name, model));
    const words = this.name.value.toLowerCase().trim();
    const others = this.withoutKey.filter(({ model: name }) => name.includes(words));
    if (others.length) rows.push(tag("li", "nbc-session-day", {}, "Models that need a key"));
    for (const { provider, model: name, variable } of others) {
      const about = takesKeys ? `enter a key here, or set ${variable}` : `set ${variable}`;
      rows.push(modelRow(name, model, about, takesKeys ? provider : ""));
    }
    if (this.withoutKey.length && !words) rows.push(tag("li", "nbc-nothing", {}, SERVERS));
    this.keepFocus(() => this.list.replaceChildren(...rows));
    this.draw();
  }

  draw() {
    if (!this.isOpen) return;
    const isBlocked = this.panel.isGone || this.panel.state.is_busy;
    const chosen = this.list.querySelectorAll("button");
    this.keepFocus(() => {
      chosen.forEach((each) => (each.disabled = isBlocked));
      this.use.disabled = isBlocked || !this.wanted();
    });
  }

  // What was typed, if it names a provider; else the only one it can mean. What a server
  // calls a model may have a colon, too: "qwen3:8b" is "openai:qwen3:8b" here.
  wanted() {
    const typed = this.name.value.trim();
    const isNamed = this.models.some((name) => typed.startsWith(`${providerOf(name)}:`));
    const whole = this.models.filter((name) => name.endsWith(`:${typed}`));
    const meant = whole.length === 1 ? whole : this.matching();
    if (isNamed || (typed.includes(":") && !meant.length)) return typed;
    return typed && meant.length === 1 ? meant[0] : "";
  }

  /** @param {string} [name] */
  choose(name) {
    if (!name || this.panel.isGone || this.panel.state.is_busy) return;
    this.close();
    this.panel.command(`/model ${name}`);
  }
}

/** @param {string} name */
function providerOf(name) {
  return name.split(":", 1)[0];
}

/**
 * @param {string} name
 * @param {string | undefined} current
 * @param {string} [about]
 * @param {string} [keyOf] its provider, if it needs a key
 */
function modelRow(name, current, about = "", keyOf = "") {
  const chosen = button("nbc-model-name", name, `Use ${name}`);
  Object.assign(chosen.dataset, { name, keyOf });
  if (name === current) chosen.setAttribute("aria-current", "true");
  return tag("li", "", {}, chosen, about && tag("span", "nbc-choice-about", {}, about));
}
