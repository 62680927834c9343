// What can be done with what stands in the transcript: buttons beside each item

const LABELS = {
  edit: ["Edit", "Say this otherwise and go on from here"],
  again: ["Regenerate", "Have this answered anew"],
  pin: ["Pin", "Keep this word for word through every compaction"],
  leave: ["Leave out", "Keep this from the model; nothing is deleted"],
  take: ["Take in again", "Let the model see this again"],
  rewrite: ["Edit", "Change the summary that the model sees"],
  anew: ["Regenerate", "Have the summary written anew"],
  undo: ["Undo", "Let the model see again what it saw before"],
  redo: ["Redo", "Bring this back"],
};

const OFFERED = {
  prompt: ["edit", "pin", "leave", "take"],
  brought: ["leave", "take"],
  answer: ["again", "leave", "take"],
  output: ["leave", "take"],
  banner: ["rewrite", "anew", "undo", "redo"],
};

class Actions {
  constructor(panel) {
    this.panel = panel;
    this.rows = new Map(); // by the key of the item
    this.fresh = []; // rows that were not drawn yet
    this.newest = null; // the row of what was said last
    this.drawn = ""; // what the others were drawn by
    this.token = null;
    const { root } = panel.parts;
    root.addEventListener("click", (event) => this.clicked(event));
  }

  // The item with its buttons: in a line of its own, or inside a tool's card
  dress(item, { key, place }) {
    const kind = kindOf(item, place);
    if (!kind) return item;
    const mark = tag("span", "nbc-chip nbc-mark", { hidden: "" }, "left out");
    const about = { role: "group", "aria-label": "Actions", "aria-live": "off" };
    const box = tag("div", "nbc-actions", about, mark);
    const row = { key, place, kind, box, mark, item, buttons: {} };
    for (const name of OFFERED[kind]) {
      row.buttons[name] = button("nbc-action", ...LABELS[name]);
      row.buttons[name].dataset.action = name;
      box.append(row.buttons[name]);
    }
    box.dataset.key = key;
    this.rows.set(key, row);
    this.fresh.push(row);
    const isSpoken = kind === "prompt" || kind === "answer";
    if (isSpoken && key >= (this.newest?.key ?? 0)) this.newest = row;
    if (kind !== "output") return tag("div", "nbc-line", { "data-kind": kind }, item, box);
    item.append(box);
    return item;
  }

  forget(key) {
    this.rows.delete(key);
  }

  clear() {
    this.rows.clear();
    this.fresh = [];
    this.newest = null;
  }

  draw() {
    const { state, isGone } = this.panel;
    const { is_busy: isBusy, phase, left_out: out = [], changes = {}, summary } = state;
    const isBlocked = isBusy || isGone || phase !== "ready";
    const folded = summary?.messages ?? 0;
    // Only of an answer that nobody has replied to
    const newest = this.newest?.kind === "answer" ? this.newest.key : null;
    const facts = { isBlocked, out, changes, folded, newest, branches: state.has_branches };
    const by = JSON.stringify(facts);
    const rows = by === this.drawn ? this.fresh : [...this.rows.values()];
    this.drawn = by;
    this.fresh = [];
    const context = { ...facts, out: new Set(out) };
    rows.forEach((row) => this.drawRow(row, context));
    const { log } = this.panel.parts;
    log.querySelectorAll(".nbc-back, .nbc-retry").forEach((each) => (each.disabled = isBlocked));
  }

  drawRow({ key, place, kind, box, mark, item, buttons }, context) {
    const { isBlocked, out, changes, folded, branches, newest } = context;
    const isOut = out.has(place);
    const isSeen = place >= folded;
    const shown = {
      edit: branches,
      again: branches && key === newest,
      pin: true,
      leave: isSeen && !isOut,
      take: isSeen && isOut,
      rewrite: changes.rewrite === key,
      anew: changes.rewrite === key,
      undo: changes.undo === key,
      redo: changes.redo === key,
    };
    for (const [name, each] of Object.entries(buttons)) {
      each.hidden = !shown[name];
      each.disabled = isBlocked;
    }
    mark.hidden = !isOut;
    item.toggleAttribute("data-left-out", isOut);
    box.hidden = !isOut && Object.values(buttons).every((each) => each.hidden);
    box.classList.toggle("nbc-always", isOut || kind === "banner" || key === newest);
  }

