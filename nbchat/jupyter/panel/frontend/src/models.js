// The page of models: the chat's model, one's own server, providers, the trial model

import { Dialog } from "./dialog.js";
import { button, on, onSubmit, option, plural, pressedIn, primary, region, setDisabled, tag } from "./dom.js";
import { keyForm, placeText } from "./key_form.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { Answer } from "./dialog.js" */
/** @import { TypedKey } from "./key_form.js" */
/** @import { ChatPanel } from "./panel.js" */

/** @typedef {{ model: string, address: string }} Chosen */

const MOST_ROWS = 200; // drawn at once; the search finds the others
const OWN = "own";

/** @type {Record<string, string>} */
const PLACES = {
  environment: "key in the environment",
  keyring: "key in the keyring",
  kernel: "key in this kernel",
  none: "no key",
};

export class ModelDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "Models", className: "nbc-models" });
    /** @type {Protocol.ModelsPage | null} */
    this.page = null;
    /** @type {Map<string, Protocol.ServerModels>} */
    this.servers = new Map(); // what servers said, by the section they are in
    this.asked = OWN;
    this.pageToken = "";
    this.isForWindow = false;
    /** @type {string | null} */
    this.always = null; // what new chats start with once the kernel has answered
    /** @type {(Chosen & { always: boolean }) | null} */
    this.refused = null;
    this.current = tag("section", "nbc-model-current", { "aria-label": "In use" });
    this.own = tag("section", "nbc-model-own", { "aria-label": "Your own server" });
    this.results = tag("div");
    this.list = tag("div");
    const typing = { type: "text", autocomplete: "off", spellcheck: "false" };
    this.address = tag("input", "", { ...typing, placeholder: "localhost:8000", "aria-label": "Address", "data-first": "" });
    this.connect = primary("Connect", "Ask this server for its models", "submit");
    this.form = tag("form", "nbc-model-row", {}, this.address, this.connect);
    this.search = tag("input", "", { ...typing, placeholder: "Search, or provider:name", "aria-label": "Model" });
    this.use = button("", "Use", "Use the model with this name", "submit");
    this.named = tag("form", "nbc-model-row", {}, this.search, this.use);
    this.scope = tag("select", "", { "aria-label": "Use for" }, option("", "For this chat"), option("always", "For all new chats, too"));
    this.anyway = button("", "Use it anyway", "Use a model that its server doesn't list");
    this.footer.append(this.anyway, this.scope);
    const about = "Any server with OpenAI's API, such as vLLM, Ollama, LM Studio or llama.cpp";
    this.own.append(heading("Your own server", about), this.form, this.results);
    const scrolling = region("All models");
    const scroller = tag("div", "nbc-history-scroller", scrolling, this.current, this.own, heading("Providers", ""), this.named, this.list);
    this.content.append(scroller);
    this.listen();
  }

  listen() {
    onSubmit(this.form, () => {
      this.ask(OWN, { provider: "openai", address: this.address.value });
    });
    onSubmit(this.named, () => {
      this.choose({ model: this.wanted(), address: "" });
    });
    on(this.search, "input", () => this.drawList());
    on(this.anyway, "click", () => this.refused && this.choose(this.refused, true));
    on(this.content, "click", (event) => this.clicked(event));
  }

  /** @param {HTMLElement} opener */
  open(opener) {
    this.page = null;
    this.refused = null;
    this.isForWindow = false;
    this.servers.clear();
    this.search.value = "";
    super.open(opener);
    this.drawAll();
    this.pageToken = this.newToken();
    this.panel.send({ type: "models", token: this.pageToken });
  }

  // The page may come after a server was asked already.
  /** @param {Answer} message */
  hear(message) {
    super.hear(message);
    const isLate = message.type === "models_page" && message.token === this.pageToken && !this.page;
    if (isLate) this.keepFocus(() => this.show(message));
  }

  /** With the field for the context window
   * @param {HTMLElement} opener
   */
  openWindow(opener) {
    this.open(opener);
    this.isForWindow = true;
  }

  /** Ask a server for its models; the answer is shown in a section.
   * @param {string} section
   * @param {{ provider: string, address: string, key?: string, sends_key?: boolean }} server
   */
  ask(section, { key = "", sends_key: sendsKey = false, ...server }) {
    this.asked = section;
    this.tell("Asking the server …");
    const question = { ...server, key, sends_key: sendsKey };
    this.query({ type: "ask_server", ...question });
  }

  /** @param {Chosen} chosen @param {boolean} [unlisted] */
  choose({ model, address }, unlisted = false) {
    if (!model || this.isBlocked) return;
    const always = this.scope.value === "always";
    this.always = always ? model : null;
    this.refused = { model, address, always };
    this.tell(`Connecting to ${model} …`);
    this.query({ type: "choose_model", model, address, always, unlisted });
  }

  /** @param {Protocol.ModelsPage | Protocol.ServerModels | Protocol.ModelTested | Protocol.ModelChosen | Protocol.KeyUsed} message */
  answered(message) {
    this.tell("");
    if (message.type === "models_page") this.show(message);
    if (message.type === "server_models") this.showServer(message);
    if (message.type === "model_tested") this.tell(testText(message));
    if (message.type === "key_used") {
      this.query({ type: "models" });
      this.tell(placeText(message.place));
    }
    if (message.type === "model_chosen") {
      this.panel.announcer.speak([message.text]);
      if (this.always === null || !this.page) this.close();
      else this.show({ ...this.page, always: this.always });
      this.tell(message.text);
    }
  }

  /** @param {Protocol.ModelsPage} page */
  show(page) {
    this.page = page;
    if (page.address && !this.address.value) this.address.value = page.address;
    this.drawAll();
    /** @type {HTMLButtonElement | null} */
    const change = this.isForWindow ? this.current.querySelector(".nbc-model-change") : null;
    if (change) this.askWindow(change);
    this.isForWindow = false;
  }

  /** @param {Protocol.ServerModels} server */
  showServer(server) {
    this.servers.set(this.asked, server);
    if (this.asked === OWN) this.address.value = server.address || this.address.value;
    this.tell(server.problem || `${server.server} has ${plural(server.models.length, "model")}.`);
    this.drawAll();
    const first = this.asked === OWN && this.results.querySelector("button, input");
    if (first instanceof HTMLElement) first.focus();
  }

  drawAll() {
    if (!this.isOpen) return;
    this.keepFocus(() => {
      this.drawCurrent();
      this.drawOwn();
      this.drawList();
    });
    this.draw();
  }

  drawCurrent() {
    const { page } = this;
    this.current.hidden = !page;
    if (!page) return;
    const { model, address, window, is_assumed: isAssumed, origin, always } = page;
    const facts = [address, origin].filter(Boolean).join(" · ");
    const size = window ? `${tokens(window)} context window${isAssumed ? " (assumed)" : ""}` : "";
    const change = button("nbc-model-change", "Change", "Set the context window of this model");
    const row = tag("div", "nbc-model-row", {}, tag("code", "nbc-model-name", {}, model), testButton({ model, address }));
    const about = tag("div", "nbc-model-facts", {}, size, " ", change);
    const forget = button("nbc-model-forget", "Forget", "Start new chats without this choice");
    const kept = tag("div", "nbc-model-facts", {}, `New chats start with ${always}. `, forget);
    kept.hidden = !always;
    this.current.replaceChildren(heading("In use", ""), row, about, tag("div", "nbc-model-facts", {}, facts), kept);
  }

  drawOwn() {
    this.own.hidden = Boolean(this.page?.is_locked);
    const server = this.servers.get(OWN);
    this.results.replaceChildren(...(server ? this.serverRows(OWN, server) : []));
  }

  /** @param {string} section @param {Protocol.ServerModels} server */
  serverRows(section, server) {
    const { provider, address, models, wants_key: wantsKey, variable } = server;
    const found = this.matching(models).map((row) => modelRow(row, address, this.page?.model));
    const rows = found.slice(0, MOST_ROWS);
    const hidden = found.length - rows.length;
    if (hidden) rows.push(tag("li", "nbc-nothing", {}, `${hidden.toLocaleString("en")} more: search for a name`));
    const list = tag("ul", "nbc-model-list", { "aria-label": `Models of ${server.server}` }, ...rows);
    if (!wantsKey) return [list];
    const use = (/** @type {TypedKey} */ { key }) => this.ask(section, { provider, address, key });
    const { form } = keyForm({ providerOf: () => provider, use });
    if (variable) {
      const send = button("", `Send ${variable}`, `Send the key in ${variable} to ${address}, and to no other server`);
      on(send, "click", () => this.ask(section, { provider, address, sends_key: true }));
      form.append(send);
    }
    return [form, list];
  }

  drawList() {
    const { page } = this;
    if (!page) return;
    const sections = page.is_locked ? [] : page.providers.map((provider) => this.section(provider));
    const { model, megabytes, is_installed: isInstalled } = page.trial;
    const size = megabytes ? ` and downloads ${megabytes} MB` : "";
    const about = isInstalled ? `Runs here without a key${size}. Its answers are poor.` : "Needs the package xllamacpp.";
    const trial = tag("ul", "nbc-model-list", {}, tag("li", "", {}, useButton({ model, address: "" }, page.model), tag("span", "nbc-choice-about", {}, about)));
    const last = page.is_locked ? [] : [tag("section", "", { "aria-label": "Trial model" }, heading("Trial model", ""), trial)];
    this.keepFocus(() => this.list.replaceChildren(...sections, ...last));
    this.draw();
  }

  /** @param {Protocol.ModelProvider} provider */
  section(provider) {
    const { kind, name, place, variable, needs_key: needsKey } = provider;
    const server = this.servers.get(kind);
    const known = server && !server.problem ? this.serverRows(kind, server) : [this.rowsOf(provider)];
    const state = place === "none" && !needsKey ? "no key needed" : PLACES[place];
    const summary = tag("summary", "", { title: variable }, tag("span", "", {}, name), tag("span", "nbc-choice-about", {}, state));
    const more = button("", "List its models", `Ask ${name} for its models`);
    on(more, "click", () => this.ask(kind, { provider: kind, address: "" }));
    const parts = place === "none" && needsKey ? [this.keyRow(provider)] : [more];
    const box = tag("details", "nbc-model-section", {}, summary, tag("div", "nbc-model-row", {}, ...parts), ...known);
    box.open = Boolean(server || (this.search.value.trim() && box.querySelector("li")));
    return box;
  }

  /** @param {Protocol.ModelProvider} provider */
  rowsOf({ models, name }) {
    const rows = this.matching(models).map((row) => modelRow(row, "", this.page?.model));
    return tag("ul", "nbc-model-list", { "aria-label": `Models of ${name}` }, ...rows.slice(0, MOST_ROWS));
  }

  /** @param {Protocol.ModelProvider} provider */
  keyRow({ kind }) {
    const use = (/** @type {TypedKey} */ typed) => this.query({ type: "use_key", ...typed });
    return keyForm({ providerOf: () => kind, use }).form;
  }

  /** @param {readonly Protocol.ModelRow[]} models */
  matching(models) {
    const words = this.search.value.toLowerCase().split(/\s+/);
    return models.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)));
  }

  // What was typed, or the only model that it can mean
  wanted() {
    const typed = this.search.value.trim();
    const models = [...(this.page?.providers ?? []), ...this.servers.values()].flatMap((each) => [...each.models]);
    const meant = this.matching(models);
    return typed && !models.some(({ name }) => name === typed) && meant.length === 1 ? meant[0].name : typed;
  }

  draw() {
    if (!this.isOpen) return;
    const { isBlocked } = this;
    this.anyway.hidden = !this.refused || !this.status.textContent.includes(" has no model ");
    this.keepFocus(() => {
      setDisabled(this.content, "button", isBlocked);
      this.use.disabled = isBlocked || !this.search.value.trim();
    });
  }

  /** @param {Event} event */
  clicked(event) {
    const chosen = pressedIn(event, "[data-model]");
    if (chosen) {
      const { model = "", address = "" } = chosen.dataset;
      if (!chosen.matches(".nbc-model-test")) return this.choose({ model, address });
      this.tell(`Asking ${model} …`);
      this.query({ type: "test_model", model, address });
    }
    const change = pressedIn(event, ".nbc-model-change");
    if (change) this.askWindow(change);
    if (pressedIn(event, ".nbc-model-forget")) {
      this.always = "";
      this.query({ type: "forget_model" });
    }
  }

  /** @param {HTMLButtonElement} opener */
  askWindow(opener) {
    const size = tag("input", "", { type: "number", min: "1000", step: "1000", "aria-label": "Context window in tokens" });
    size.value = String(this.page?.window ?? "");
    const form = tag("form", "nbc-model-row", {}, size, primary("Set", "Use this context window", "submit"));
    onSubmit(form, () => {
      this.panel.say(`/set window ${size.value} for ${this.page?.model}`);
      this.close();
    });
    opener.replaceWith(form);
    size.focus();
  }
}

