// Attachments: chips above the message, and a preview of what each sends

import { Dialog } from "./dialog.js";
import { about, button, later, newToken, on, plural, primary, region, tag } from "./dom.js";
import { inParts } from "./long_text.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { Answer } from "./dialog.js" */
/** @import { Parts } from "./layout.js" */
/** @import { ChatPanel } from "./panel.js" */

export class PreviewDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "What will be sent", className: "nbc-preview" });
    this.shown = tag("div", "nbc-preview-shown");
    this.drop = button("", "Remove", "Don't attach it. The word stays in the message.");
    const done = primary("Done", "Back to the message");
    done.dataset.first = "";
    this.footer.append(this.drop, done);
    this.content.append(this.shown);
    const scrolling = region("What will be sent");
    for (const [name, value] of Object.entries(scrolling)) this.content.setAttribute(name, value);
    on(done, "click", () => this.close());
    on(this.drop, "click", () => this.remove());
  }

  /** @param {Protocol.Chip} chip @param {HTMLElement} opener */
  show(chip, opener) {
    /** @type {Protocol.Chip} */
    this.chip = chip;
    this.shown.replaceChildren();
    this.open(opener);
    this.query({ type: "preview", key: chip.key });
  }

  /** @param {Protocol.Previewed} message */
  answered({ text, tokens, picture }) {
    this.tell(`${this.chip.mention} · ${plural(tokens, "token")}`);
    this.shown.replaceChildren(tag("pre", "nbc-output", {}, ...inParts(text)));
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
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    /** @type {string | null} */
    this.token = null;
    /** @type {Protocol.Chip[]} */
    this.chips = [];
    /** @type {Protocol.Chip[]} */
    this.uploads = []; // chips of files that no word of the message names
    /** @type {Set<string>} */
    this.uploadTokens = new Set();
    /** @type {Map<string, string>} the form that was chosen, by the key of the usual one */
    this.chosen = new Map();
    /** @type {Map<string, string>} what `@!` sends, by the key of its chip */
    this.raw = new Map();
    this.rawToken = ""; // of the preview that was asked for
    this.rawKey = "";
    this.reason = ""; // why the message was not sent yet
    this.asked = this.looked = ""; // the words of the last question, and of its answer
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
    this.asked = this.known;
    const pasted = this.panel.box.pastes.within(this.text);
    this.panel.send({ type: "mentions", text: this.text, pasted, token: this.token });
  }

  /** @param {Answer} message */
  hear(message) {
    if (this.uploadTokens.delete(message.token)) this.uploaded(message);
    if (message.token === this.rawToken && message.type === "previewed") this.showRaw(message.text);
    if (message.token !== this.token) return;
    this.token = null;
    this.looked = this.asked;
    if (message.type === "mentioned" && this.words()) this.draw(message.chips);
  }

  /** @param {Answer} message */
  uploaded(message) {
    const reason = message.type === "refused" ? message.reason : "";
    const problem = { mention: "The file", key: "", tokens: 0, problem: reason, hidden: 0, ...PLAIN };
    this.uploads.push(...(message.type === "mentioned" ? message.chips : [problem]));
    this.draw(this.chips);
    this.panel.focusBox();
  }

  get all() {
    return [...this.chips, ...this.uploads];
  }

  /** Why the message waits: a long text, about which the person is asked, or what `@!` sends,
   * which is shown before; empty if it can be sent */
  waitsFor() {
    const isShown = this.looked === this.words() && this.rawChips().every(({ key }) => this.raw.has(key));
    if (this.words().includes("@!") && !isShown) {
      this.look();
      return "Below is what @! sends. Press Enter again to send it.";
    }
    const asks = this.all.find((chip) => this.isOpen(chip));
    return asks ? `Choose how to send ${asks.mention}.` : "";
  }

  /** Whether a word is no name yet because it is still being typed
   * @param {Protocol.Chip} chip
   */
  isBeingTyped({ problem, mention }) {
    const { input } = this.panel.parts;
    const isName = /^@(?!error$|cell$)\w+$/.test(mention); // not @file:a.txt
    return isName && Boolean(problem) && input.value.slice(0, input.selectionStart).endsWith(mention) && document.activeElement === input;
  }

  rawChips() {
    return this.chips.filter(({ mention, key }) => mention.startsWith("@!") && key);
  }

  /** Whether the person must choose a form first
   * @param {Protocol.Chip} chip
   */
  isOpen(chip) {
    return Boolean(chip.other) && !chip.is_described && !this.chosen.has(chip.key);
  }

  /** @param {string} reason */
  hold(reason) {
    const { attachments } = this.panel.parts;
    this.reason = reason;
    this.draw(this.chips);
    const choice = /** @type {HTMLElement | null} */ (attachments.querySelector("[data-open] .nbc-attached-form"));
    choice?.focus();
  }

  // Those of the message, which is sent now
  keys() {
    const keys = this.all.map((chip) => this.chosen.get(chip.key) ?? chip.key).filter(Boolean);
    this.uploads = [];
    this.chosen.clear();
    this.raw.clear();
    this.reason = "";
    this.draw(this.chips);
    return keys;
  }

  /** A text that is too long for the box
   * @param {string} name @param {string} text
   */
  bringText(name, text) {
    this.bring([new File([text], name, { type: "text/plain" })]);
  }

  /** Files that were dropped, pasted or picked
   * @param {File[]} files
   */
  async bring(files) {
    for (const file of files) {
      const data = await base64Of(file);
      const name = file.name || `pasted.${file.type.split("/")[1] ?? "txt"}`;
      const token = newToken();
      this.uploadTokens.add(token);
      const sent = { name, media_type: file.type, data, token };
      if (file.size > UPLOAD_LIMIT_BYTES) this.refuse(name);
      else this.panel.send({ type: "upload", ...sent });
    }
  }

  /** @param {string} name */
  refuse(name) {
    const problem = `${name} is too large to send. Save it beside the notebook, then type @file:${name}`;
    this.uploads.push({ mention: name, key: "", tokens: 0, problem, hidden: 0, ...PLAIN });
    this.draw(this.chips);
  }

  /** @param {Protocol.Chip[]} mentioned */
  draw(mentioned) {
    this.chips = mentioned;
    const chips = this.all.filter((chip) => !this.isBeingTyped(chip));
    const { attachments } = this.panel.parts;
    attachments.hidden = !chips.length;
    const isSettled = !this.rawChips().length && !chips.some((chip) => this.isOpen(chip));
    if (isSettled && !this.token) this.reason = "";
    const reason = this.reason ? [tag("li", "nbc-attached-reason", { role: "status" }, this.reason)] : [];
    const raw = this.rawChips();
    const shown = raw.map(({ key, mention }) => tag("li", "nbc-attached-raw", {}, sentText(mention, this.raw.get(key))));
    attachments.replaceChildren(...chips.map((chip) => this.chip(chip)), ...reason, ...shown);
    const unknown = raw.find(({ key }) => !this.raw.has(key));
    if (unknown) this.askRaw(unknown.key);
  }

  /** @param {string} key of what `@!` sends */
  askRaw(key) {
    if (this.rawKey === key && this.rawToken) return;
    this.rawKey = key;
    this.rawToken = newToken();
    this.panel.send({ type: "preview", key, token: this.rawToken });
  }

  /** @param {string} text */
  showRaw(text) {
    this.rawToken = "";
    this.raw.set(this.rawKey, text);
    this.draw(this.chips);
  }

  /** @param {Protocol.Chip} chip @param {string} key of the form that is sent */
  choose(chip, key) {
    this.chosen.set(chip.key, key);
    this.draw(this.chips);
    this.panel.focusBox();
  }

  /** What can be sent in place of what is: all of it, or a description
   * @param {Protocol.Chip} chip
   */
  forms(chip) {
    const { key, other, is_described: isDescribed, mention } = chip;
    if (!other) return [];
    const [whole, described] = isDescribed ? [other, key] : [key, other];
    const size = about(isDescribed ? chip.other_tokens : chip.tokens);
    const sent = this.isOpen(chip) ? "" : (this.chosen.get(key) ?? key);
    const all = button("nbc-attached-form", "Send all", `Send all of ${mention}: ${size}`);
    const some = button("nbc-attached-form", "Send a description", `Send the size and the most telling parts of ${mention}`);
    on(all, "click", () => this.choose(chip, whole));
    on(some, "click", () => this.choose(chip, described));
    return [...(sent === whole ? [] : [all]), ...(sent === described ? [] : [some])];
  }

  /** @param {Protocol.Chip} chip */
  chip(chip) {
    const { mention, problem, hidden, thumbnail } = chip;
    const key = this.chosen.get(chip.key) ?? chip.key;
    const isOther = key === chip.other;
    const tokens = isOther ? chip.other_tokens : chip.tokens;
    const size = tag("span", "nbc-attached-size", { title: plural(tokens, "token") }, about(tokens));
    const open = button("nbc-attached-open", mention, "See exactly what will be sent");
    if (thumbnail) open.prepend(tag("img", "nbc-attached-picture", { src: thumbnail, alt: "" }));
    open.append(size);
    if (isOther !== Boolean(chip.is_described)) open.append(tag("span", "nbc-attached-size", {}, "description"));
    on(open, "click", () => this.panel.preview.show({ ...chip, key }, open));
    const drop = button("nbc-attached-drop", "×", `Don't attach ${mention}`);
    drop.setAttribute("aria-label", drop.title);
    on(drop, "click", () => this.drop(mention));
    const anyway = button("", `${hidden} hidden · send anyway`, SECRETS);
    on(anyway, "click", () => this.attachAnyway(mention));
    const extra = hidden && mention.startsWith("@") ? [anyway] : [];
    const shown = problem ? tag("span", "nbc-attached-problem", {}, problem) : open;
    /** @type {Record<string, string>} */
    const missing = { "data-missing": String(Boolean(problem)) };
    if (this.isOpen(chip)) missing["data-open"] = "";
    return tag("li", "nbc-attached-chip", missing, shown, ...extra, ...this.forms(chip), drop);
  }

  /** With @! in place of @ nothing is hidden.
   * @param {string} mention
   */
  attachAnyway(mention) {
    const { input } = this.panel.parts;
    input.value = this.text.replaceAll(mention, `@!${mention.slice(1)}`);
    this.panel.box.onInput();
    input.focus();
  }

  /** Without its @ it is a plain word.
   * @param {string} mention
   */
  drop(mention) {
    if (this.uploads.some((chip) => chip.mention === mention)) {
      this.uploads = this.uploads.filter((chip) => chip.mention !== mention);
      this.draw(this.chips);
      return;
    }
    const { input } = this.panel.parts;
    const literal = mention.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const ends = /\w$/.test(mention) ? "(?!\\w)" : "";
    input.value = this.text.replace(new RegExp(literal + ends, "g"), mention.slice(1));
    this.draw(this.chips.filter((chip) => chip.mention !== mention));
    this.panel.box.onInput();
    input.focus();
  }
}

