// The view of a chat: draws what the kernel tells it and sends what the person does.
// Messages are described in protocol.json. Text is set as text; only `html` fields,
// which nbchat.render made safe, are inserted as HTML.

const PROTOCOL = 1;
const NEAR_BOTTOM_PIXELS = 40;
const INPUT_LIMIT_PIXELS = 180;
const RETRY_MILLISECONDS = 3000; // ask again for a snapshot that does not come
const SILENCE_MILLISECONDS = 10000; // a busy kernel says something more often than this

function render({ model, el }) {
  const panel = new Panel(model, el);
  return () => panel.remove();
}

export default { render };

class Panel {
  constructor(model, host) {
    this.model = model;
    this.parts = frame();
    this.sequence = null; // null until a snapshot came
    this.items = new Map();
    this.live = new Map();
    this.state = { queue: [], is_busy: false, retry: null };
    this.isPinned = true; // to the bottom
    this.isFrozen = false; // Stop was pressed: what still streams in is not shown
    this.isGone = false;
    this.isKernelSlow = false; // no answer yet: it may be running a cell
    this.lastHeard = Date.now();
    this.undo = [];
    host.append(this.parts.root);
    this.listenToModel();
    this.listenToPerson();
    this.applyLook();
    this.draw();
    this.send({ type: "hello" });
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
    this.onModel("comm_live_update", () => this.setGone(true));
    this.onModel("comm:close", () => this.setGone(true));
  }

  onModel(name, react) {
    this.model.on(name, react);
    this.undo.push(() => this.model.off(name, react));
  }

  send(message) {
    try {
      this.model.send(message);
    } catch (error) {
      console.warn("nbchat: the kernel did not take a message", error);
      this.setGone(true);
    }
  }

  receive(message) {
    this.lastHeard = Date.now();
    this.setGone(false);
    if (message.type === "snapshot") this.restore(message);
    if (message.type === "events") this.advance(message);
  }

  restore(snapshot) {
    if (this.sequence === snapshot.seq) return;
    this.sequence = snapshot.seq;
    this.items.clear();
    this.live.clear();
    this.parts.log.replaceChildren();
    this.parts.live.replaceChildren();
    snapshot.items.forEach((item) => this.setItem(item));
    for (const [kind, { html, text }] of Object.entries(snapshot.live)) {
      this.addBlock({ kind, html, text });
    }
    this.setState(snapshot.state);
    this.isPinned = true;
    this.draw();
  }

  advance(batch) {
    if (this.sequence === null) return; // the snapshot is on its way
    if (batch.seq !== this.sequence + 1) {
      this.send({ type: "resync", seq: this.sequence });
      this.sequence = null;
      return;
    }
    this.sequence = batch.seq;
    batch.events.forEach((operation) => this.apply(operation));
    this.draw();
  }

  apply(operation) {
    const steps = {
      item: () => this.setItem(operation),
      drop: () => this.dropItem(operation.key),
      text: () => this.isFrozen || this.addText(operation),
      block: () => this.isFrozen || this.addBlock(operation),
      settle: () => this.settle(operation.kind),
      state: () => this.setState(operation.state),
      draft: () => this.offerDraft(operation.text),
    };
    steps[operation.op]?.();
  }

  // Once a second: count down, and repair what a lost message broke

  tick() {
    if (this.state.retry) this.drawStatus();
    if (this.isGone) return;
    const silence = Date.now() - this.lastHeard;
    if (this.sequence === null && silence > RETRY_MILLISECONDS) {
      this.lastHeard = Date.now();
      this.isKernelSlow = true;
      this.send({ type: "hello" });
      this.drawStatus();
    } else if (this.state.is_busy && silence > SILENCE_MILLISECONDS) {
      this.lastHeard = Date.now();
      this.send({ type: "resync", seq: this.sequence });
    }
  }

  // The transcript

  setItem({ key, html }) {
    const fresh = fromHtml(html);
    addCopyButtons(fresh);
    const call = fresh.classList.contains("nbc-tool-result") && this.openCall(fresh);
    if (call) {
      call.dataset.state = fresh.dataset.state;
      call.append(fresh);
    } else if (this.items.has(key)) {
      this.items.get(key).replaceWith(fresh);
    } else {
      this.parts.log.append(fresh);
    }
    this.items.set(key, fresh);
  }

