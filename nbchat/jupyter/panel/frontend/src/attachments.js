// Attachments: chips above the message, and a preview of what each sends

import { Dialog } from "./dialog.js";
import { button, later, newToken, plural, tag } from "./dom.js";

export class PreviewDialog extends Dialog {
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

// The chips above the message

export class Attached {
  constructor(panel) {
    this.panel = panel;
    this.token = null;
    this.chips = [];
    this.known = ""; // the words with an @ that were looked up last
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
    this.token = null; // an answer still to come is about other words
    if (words) this.ask();
    else this.draw([]);
  }

  // Also when nothing was typed: a variable may have changed.
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
    const shown = problem ? tag("span", "nbc-attached-problem", {}, problem) : open;
    return tag("li", "nbc-attached-chip", { "data-missing": String(Boolean(problem)) }, shown, drop);
  }

  // Without its @ it is a plain word.
  drop(mention) {
    const { input } = this.panel.parts;
    const literal = mention.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const ends = /\w$/.test(mention) ? "(?!\\w)" : "";
    input.value = this.text.replace(new RegExp(literal + ends, "g"), mention.slice(1));
    this.draw(this.chips.filter((chip) => chip.mention !== mention));
    this.panel.box.onInput();
    input.focus();
  }
}