const PLAIN = { other: "", other_tokens: 0, is_described: false, thumbnail: "" };
const RAW_SHOWN = 2_000; // characters of what `@!` sends; the chip shows all

/** What `@!` sends, secrets included
 * @param {string} mention @param {string | undefined} text
 */
function sentText(mention, text) {
  const about = region(`What ${mention} sends`);
  const shown = text === undefined ? "…" : text.length > RAW_SHOWN ? `${text.slice(0, RAW_SHOWN)}…` : text;
  return tag("pre", "nbc-output", about, shown);
}

const SECRETS = "Text that looks like a secret isn't sent. Click to send all of it.";
const UPLOAD_LIMIT_BYTES = 7_000_000; // Jupyter Server takes messages of 10 MB

/** Characters of the box; a longer text becomes an attachment. */
export const LONGEST_TYPED = 20_000;

/** @param {File} file @returns {Promise<string>} */
function base64Of(file) {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).split(",", 2)[1] ?? "");
    reader.readAsDataURL(file);
  });
}

/** Drop, paste and the picker
 * @param {Parts} parts
 * @param {Attached} attached
 */
export function listenForFiles({ root, input, attach }, attached) {
  on(attach, "click", () => {
    const picker = tag("input", "", { type: "file", multiple: "" });
    on(picker, "change", () => attached.bring([...(picker.files ?? [])]));
    picker.click();
  });
  on(root, "dragover", (event) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  });
  on(root, "drop", (event) => {
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    event.stopPropagation();
    attached.bring([...event.dataTransfer.files]);
  });
  on(input, "paste", ({ clipboardData: pasted }) => {
    if (!pasted?.getData("text/plain")) attached.bring([...(pasted?.files ?? [])]);
  });
  // Pasted, dropped, dictated ...; before it is laid out
  on(input, "beforeinput", (event) => {
    if ((event.data?.length ?? 0) <= LONGEST_TYPED) return;
    event.preventDefault();
    attached.bringText("pasted.txt", event.data ?? "");
  });
}