  openCall(result) {
    const cards = [...this.parts.log.querySelectorAll(".nbc-tool:not([data-state])")];
    return cards.find((card) => card.dataset.call === result.dataset.call);
  }

  dropItem(key) {
    this.items.get(key)?.remove();
    this.items.delete(key);
  }

  addText({ kind, text }) {
    this.stream(kind).text.appendData(text);
  }

  addBlock({ kind, html, text }) {
    const stream = this.stream(kind);
    stream.blocks.insertAdjacentHTML("beforeend", html);
    stream.text.data = text;
  }

  stream(kind) {
    if (!this.live.has(kind)) {
      const stream = streamOf(kind);
      this.live.set(kind, stream);
      this.parts.live.append(stream.root);
    }
    return this.live.get(kind);
  }

  settle(kind) {
    this.live.get(kind)?.root.remove();
    this.live.delete(kind);
  }

  // The state

  setState(changes) {
    this.state = { ...this.state, ...changes };
    if (changes.is_busy === false || changes.queue?.length) this.isFrozen = false;
    if (changes.retry) this.retryAt = Date.now() + 1000 * changes.retry.seconds;
  }

  setGone(isGone) {
    if (this.isGone === isGone) return;
    this.isGone = isGone;
    this.draw();
  }

  applyLook() {
    const { root } = this.parts;
    root.style.height = this.model.get("height");
    root.dataset.theme = this.model.get("theme");
    const isForeign = this.model.get("protocol") !== PROTOCOL;
    this.parts.foreign.hidden = !isForeign;
  }

  draw() {
    this.drawHeader();
    this.drawStatus();
    this.drawQueue();
    this.drawButtons();
    const isEmpty = !this.items.size && !this.live.size && !this.state.queue.length;
    this.parts.empty.hidden = !isEmpty || this.sequence === null;
    this.parts.log.setAttribute("aria-busy", String(this.live.size > 0));
    this.parts.gone.hidden = !this.isGone;
    this.parts.root.classList.toggle("nbc-is-gone", this.isGone);
    this.keepAtBottom();
  }

  drawHeader() {
    const { phase, model, is_busy: isBusy, meter } = this.state;
    const names = { starting: "starting …", failed: "no model" };
    this.parts.model.textContent = names[phase] ?? model ?? "connecting …";
    this.parts.model.title = model || "";
    this.parts.dot.dataset.state = this.isGone
      ? "gone"
      : isBusy
        ? "busy"
        : (phase ?? "starting");
    if (meter) drawMeter(this.parts, meter);
  }

  drawStatus() {
    const { status, statusText } = this.parts;
    const text = this.statusText();
    status.hidden = !text || this.isGone;
    if (statusText.textContent !== text) statusText.textContent = text;
    status.classList.toggle("nbc-is-waiting", Boolean(this.state.retry));
  }

  statusText() {
    if (this.sequence === null) {
      return this.isKernelSlow ? "The kernel is busy with a cell" : "Connecting";
    }
    if (this.isFrozen) return "Stopping";
    const { retry, activity, phase, queue, is_busy: isBusy } = this.state;
    if (retry) {
      const seconds = Math.max(0, Math.ceil((this.retryAt - Date.now()) / 1000));
      const when = seconds ? `again in ${seconds} s` : "again now";
      return `${retry.reason} · ${when} (attempt ${retry.attempt})`;
    }
    if (phase === "starting" && queue.length) return "Starting the model";
    return isBusy ? activity : "";
  }

  drawQueue() {
    const chips = this.state.queue.map((text) => tag("li", "nbc-queued", {}, text));
    this.parts.queue.replaceChildren(...chips);
    this.parts.queue.hidden = !chips.length;
  }

  drawButtons() {
    const { input, send, stop, compact } = this.parts;
    const isBusy = this.state.is_busy;
    const hasText = input.value.trim() !== "";
    stop.hidden = !isBusy;
    stop.disabled = this.isFrozen || this.isGone;
    send.hidden = isBusy && !hasText;
    send.disabled = !hasText || this.isGone;
    send.textContent = isBusy ? "Queue" : "Send";
    compact.disabled = isBusy || this.isGone || this.state.phase !== "ready";
    input.disabled = this.isGone;
  }