/** @param {string} title @param {string} about */
function heading(title, about) {
  return tag("h3", "nbc-model-heading", {}, title, tag("small", "", {}, about));
}

/** @param {Chosen} chosen */
function testButton({ model, address }) {
  const test = button("nbc-model-test", "Test", `Send ${model} one short request`);
  Object.assign(test.dataset, { model, address });
  return test;
}

/** @param {Chosen} chosen @param {string} [current] */
function useButton({ model, address }, current) {
  const use = button("nbc-model-name", model, `Use ${model}`);
  Object.assign(use.dataset, { model, address });
  if (model === current) use.setAttribute("aria-current", "true");
  return use;
}

/**
 * @param {Protocol.ModelRow} row
 * @param {string} address
 * @param {string} [current]
 */
function modelRow({ name, window, input_dollars: input, output_dollars: output }, address, current) {
  const price = input === null ? "" : `$${input} / $${output}`;
  const facts = [window ? tokens(window) : "", price].filter(Boolean).join(" · ");
  const title = price ? "Context window · dollars for a million input / output tokens" : "Context window";
  const about = tag("span", "nbc-choice-about", { title }, facts);
  return tag("li", "", {}, useButton({ model: name, address }, current), about, testButton({ model: name, address }));
}

/** @param {number} count */
function tokens(count) {
  if (Number.isInteger(Math.log2(count)) && count < 1e6) return `${count / 1024}k`;
  return count >= 1e6 ? `${Math.round(count / 1e5) / 10}M` : `${Math.round(count / 1000)}k`;
}

/** @param {Protocol.ModelTested} tested */
function testText({ model, seconds, tokens_per_second: speed, calls_tools: callsTools }) {
  const fast = speed === null ? "" : `, ${Math.round(speed)} tokens a second`;
  const tools = callsTools ? "It can use tools." : "It didn't use the tool it was given.";
  return `${model}: first words after ${seconds.toFixed(1)} s${fast}. ${tools}`;
}