  clicked(event) {
    const back = event.target.closest?.(".nbc-back");
    if (back) this.panel.command(`/resume ${back.parentElement.dataset.session}`);
    const pressed = event.target.closest?.(".nbc-action");
    const row = pressed && this.rows.get(Number(pressed.parentElement.dataset.key));
    if (row) this.act(pressed.dataset.action, row, pressed);
  }

  act(name, { place }, opener) {
    const { panel } = this;
    const steps = {
      edit: () => this.askWords(place, (text) => panel.rewriting.begin(place, text)),
      again: () => panel.command("/again"),
      pin: () => this.askWords(place, (text) => panel.command(`/pin ${text}`)),
      leave: () => panel.command(`/exclude ${place}`),
      take: () => panel.command(`/include ${place}`),
      rewrite: () => panel.summaryDialog.open(opener),
      anew: () => panel.anewDialog.open(opener),
      undo: () => panel.command("/undo"),
      redo: () => panel.command("/redo"),
    };
    steps[name]();
  }

  // What is shown had marks taken out; the words go on as they were typed.
  askWords(place, then) {
    this.token = newToken();
    this.then = then;
    this.panel.send({ type: "words", place, token: this.token });
  }

  hear(message) {
    if (message.token !== this.token) return;
    this.token = null;
    if (message.type === "words_said") this.then(message.text);
  }
}

function kindOf(item, place) {
  if (item.matches("details.nbc-banner")) return "banner";
  if (place === undefined) return "";
  if (item.matches(".nbc-tool-result")) return "output";
  if (item.matches(".nbc-assistant")) return "answer";
  return item.matches(".nbc-attached, :has(> .nbc-chip)") ? "brought" : "prompt";
}

function addBackButton(note) {
  if (!note.matches(".nbc-branched")) return;
  const title = "Go on with the session as it was";
  note.append(button("nbc-back", "Back to the earlier version", title));
}

// An earlier message in the box, to be said otherwise

class Rewriting {
  constructor(panel) {
    this.panel = panel;
    this.place = null; // of the message in the transcript; null while none is edited
    this.draft = ""; // what was being typed before
    this.words = ""; // what the message said before
    panel.parts.cancelEditing.addEventListener("click", () => this.cancel());
  }

  get isOn() {
    return this.place !== null;
  }

  begin(place, text, words) {
    const { input } = this.panel.parts;
    this.draft = this.isOn ? this.kept() : input.value;
    this.show(place, text);
    this.words = words ?? input.value; // a box writes some ends of lines otherwise
    input.setSelectionRange(input.value.length, input.value.length);
    input.focus();
  }

  cancel() {
    if (!this.isOn) return;
    this.show(null, this.draft);
    this.panel.parts.input.focus();
  }

  // Another session is shown, which has no such message.
  leave() {
    if (this.isOn) this.show(null, this.kept());
  }

  // What was being typed before, and what was made of the message, if anything
  kept() {
    const { value } = this.panel.parts.input;
    return value === this.words ? this.draft : joined(this.draft, value);
  }

  show(place, text) {
    const { input, editing } = this.panel.parts;
    this.place = place;
    editing.hidden = place === null;
    input.value = text;
    this.panel.box.onInput();
  }

  submit() {
    const { panel, place } = this;
    const text = panel.parts.input.value;
    if (!text.trim() || panel.isGone || panel.state.is_busy) return;
    const previews = panel.attached.keys();
    this.show(null, this.draft);
    panel.parts.input.focus();
    panel.expectTurn(text);
    panel.send({ type: "branch", place, text, previews });
  }
}