  keepAtBottom() {
    const { scroller, jump } = this.parts;
    if (this.isPinned) scroller.scrollTop = scroller.scrollHeight;
    jump.hidden = this.isPinned;
  }

  // The person

  listenToPerson() {
    const { root, form, input, stop, compact, scroller, jump } = this.parts;
    for (const name of ["keydown", "keypress", "keyup"]) {
      root.addEventListener(name, (event) => event.stopPropagation());
    }
    input.addEventListener("keydown", (event) => this.onKey(event));
    input.addEventListener("input", () => this.onInput());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    stop.addEventListener("click", () => this.stop());
    compact.addEventListener("click", () => this.compact());
    scroller.addEventListener("scroll", () => this.onScroll());
    jump.addEventListener("click", () => this.jump());
    root.addEventListener("click", (event) => copyClicked(event));
    const resized = new ResizeObserver(() => this.keepAtBottom());
    resized.observe(scroller);
    resized.observe(this.parts.content);
    this.undo.push(() => resized.disconnect());
  }

  onKey(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.submit();
  }

  onInput() {
    const { input } = this.parts;
    input.style.height = "auto";
    const border = input.offsetHeight - input.clientHeight;
    const wanted = Math.min(input.scrollHeight + border, INPUT_LIMIT_PIXELS);
    input.style.height = `${wanted}px`;
    this.drawButtons();
  }

  onScroll() {
    const { scroller } = this.parts;
    const below = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
    this.isPinned = below < NEAR_BOTTOM_PIXELS;
    this.parts.jump.hidden = this.isPinned;
  }

  jump() {
    this.isPinned = true;
    this.keepAtBottom();
    this.parts.input.focus();
  }

  submit() {
    const { input } = this.parts;
    const text = input.value.trim();
    if (!text || this.isGone) return;
    input.value = "";
    this.onInput();
    this.expectTurn(text);
    this.send({ type: "send", text });
  }

  compact() {
    this.expectTurn("/compact");
    this.send({ type: "compact" });
  }

  // Show Stop from the first moment; the kernel's own state follows.
  expectTurn(text) {
    this.isPinned = true;
    this.lastHeard = Date.now();
    this.setState({ is_busy: true, queue: [...this.state.queue, text] });
    this.draw();
  }

  stop() {
    this.isFrozen = true;
    this.send({ type: "stop" });
    this.draw();
    this.parts.input.focus();
  }

  offerDraft(text) {
    const { input } = this.parts;
    if (input.value.trim()) return;
    input.value = text;
    this.onInput();
  }
}

// Pieces of the page

const GONE =
  "The kernel is gone. The conversation stays readable; run the cell again to go on.";
const FOREIGN =
  "This page and the kernel have different versions of nbchat. Reload the page.";

function frame() {
  const parts = { ...headParts(), ...middleParts(), ...footParts() };
  const attributes = { "aria-label": "Chat", "data-lm-suppress-shortcuts": "true" };
  const { header, middle, gone, foreign, queue, form } = parts;
  const root = tag("section", "nbc", attributes, header, middle, gone, foreign, queue, form);
  return { root, ...parts };
}

function headParts() {
  const dot = tag("span", "nbc-dot", { "aria-hidden": "true" });
  const model = tag("span", "nbc-model");
  const meterText = tag("span", "nbc-meter-text");
  const meterFill = tag("span", "nbc-meter-fill");
  const meter = tag(
    "div",
    "nbc-meter",
    { role: "progressbar", "aria-label": "Tokens" },
    meterText,
    tag("span", "nbc-meter-bar", {}, meterFill),
  );
  const compact = button("nbc-compact", "Compact", "Compact the conversation now");
  const header = tag("header", "nbc-header", {}, dot, model, meter, compact);
  return { header, dot, model, meter, meterText, meterFill, compact };
}

