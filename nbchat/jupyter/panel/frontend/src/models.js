// The dialog to choose or name a model

import { Dialog } from "./dialog.js";
import { button, plural, pressedIn, tag } from "./dom.js";

export class ModelDialog extends Dialog {
  constructor(panel) {
    super(panel, { title: "Model", className: "nbc-models" });
    this.models = [];
    const typing = { type: "text", placeholder: "provider:name", "data-first": "" };
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
      if (chosen) this.choose(chosen.textContent);
    });
  }

  open(opener) {
    this.models = [];
    this.name.value = "";
    super.open(opener);
    this.drawList();
    this.status.textContent = "Asking the server for its models …";
    this.panel.send({ type: "models", token: this.newToken() });
  }

  answered({ models, problem }) {
    this.models = models;
    this.status.textContent = problem || `${plural(models.length, "model")}, or enter another name`;
    this.drawList();
  }

  matching() {
    const words = this.name.value.toLowerCase().split(/\s+/);
    return this.models.filter((name) => words.every((word) => name.toLowerCase().includes(word)));
  }

  drawList() {
    const rows = this.matching().map((name) => modelRow(name, this.panel.state.model));
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

  choose(name) {
    if (!name || this.panel.isGone || this.panel.state.is_busy) return;
    this.close();
    this.panel.command(`/model ${name}`);
  }
}

function providerOf(name) {
  return name.split(":", 1)[0];
}

function modelRow(name, current) {
  const chosen = button("nbc-model-name", name, `Use ${name}`);
  if (name === current) chosen.setAttribute("aria-current", "true");
  return tag("li", "", {}, chosen);
}
