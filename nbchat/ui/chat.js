// The view of a chat: draws what the kernel tells it and sends what the person does.
// Messages are described in protocol.json. Text is set as text; only `html` fields,
// which nbchat.render made safe, are inserted as HTML.

const PROTOCOL = 1;
const NEAR_BOTTOM_PIXELS = 40;
const NEAR_TOP_PIXELS = 800; // where earlier messages are asked for
const MANY_BLOCKS = 50; // of which those out of sight get no layout each by itself
const INPUT_LIMIT_PIXELS = 180;
const RETRY_MILLISECONDS = 3000; // ask again for a snapshot that does not come
const SILENCE_MILLISECONDS = 10000; // a busy kernel says something more often than this
const MOST_TOKENS = 1e9;
const TYPING_MILLISECONDS = 250; // ask when the person has paused
const WARNING_SHARE = 0.8;
const ALARM_SHARE = 0.95;

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
    this.before = null; // the key below which there is more
    this.earlierToken = null; // of the question for it
    this.askAgainAt = 0;
    this.live = new Map();
    this.state = { queue: [], is_busy: false, retry: null };
    this.isPinned = true; // to the bottom
    this.isFrozen = false; // Stop was pressed: what still streams in is not shown
    this.isGone = false;
    this.isKernelSlow = false; // no answer yet: it may be running a cell
    this.lastHeard = Date.now();
    this.undo = [];
    this.wish = { focus: "", keep: null }; // of the compaction asked for last
    this.wantedPolicy = null; // chosen, and not in force yet
    this.dialogs = [new CompactDialog(this), new SettingsDialog(this), new HistoryView(this)];
    this.preview = new PreviewDialog(this);
    this.dialogs.push(this.preview);
    this.completer = new Completer(this);
    this.attached = new Attached(this);
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
    if (message.type === "earlier_page") this.addEarlier(message);
    const askers = [...this.dialogs, this.completer, this.attached];
    if (message.token) askers.forEach((asker) => asker.hear(message));
  }

  restore(snapshot) {
    if (this.sequence === snapshot.seq) return;
    this.sequence = snapshot.seq;
    this.live.clear();
    this.parts.live.replaceChildren();
    this.restart(snapshot);
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
      restart: () => this.restart(operation),
      item: () => this.setItem(operation),
      drop: () => this.dropItem(operation.key),
      text: () => this.isFrozen || this.addText(operation),
      block: () => this.addBlock(operation),
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

  restart({ items, before }) {
    this.items.clear();
    this.parts.log.replaceChildren();
    this.before = before;
    this.awaitNothing();
    items.forEach((item) => this.setItem(item));
  }

  setItem({ key, html, streamed }) {
    if (key < this.before) return; // it is not here yet
    const { log } = this.parts;
    const fresh = this.itemOf(html, streamed);
    if (this.items.has(key)) this.items.get(key).replaceWith(fresh);
    else if (!this.foldResult(fresh, log)) log.append(fresh);
    this.items.set(key, fresh);
  }

  itemOf(html, streamed) {
    const fresh = fromHtml(html);
    const text = fresh.querySelector(".nbc-md");
    if (streamed) text.prepend(...this.blocksOf(streamed));
    text?.classList.toggle("nbc-long", text.childElementCount > MANY_BLOCKS);
    addCopyButtons(fresh);
    addRetryButton(fresh);
    this.dialogs.forEach((dialog) => dialog.see(fresh));
    return fresh;
  }

  // A call's result is the second half of its card.
  foldResult(result, place) {
    if (!result.matches(".nbc-tool-result")) return false;
    const cards = [...place.querySelectorAll(".nbc-tool:not([data-state])")];
    const call = cards.find((card) => card.dataset.call === result.dataset.call);
    if (!call) return false;
    call.dataset.state = result.dataset.state;
    call.append(result);
    return true;
  }

  askEarlier() {
    if (this.before === null || this.isGone || Date.now() < this.askAgainAt) return;
    const { scroller } = this.parts;
    if (scroller.scrollTop > NEAR_TOP_PIXELS || !scroller.clientHeight) return;
    this.earlierToken = newToken();
    this.askAgainAt = Date.now() + RETRY_MILLISECONDS;
    this.send({ type: "earlier", before: this.before, token: this.earlierToken });
  }

  addEarlier({ items, before, token }) {
    if (token !== this.earlierToken) return;
    const { log, scroller } = this.parts;
    const below = scroller.scrollHeight - scroller.scrollTop;
    const page = tag("div");
    for (const { key, html } of items) {
      const fresh = this.itemOf(html);
      if (!this.foldResult(fresh, page)) page.append(fresh);
      this.items.set(key, fresh);
    }
    log.querySelectorAll(":scope > .nbc-tool-result").forEach((r) => this.foldResult(r, page));
    log.prepend(...page.childNodes);
    scroller.scrollTop = scroller.scrollHeight - below;
    this.before = before;
    this.awaitNothing();
    this.draw();
  }

  awaitNothing() {
    this.earlierToken = null;
    this.askAgainAt = 0;
  }

  dropItem(key) {
    this.items.get(key)?.remove();
    this.items.delete(key);
  }

  addText({ kind, text }) {
    this.stream(kind).text.appendData(text);
  }

  // The item will need the blocks that nobody shall see after Stop was pressed.
  addBlock({ kind, html, text }) {
    const { blocks, unseen, text: open } = this.stream(kind);
    (this.isFrozen ? unseen : blocks).insertAdjacentHTML("beforeend", html);
    if (!this.isFrozen) open.data = text;
  }

  blocksOf(kind) {
    const { blocks, unseen } = this.stream(kind);
    return [...blocks.childNodes, ...unseen.childNodes];
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
    if (changes.is_busy === false) this.rest();
    if (changes.retry) this.retryAt = Date.now() + 1000 * changes.retry.seconds;
  }

  // What was asked for is done
  rest() {
    this.wantedPolicy = null;
    this.dialogs.forEach((dialog) => dialog.refresh());
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
    this.drawPolicies();
    this.drawSummary();
    this.drawStatus();
    this.drawQueue();
    this.drawButtons();
    const isEmpty = !this.items.size && !this.live.size && !this.state.queue.length;
    this.parts.empty.hidden = !isEmpty || this.sequence === null;
    this.parts.log.setAttribute("aria-busy", String(this.live.size > 0));
    this.parts.gone.hidden = !this.isGone;
    this.parts.root.classList.toggle("nbc-is-gone", this.isGone);
    this.dialogs.forEach((dialog) => dialog.draw());
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

  drawPolicies() {
    const { policy } = this.parts;
    const { policy: inForce = "", policies = [] } = this.state;
    const names = [...new Set([...policies, inForce])].filter(Boolean);
    const known = [...policy.options].map((option) => option.value);
    if (names.join("\n") !== known.join("\n")) policy.replaceChildren(...options(names));
    const shown = this.wantedPolicy ?? inForce;
    if (policy.value !== shown) policy.value = shown;
    policy.hidden = !inForce;
  }

  drawSummary() {
    const { summarized, badge, told } = this.parts;
    const { summary } = this.state;
    summarized.hidden = !summary;
    if (!summary || summary.html === this.shownSummary) return;
    this.shownSummary = summary.html;
    badge.textContent = `${plural(summary.messages, "message")} summarized`;
    told.replaceChildren(fromHtml(summary.html));
    addCopyButtons(told);
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
    const { input, send, stop, compact, history, gear, policy } = this.parts;
    const isBusy = this.state.is_busy;
    const isReady = this.state.phase === "ready" && !this.isGone;
    const hasText = input.value.trim() !== "";
    stop.hidden = !isBusy;
    stop.disabled = this.isFrozen || this.isGone;
    send.hidden = isBusy && !hasText;
    send.disabled = !hasText || this.isGone;
    send.textContent = isBusy ? "Queue" : "Send";
    compact.disabled = isBusy || !isReady;
    history.disabled = gear.disabled = policy.disabled = !isReady;
    gear.hidden = !this.state.has_settings;
    input.disabled = this.isGone;
  }

  keepAtBottom() {
    const { scroller, jump } = this.parts;
    if (this.isPinned) scroller.scrollTop = scroller.scrollHeight;
    jump.hidden = this.isPinned;
    this.askEarlier();
  }

  // The person

  listenToPerson() {
    const { root, form, input, stop, scroller, jump, policy } = this.parts;
    for (const name of ["keydown", "keypress", "keyup"]) {
      root.addEventListener(name, (event) => event.stopPropagation());
    }
    input.addEventListener("keydown", (event) => this.onKey(event));
    input.addEventListener("input", () => this.onInput());
    input.addEventListener("focus", () => this.attached.look()); // a cell may have run
    input.addEventListener("click", () => this.completer.follow());
    input.addEventListener("blur", () => this.completer.close());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    stop.addEventListener("click", () => this.stop());
    policy.addEventListener("change", () => this.choosePolicy(policy.value));
    [this.parts.compact, this.parts.gear, this.parts.history].forEach((opener, place) => {
      opener.addEventListener("click", () => this.dialogs[place].open(opener));
    });
    scroller.addEventListener("scroll", () => this.onScroll());
    jump.addEventListener("click", () => this.jump());
    root.addEventListener("click", (event) => copyClicked(event));
    root.addEventListener("click", (event) => this.retryClicked(event));
    const resized = new ResizeObserver(() => this.keepAtBottom());
    resized.observe(scroller);
    resized.observe(this.parts.content);
    this.undo.push(() => resized.disconnect());
  }

  onKey(event) {
    if (this.completer.takes(event)) return;
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.submit();
  }

  onInput() {
    this.fitInput();
    this.completer.follow();
    this.attached.follow();
  }

  fitInput() {
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
    this.askEarlier();
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
    const previews = this.attached.keys();
    input.value = "";
    this.onInput();
    this.say(text, previews);
  }

  say(text, previews = []) {
    this.expectTurn(text);
    this.send({ type: "send", text, previews });
  }

  choosePolicy(name) {
    this.wantedPolicy = name;
    this.say(`/policy ${name}`);
  }

  // The buttons that lead here are disabled or gone a moment later: keep the focus.
  compact(wish) {
    this.wish = wish;
    this.expectTurn(`/compact ${wish.focus}`.trim());
    this.send({ type: "compact", ...wish });
    this.parts.input.focus();
  }

  retryClicked(event) {
    const isRetry = event.target.closest?.(".nbc-retry");
    if (isRetry && !this.state.is_busy && !this.isGone) this.compact(this.wish);
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

// A dialog over the panel, whose other parts are inert while it is open

class Dialog {
  constructor(panel, { title, className, note = "" }) {
    this.panel = panel;
    this.token = null; // of the question that waits for its answer
    this.content = tag("div", "nbc-dialog-content");
    this.status = tag("div", "nbc-dialog-status", { role: "status" });
    this.footer = tag("div", "nbc-dialog-footer", {}, this.status);
    const close = button("nbc-dialog-close", "×", "Close");
    close.setAttribute("aria-label", "Close");
    const heading = tag("h2", "nbc-dialog-title", {}, title, tag("small", "", {}, note));
    const header = tag("div", "nbc-dialog-header", {}, heading, close);
    const attributes = { role: "dialog", "aria-modal": "true", tabindex: "-1" };
    attributes["aria-label"] = `${title}${note}`;
    const parts = [header, this.content, this.footer];
    this.box = tag("div", `nbc-dialog ${className}`, attributes, ...parts);
    // Tab from the last stop or back from the first reaches one of these, and goes on.
    const [before, after] = [1, 2].map(() => tag("span", "", { tabindex: "0" }));
    this.overlay = tag("div", "nbc-overlay", { hidden: "" }, before, this.box, after);
    this.overlay.addEventListener("keydown", (event) => this.onKey(event));
    before.addEventListener("focus", () => this.stops().at(-1).focus());
    after.addEventListener("focus", () => this.stops()[0].focus());
    close.addEventListener("click", () => this.close());
    panel.parts.root.append(this.overlay);
  }

  get isOpen() {
    return !this.overlay.hidden;
  }

  open(opener) {
    this.opener = opener;
    this.status.textContent = "";
    this.setOpen(true);
    this.draw();
    (this.box.querySelector("[data-first]") ?? this.box).focus({ preventScroll: true });
    this.overlay.scrollIntoView({ block: "nearest" });
  }

  close() {
    this.token = null;
    this.setOpen(false);
    this.opener?.focus();
    if (document.activeElement !== this.opener) this.panel.parts.input.focus();
  }

  setOpen(isOpen) {
    this.overlay.hidden = !isOpen;
    for (const part of this.panel.parts.root.children) {
      if (part !== this.overlay) part.inert = isOpen;
    }
  }

  // Make a token for a question, whose answer all views will hear
  newToken() {
    this.token = newToken();
    return this.token;
  }

  hear(message) {
    if (message.token !== this.token) return;
    this.token = null;
    this.keepFocus(() => {
      if (message.type === "refused") this.status.textContent = message.reason;
      else this.answered(message);
      this.draw();
    });
  }

  // A key pressed where nothing has the focus would be a command to the notebook.
  keepFocus(step) {
    const hadFocus = this.box.contains(document.activeElement);
    step();
    if (hadFocus && !this.box.contains(document.activeElement)) this.box.focus();
  }

  onKey(event) {
    if (event.key !== "Escape" || event.isComposing) return;
    event.preventDefault();
    this.close();
  }

  stops() {
    return [...this.box.querySelectorAll(FOCUSABLE)].filter(isReachable);
  }

  draw() {}
  refresh() {}
  answered(_message) {}
  see(_item) {}
}

class CompactDialog extends Dialog {
  constructor(panel) {
    super(panel, { title: "Summarize conversation history", className: "nbc-compacting" });
    this.plan = null;
    this.figures = tag("dl", "nbc-figures");
    this.warning = tag("div", "nbc-dialog-warning", { role: "status" });
    const hint = { type: "text", placeholder: "open questions, decisions …", "data-first": "" };
    this.focus = tag("input", "", hint);
    const amount = { type: "number", min: "0", step: "any", placeholder: "as the policy says" };
    this.keep = tag("input", "", amount);
    this.confirm = button("nbc-primary", "Summarize", "Summarize now", "submit");
    const cancel = button("", "Cancel", "Change nothing");
    this.footer.append(cancel, this.confirm);
    this.form = tag("form", "nbc-fields", {}, this.figures, this.warning);
    this.form.append(
      field("What matters most", this.focus),
      field("Tokens of the newest messages to keep word for word", this.keep),
      this.footer,
    );
    this.content.append(this.form);
    cancel.addEventListener("click", () => this.close());
    this.keep.addEventListener("input", later(() => this.isOpen && this.ask()));
    this.form.addEventListener("submit", (event) => this.submit(event));
  }

  open(opener) {
    this.plan = null;
    this.figures.replaceChildren();
    this.focus.value = this.keep.value = "";
    super.open(opener);
    this.ask();
  }

  ask() {
    this.panel.send({ type: "plan", keep: this.wish().keep, token: this.newToken() });
    this.draw();
  }

  wish() {
    const tokens = Math.min(Math.max(0, Math.round(this.keep.value)), MOST_TOKENS);
    return { focus: this.focus.value.trim(), keep: this.keep.value === "" ? null : tokens };
  }

  answered(plan) {
    this.plan = plan;
    this.status.textContent = "";
    const row = ([name, text]) => [tag("dt", "", {}, name), tag("dd", "", {}, text)];
    this.figures.replaceChildren(...planRows(plan).flatMap(row));
  }

  draw() {
    if (!this.isOpen) return;
    const isWaiting = this.token !== null;
    const { skip = "", warning = "" } = this.plan ?? {};
    if (isWaiting && !this.plan) this.status.textContent = "Looking at the conversation …";
    this.figures.setAttribute("aria-busy", String(isWaiting));
    const text = skip ? `Nothing can be summarized now: ${skip}.` : warning;
    this.warning.hidden = !text;
    if (this.warning.textContent !== text) this.warning.textContent = text;
    const isBlocked = this.panel.isGone || this.panel.state.is_busy;
    this.keepFocus(() => (this.confirm.disabled = !this.plan || Boolean(skip) || isBlocked));
  }

  refresh() {
    if (this.isOpen) this.ask();
  }

  submit(event) {
    event.preventDefault();
    if (this.confirm.disabled) return;
    this.close();
    this.panel.compact(this.wish());
  }
}

class SettingsDialog extends Dialog {
  constructor(panel) {
    super(panel, { title: "Settings", className: "nbc-settings" });
    this.rows = new Map();
    this.isSaving = false;
  }

  open(opener) {
    this.rows.clear();
    this.content.replaceChildren();
    this.isSaving = false;
    super.open(opener);
    this.status.textContent = "Looking up what can be set …";
    this.refresh();
  }

  refresh() {
    if (this.isOpen) this.panel.send({ type: "settings", token: this.newToken() });
  }

  answered({ settings, provider, model }) {
    if (!this.rows.size) this.status.textContent = "";
    const scopes = [
      ["", "all models"],
      [provider, `this provider (${provider})`],
      [model, `this model (${model})`],
    ];
    for (const setting of settings) {
      const row = this.rows.get(setting.name) ?? this.addRow(setting);
      row.update(setting, scopes);
    }
  }

  addRow(setting) {
    const row = new SettingRow(setting, (text) => this.save(text));
    this.rows.set(setting.name, row);
    this.content.append(row.root);
    return row;
  }

  save(text) {
    if (this.panel.isGone) return;
    this.isSaving = true;
    this.status.textContent = "Saving …";
    this.panel.say(text);
  }

  // The command's answer goes to the transcript, which the dialog covers.
  see(item) {
    if (!this.isOpen || !this.isSaving || !item.matches(".nbc-note, .nbc-error")) return;
    this.isSaving = false;
    this.status.textContent = item.textContent;
  }
}

class SettingRow {
  constructor(setting, save) {
    this.kind = setting.kind;
    this.name = setting.name;
    this.known = null; // the value it was told last: what differs is being edited
    this.input = settingInput(setting);
    this.input.setAttribute("aria-label", setting.name);
    this.scope = tag("select", "nbc-setting-scope", { "aria-label": `Scope of ${setting.name}` });
    this.origin = tag("span", "nbc-setting-origin");
    this.help = tag("span", "nbc-setting-help");
    const name = tag("span", "nbc-setting-name", {}, setting.name);
    const told = tag("div", "nbc-setting-told", {}, name, this.origin, this.help);
    const submit = button("", "Save", `Save ${setting.name}`, "submit");
    submit.setAttribute("aria-label", submit.title);
    const controls = tag("div", "nbc-setting-controls", {}, this.input, this.scope, submit);
    this.root = tag("form", "nbc-setting", {}, told, controls);
    this.root.addEventListener("submit", (event) => {
      event.preventDefault();
      this.known = this.value;
      save(this.command());
    });
  }

  get value() {
    return this.kind === "bool" ? String(this.input.checked) : this.input.value;
  }

  command() {
    const scope = this.scope.value;
    return `/set ${this.name} ${this.value.trim()}${scope ? ` for ${scope}` : ""}`;
  }

  update({ value, origin, help }, scopes) {
    this.origin.textContent = origin;
    this.help.textContent = help;
    if (this.known === null || this.known === this.value) this.show(value);
    const chosen = Math.max(this.scope.selectedIndex, 0);
    this.scope.replaceChildren(...scopes.map(([name, text]) => option(name, text)));
    this.scope.selectedIndex = chosen;
  }

  show(value) {
    if (this.kind === "bool") this.input.checked = TRUE.has(value.toLowerCase());
    else this.input.value = value;
    this.known = this.value;
  }
}

class HistoryView extends Dialog {
  constructor(panel) {
    const note = ": everything said, not what the model sees";
    super(panel, { title: "Full history", className: "nbc-history", note });
    const typing = { type: "search", placeholder: "Search for words", "data-first": "" };
    this.search = tag("input", "", { ...typing, "aria-label": "Search the history" });
    this.earlier = button("nbc-earlier", "Earlier", "Show earlier messages");
    this.list = tag("div", "nbc-history-list");
    const scrolling = { tabindex: "0", role: "region", "aria-label": "Messages" };
    this.scroller = tag("div", "nbc-history-scroller", scrolling, this.earlier, this.list);
    this.content.append(tag("div", "nbc-search", {}, this.search, this.status), this.scroller);
    this.footer.remove();
    this.search.addEventListener("input", later(() => this.isOpen && this.ask(null)));
    this.earlier.addEventListener("click", () => this.ask(this.first));
  }

  open(opener) {
    this.search.value = "";
    super.open(opener);
    this.ask(null);
  }

  close() {
    super.close();
    this.list.replaceChildren();
    this.earlier.hidden = true;
  }

  ask(before) {
    this.before = before;
    const query = this.search.value.trim();
    this.status.textContent = "Looking …";
    this.panel.send({ type: "history", query, before, token: this.newToken() });
  }

  answered({ items, total, has_more: hasMore }) {
    const isSearch = this.search.value.trim() !== "";
    const rows = items.map((item) => historyRow(item, isSearch));
    const below = this.scroller.scrollHeight - this.scroller.scrollTop;
    if (this.before === null) this.list.replaceChildren(...rows);
    else this.list.prepend(...rows);
    this.first = items.find((item) => item.place !== null)?.place ?? 0;
    this.earlier.hidden = !hasMore;
    const height = this.scroller.scrollHeight;
    this.scroller.scrollTop = this.before === null ? height : height - below;
    this.status.textContent = plural(total, isSearch ? "match" : "message");
  }
}

// What goes out for a mention: its text or picture, word for word

class PreviewDialog extends Dialog {
  constructor(panel) {
    super(panel, { title: "What will be sent", className: "nbc-preview" });
    this.shown = tag("div", "nbc-preview-shown");
    this.drop = button("", "Remove", "Do not attach it; the word stays in the message");
    const done = button("nbc-primary", "Done", "Back to the message");
    done.dataset.first = "";
    this.footer.append(this.drop, done);
    this.content.append(this.shown);
    const scrolling = { tabindex: "0", role: "region", "aria-label": "What will be sent" };
    for (const [name, value] of Object.entries(scrolling)) this.content.setAttribute(name, value);
    done.addEventListener("click", () => this.close());
    this.drop.addEventListener("click", () => this.remove());
  }

  show(chip, opener) {
    this.chip = chip;
    this.shown.replaceChildren();
    this.open(opener);
    this.panel.send({ type: "preview", key: chip.key, token: this.newToken() });
  }

  answered({ text, tokens, picture }) {
    this.status.textContent = `${this.chip.mention} · ${plural(tokens, "token")}`;
    this.shown.replaceChildren(tag("pre", "nbc-output", {}, text));
    if (picture) this.shown.append(tag("img", "", { src: picture, alt: text }));
  }

  remove() {
    this.opener = this.panel.parts.input;
    this.close();
    this.panel.attached.drop(this.chip.mention);
  }
}

// The chips above the message: what it points at in the notebook

class Attached {
  constructor(panel) {
    this.panel = panel;
    this.token = null;
    this.chips = [];
    this.known = ""; // the words with an @ that were asked about last
    this.ask = later(() => this.look());
  }

  get text() {
    return this.panel.parts.input.value;
  }

  words() {
    return this.text.startsWith("/") ? "" : (this.text.match(/@\S+/g) ?? []).join(" ");
  }

  follow() {
    const words = this.words();
    if (words === this.known) return;
    this.known = words;
    if (words) this.ask();
    else this.draw([]);
  }

  // Also when nothing was typed: what a name stands for may have changed.
  look() {
    this.known = this.words();
    if (!this.known || this.panel.isGone) return;
    this.token = newToken();
    this.panel.send({ type: "mentions", text: this.text, token: this.token });
  }

  hear(message) {
    if (message.token !== this.token) return;
    this.token = null;
    if (message.type === "mentioned" && this.words()) this.draw(message.chips);
  }

  keys() {
    return this.chips.map((chip) => chip.key).filter(Boolean);
  }

  draw(chips) {
    if (!chips.length) this.token = null;
    this.chips = chips;
    const { attachments } = this.panel.parts;
    attachments.hidden = !chips.length;
    attachments.replaceChildren(...chips.map((chip) => this.chip(chip)));
  }

  chip(chip) {
    const { mention, tokens, problem } = chip;
    const size = tag("span", "nbc-attached-size", {}, plural(tokens, "token"));
    const open = button("nbc-attached-open", mention, "See exactly what will be sent");
    open.append(size);
    open.addEventListener("click", () => this.panel.preview.show(chip, open));
    const drop = button("nbc-attached-drop", "×", `Do not attach ${mention}`);
    drop.setAttribute("aria-label", drop.title);
    drop.addEventListener("click", () => this.drop(mention));
    const told = problem ? tag("span", "nbc-attached-problem", {}, problem) : open;
    return tag("li", "nbc-attached-chip", { "data-missing": String(Boolean(problem)) }, told, drop);
  }

  // Without its @ it is a word like any other: what is written is what is sent.
  drop(mention) {
    const { input } = this.panel.parts;
    const literal = mention.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const ends = /\w$/.test(mention) ? "(?!\\w)" : "";
    input.value = this.text.replace(new RegExp(literal + ends, "g"), mention.slice(1));
    this.draw(this.chips.filter((chip) => chip.mention !== mention));
    this.panel.onInput();
    input.focus();
  }
}

// A list under the caret's word: commands after a slash, names after an @

class Completer {
  constructor(panel) {
    this.panel = panel;
    this.token = null;
    this.known = null; // what the kernel offered for the list that is open
    this.word = null; // what is being completed: its sign, its letters, where it begins
    this.closedAt = null; // the beginning of the word for which Escape was pressed
    this.items = [];
    this.place = 0;
    const { choices } = panel.parts;
    choices.addEventListener("mousedown", (event) => event.preventDefault());
    choices.addEventListener("click", (event) => this.clicked(event));
  }

  get isOpen() {
    return !this.panel.parts.choices.hidden;
  }

  follow() {
    const word = wordAtCaret(this.panel.parts.input);
    if (!word || word.start !== this.word?.start || word.sign !== this.word?.sign) {
      this.known = this.closedAt = null;
    }
    this.word = word;
    if (!word || this.closedAt === word.start || this.panel.isGone) this.hide();
    else if (this.known) this.draw();
    else this.ask();
  }

  ask() {
    if (this.token) return;
    this.token = newToken();
    this.panel.send({ type: "complete", token: this.token });
  }

  hear(message) {
    if (message.token !== this.token) return;
    this.token = null;
    if (message.type !== "completions" || !this.word) return;
    this.known = message;
    this.follow();
  }

  draw() {
    const { sign, letters } = this.word;
    const offered = sign === "/" ? this.known.commands : this.known.names;
    this.items = matching(offered, letters);
    this.place = 0;
    const { choices } = this.panel.parts;
    choices.setAttribute("aria-label", sign === "/" ? "Commands" : "What to attach");
    const rows = this.items.map((item, n) => choice(item, `${choices.id}-${n}`, sign));
    choices.replaceChildren(...rows);
    choices.hidden = !this.items.length;
    this.mark();
  }

  mark() {
    const { choices, input } = this.panel.parts;
    [...choices.children].forEach((row, n) => row.setAttribute("aria-selected", n === this.place));
    const chosen = this.isOpen ? choices.children[this.place] : null;
    if (chosen) input.setAttribute("aria-activedescendant", chosen.id);
    else input.removeAttribute("aria-activedescendant");
    chosen?.scrollIntoView({ block: "nearest" });
  }

  hide() {
    this.panel.parts.choices.hidden = true;
    this.mark();
  }

  close() {
    this.closedAt = this.word?.start ?? null;
    this.hide();
  }

  // Whether a key was meant for the list
  takes(event) {
    if (!this.isOpen || event.isComposing || event.shiftKey) return false;
    if (CARET_KEYS.has(event.key)) this.close(); // the caret leaves the word
    if (!this.isOpen) return false;
    const steps = {
      ArrowDown: () => this.move(1),
      ArrowUp: () => this.move(-1),
      Tab: () => this.choose(),
      Enter: () => this.choose(),
      Escape: () => this.close(),
    };
    const isWhole = this.items[this.place].name === this.word.letters;
    if (!steps[event.key] || (event.key === "Enter" && isWhole)) {
      if (event.key === "Enter") this.close();
      return false;
    }
    event.preventDefault();
    steps[event.key]();
    return true;
  }

  move(step) {
    this.place = (this.place + step + this.items.length) % this.items.length;
    this.mark();
  }

  clicked(event) {
    const row = event.target.closest("[role=option]");
    if (!row) return;
    this.place = [...row.parentElement.children].indexOf(row);
    this.choose();
  }

  choose() {
    const { input } = this.panel.parts;
    const { name, arguments: wanted } = this.items[this.place];
    const { sign, start } = this.word;
    const goesOn = sign === "/" ? Boolean(wanted) : !name.endsWith(":");
    const text = `${sign}${name}${goesOn ? " " : ""}`;
    input.setRangeText(text, start, input.selectionEnd, "end");
    this.panel.onInput();
    this.close();
  }
}

// Pieces of the page

const FOCUSABLE = "button, input, select, summary, a[href], [tabindex='0']";
const TRUE = new Set(["true", "1", "yes", "on"]);
const CARET_KEYS = new Set(["ArrowLeft", "ArrowRight", "Home", "End", "PageUp", "PageDown"]);
const SEEN = { summarized: "in the summary", shortened: "seen shortened" };

const GONE =
  "The kernel is gone. The conversation stays readable; run the cell again to go on.";
const FOREIGN =
  "This page and the kernel have different versions of nbchat. Reload the page.";

function frame() {
  const parts = { ...headParts(), ...middleParts(), ...footParts() };
  const attributes = { "aria-label": "Chat", "data-lm-suppress-shortcuts": "true" };
  const { header, middle, gone, foreign, queue, choices, attachments, form } = parts;
  const foot = tag("div", "nbc-foot", {}, choices, attachments, form);
  const root = tag("section", "nbc", attributes, header, middle, gone, foreign, queue, foot);
  return { root, ...parts };
}

function headParts() {
  const dot = tag("span", "nbc-dot", { "aria-hidden": "true" });
  const model = tag("span", "nbc-model");
  const meterText = tag("span", "nbc-meter-text");
  const meterWindow = tag("span", "nbc-meter-window");
  const meterFill = tag("span", "nbc-meter-fill");
  const meter = tag(
    "div",
    "nbc-meter",
    { role: "progressbar", "aria-label": "Tokens" },
    meterText,
    meterWindow,
    tag("span", "nbc-meter-bar", {}, meterFill),
  );
  const choosing = { "aria-label": "Compaction policy", title: "Compaction policy" };
  const policy = tag("select", "nbc-policy", { ...choosing, hidden: "" });
  const history = button("nbc-open-history", "History", "Everything said, to read and search");
  const compact = button("nbc-compact", "Compact", "Summarize the conversation …");
  const gear = button("nbc-gear", "\u2699\ufe0e", "Settings"); // as text, not as an emoji
  gear.setAttribute("aria-label", "Settings");
  const buttons = tag("div", "nbc-header-buttons", {}, policy, history, compact, gear);
  const header = tag("header", "nbc-header", {}, dot, model, meter, buttons);
  const meters = { meter, meterText, meterWindow, meterFill };
  return { header, dot, model, ...meters, policy, history, compact, gear };
}

function middleParts() {
  const empty = tag(
    "div",
    "nbc-empty",
    {},
    tag("div", "nbc-empty-title", {}, "What would you like to know?"),
    tag("div", "nbc-empty-hint", {}, "Enter sends, Shift+Enter begins a new line"),
    tag("div", "nbc-empty-hint", {}, "/ lists the commands, @ attaches from the notebook"),
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
  const badge = tag("span", "nbc-badge");
  const told = tag("div", "nbc-told");
  const title = tag("summary", "", {}, tag("span", "nbc-summarized-title", {}, "Summary"), badge);
  const summarized = tag("details", "nbc-summarized", { hidden: "" }, title, told);
  const middle = tag("div", "nbc-middle", {}, summarized, scroller, jump);
  const bar = { summarized, badge, told };
  return { middle, ...bar, scroller, content, empty, log, live, status, statusText, jump };
}

function footParts() {
  const gone = tag("div", "nbc-gone", { role: "alert" }, GONE);
  const foreign = tag("div", "nbc-gone", { role: "alert" }, FOREIGN);
  const queue = tag("ul", "nbc-queue", { "aria-label": "Waiting messages" });
  const listId = `nbc-choices-${newToken()}`; // several panels may be on one page
  const attachments = tag("ul", "nbc-attachments", { "aria-label": "Attached", hidden: "" });
  const choices = tag("ul", "nbc-choices", { id: listId, role: "listbox", hidden: "" });
  const typing = { rows: "1", placeholder: "Ask anything", "aria-label": "Message" };
  const completing = { "aria-autocomplete": "list", "aria-controls": listId };
  const input = tag("textarea", "nbc-input", { ...typing, ...completing });
  const stop = button("nbc-stop", "Stop", "Stop the answer");
  const send = button("nbc-send", "Send", "Send the message", "submit");
  const buttons = tag("div", "nbc-buttons", {}, stop, send);
  const form = tag("form", "nbc-form", {}, input, buttons);
  return { gone, foreign, queue, attachments, choices, form, input, stop, send };
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
  return { root, blocks, text, unseen: tag("div") };
}

function drawMeter({ meter, meterText, meterWindow, meterFill }, figures) {
  const { tokens, threshold, context, window: limit } = figures;
  const spent = threshold ? tokens / threshold : 0;
  const held = limit ? context / limit : 0;
  const share = Math.min(1, Math.max(spent, held));
  meterText.textContent = threshold
    ? `${count(tokens)} / ${count(threshold)} tokens`
    : `${count(context)} tokens`;
  meterWindow.textContent = limit ? `window ${percent(held)}` : "";
  meterFill.style.width = `${100 * share}%`;
  meter.dataset.level = share >= ALARM_SHARE ? "high" : share >= WARNING_SHARE ? "medium" : "low";
  meter.classList.toggle("nbc-has-bar", Boolean(threshold || limit));
  const text = meterLines(figures, spent, held).join(" ");
  meter.title = text;
  meter.setAttribute("aria-valuetext", text);
  meter.setAttribute("aria-valuemin", "0");
  meter.setAttribute("aria-valuemax", "100");
  meter.setAttribute("aria-valuenow", String(Math.round(100 * share)));
}

function meterLines({ tokens, threshold, context, window: limit }, spent, held) {
  const seen = limit
    ? `The model sees ${count(context)} of ${count(limit)} tokens of its window (${percent(held)}).`
    : `The model sees ${count(context)} tokens.`;
  if (!threshold) return [seen];
  const of = `${count(tokens)} of ${count(threshold)} input tokens (${percent(spent)})`;
  return [`Since the last compaction: ${of}; when full, the next is due.`, seen];
}

function planRows(plan) {
  const { tokens_before: before, tokens_after: after } = plan;
  const messages = ["Messages in total", count(plan.messages)];
  const known = plan.summarized ? [["Summarized before", count(plan.summarized)]] : [];
  const now = ["Tokens now", count(before)];
  if (plan.skip) return [messages, ...known, now];
  const saved = after < before ? ` (−${percent(1 - after / before)})` : "";
  return [
    messages,
    ...known,
    ["To be summarized", count(plan.folded)],
    ["Stay as they are", count(plan.kept)],
    now,
    ["Tokens after, at most about", `${count(after)}${saved}`],
  ];
}

function historyRow({ place, label, seen, html }, isSearch) {
  const content = fromHtml(html) ?? tag("div");
  if (isSearch && content.matches("details")) content.open = true;
  addCopyButtons(content);
  if (place === null) return tag("div", "nbc-row nbc-row-wide", {}, content);
  const number = tag("span", "nbc-row-place", {}, `#${place}`);
  const mark = SEEN[seen] ? [tag("span", "nbc-chip", {}, SEEN[seen])] : [];
  const gutter = tag("div", "nbc-row-gutter", {}, label, " ", number, ...mark);
  return tag("div", "nbc-row", { "data-seen": seen }, gutter, content);
}

function settingInput({ kind, choices }) {
  if (kind === "choice") {
    const select = tag("select");
    select.append(...options(choices));
    return select;
  }
  const types = { bool: "checkbox", int: "number", float: "number" };
  const input = tag("input", "", { type: types[kind] ?? "text" });
  if (kind === "float") input.step = "any";
  input.required = kind !== "bool"; // there is no command for an empty value
  return input;
}

// A slash counts at the very beginning only, an @ wherever a word may begin.
function wordAtCaret({ value, selectionStart: caret, selectionEnd: end }) {
  const found = /(?:^(\/)|(?:^|[\s([{"',;])(@))(\w*)$/.exec(value.slice(0, caret));
  if (!found || caret !== end || /^\w/.test(value.slice(caret))) return null;
  const [, slash, at, letters] = found;
  return { sign: slash ?? at, letters, start: caret - letters.length - 1 };
}

function matching(offered, letters) {
  const wanted = letters.toLowerCase();
  const begins = (item) => item.name.toLowerCase().startsWith(wanted);
  const holds = (item) => !begins(item) && item.name.toLowerCase().includes(wanted);
  return [...offered.filter(begins), ...offered.filter(holds)];
}

function choice({ name, help, arguments: wanted }, id, sign) {
  const row = tag("li", "nbc-choice", { role: "option", id });
  row.append(tag("span", "nbc-choice-name", {}, `${sign}${name}`));
  if (wanted) row.append(tag("span", "nbc-choice-arguments", {}, wanted));
  row.append(tag("span", "nbc-choice-help", {}, help));
  return row;
}

function newToken() {
  return `q${Math.random().toString(36).slice(2)}`;
}

function field(label, input) {
  return tag("label", "nbc-field", {}, tag("span", "", {}, label), input);
}

function options(names) {
  return names.map((name) => option(name, name));
}

function option(value, text) {
  return tag("option", "", { value }, text);
}

function isReachable(element) {
  return !element.disabled && element.getClientRects().length > 0;
}

function later(react) {
  let timer = null;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(react, TYPING_MILLISECONDS);
  };
}

function addRetryButton(banner) {
  if (!banner.matches(".nbc-banner[data-state='failed']")) return;
  banner.append(button("nbc-retry", "Retry", "Try to compact once more"));
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

function percent(share) {
  return `${Math.round(100 * share)}%`;
}

function plural(number, noun) {
  const ending = noun.endsWith("ch") ? "es" : "s";
  return `${count(number)} ${noun}${number === 1 ? "" : ending}`;
}