function middleParts() {
  const empty = tag(
    "div",
    "nbc-empty",
    {},
    tag("div", "nbc-empty-title", {}, "What would you like to know?"),
    tag("div", "nbc-empty-hint", {}, "Enter sends, Shift+Enter begins a new line"),
  );
  const log = tag("div", "nbc-log", { role: "log", "aria-label": "Conversation" });
  const live = tag("div", "nbc-live", { "aria-live": "off" });
  const statusText = tag("span", "nbc-status-text");
  const pulse = tag("span", "nbc-pulse", { "aria-hidden": "true" });
  const status = tag("div", "nbc-status", { role: "status" }, pulse, statusText);
  const content = tag("div", "nbc-content", {}, empty, log, live, status);
  const scrolling = { tabindex: "0", role: "region", "aria-label": "Transcript" };
  const scroller = tag("div", "nbc-scroller", scrolling, content);
  const jump = button("nbc-jump", "Latest", "Jump to the latest message");
  const middle = tag("div", "nbc-middle", {}, scroller, jump);
  return { middle, scroller, content, empty, log, live, status, statusText, jump };
}

function footParts() {
  const gone = tag("div", "nbc-gone", { role: "alert" }, GONE);
  const foreign = tag("div", "nbc-gone", { role: "alert" }, FOREIGN);
  const queue = tag("ul", "nbc-queue", { "aria-label": "Waiting messages" });
  const typing = { rows: "1", placeholder: "Ask anything", "aria-label": "Message" };
  const input = tag("textarea", "nbc-input", typing);
  const stop = button("nbc-stop", "Stop", "Stop the answer");
  const send = button("nbc-send", "Send", "Send the message", "submit");
  const buttons = tag("div", "nbc-buttons", {}, stop, send);
  const form = tag("form", "nbc-form", {}, input, buttons);
  return { gone, foreign, queue, form, input, stop, send };
}

function streamOf(kind) {
  const text = document.createTextNode("");
  const open = tag("div", "nbc-text", {}, text);
  const blocks = tag("div", "nbc-md");
  const root =
    kind === "thinking"
      ? tag("details", "nbc-entry nbc-thinking", { open: "" }, tag("summary", "", {}, "Thinking"))
      : tag("article", "nbc-entry nbc-assistant", { "aria-label": "Assistant" });
  root.append(blocks, open);
  return { root, blocks, text };
}

function drawMeter({ meter, meterText, meterFill }, figures) {
  const { tokens, threshold, context, window: limit } = figures;
  const share = threshold ? Math.min(1, tokens / threshold) : 0;
  const text = threshold
    ? `${count(tokens)} / ${count(threshold)} tokens`
    : `${count(context)} tokens`;
  const held = `The model sees ${count(context)}${limit ? ` of ${count(limit)}` : ""} tokens.`;
  const due = "The meter adds up input tokens since the last compaction; when full, the next is due.";
  meterText.textContent = text;
  meterFill.style.width = `${100 * share}%`;
  meter.dataset.level = share >= 0.9 ? "high" : share >= 0.7 ? "medium" : "low";
  meter.classList.toggle("nbc-has-threshold", Boolean(threshold));
  meter.title = threshold ? `${held} ${due}` : held;
  const most = threshold ?? limit ?? Math.max(context, 1);
  meter.setAttribute("aria-valuetext", text);
  meter.setAttribute("aria-valuemin", "0");
  meter.setAttribute("aria-valuemax", String(most));
  meter.setAttribute("aria-valuenow", String(Math.min(threshold ? tokens : context, most)));
}

function addCopyButtons(root) {
  for (const block of root.querySelectorAll(".nbc-md pre")) {
    const language = tag("span", "nbc-language", {}, block.dataset.language ?? "");
    const copy = button("nbc-copy", "Copy", "Copy the code");
    const box = tag("div", "nbc-codebox", {}, tag("div", "nbc-codebar", {}, language, copy));
    block.replaceWith(box);
    box.append(block);
  }
}

async function copyClicked(event) {
  const copy = event.target.closest?.(".nbc-copy");
  if (!copy) return;
  const text = copy.closest(".nbc-codebox").querySelector("pre").textContent;
  copy.textContent = (await copyText(text)) ? "Copied" : "Press Ctrl+C";
  setTimeout(() => (copy.textContent = "Copy"), 1500);
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text); // the clipboard API needs HTTPS, many hubs have none
  }
}

function copyBySelection(text) {
  const area = tag("textarea", "nbc-offscreen", { "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  return isCopied;
}

function fromHtml(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

function button(className, label, title, type = "button") {
  return tag("button", className, { type, title }, label);
}

function tag(name, className = "", attributes = {}, ...children) {
  const element = document.createElement(name);
  if (className) element.className = className;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function count(number) {
  return number.toLocaleString("en-US");
}
