// The input box

import { LONGEST_TYPED } from "./attachments.js";
import { isComposing, on, onSubmit } from "./dom.js";
import { Pastes } from "./pastes.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { ChatPanel } from "./panel.js" */

const INPUT_LIMIT_PIXELS = 180;

export class Box {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    /** @type {string | null} */
    this.offered = null; // the text that came back, the same in every view
    /** @type {{ index: number, text: string } | null} */
    this.recalled = null; // what ArrowUp brought back: its text, its place among all
    this.pastes = new Pastes();
    const { input, form } = panel.parts;
    this.pastes.listen(input);
    on(input, "keydown", (event) => this.onKey(event));
    on(input, "input", () => this.onInput());
    on(input, "focus", () => panel.attached.look()); // a cell may have run
    on(input, "click", () => panel.completer.follow());
    on(input, "blur", () => panel.completer.close());
    on(panel.parts.mention, "click", () => this.mention());
    const keep = () => this.keepDraft();
    window.addEventListener("pagehide", keep);
    panel.undo.push(keep, () => window.removeEventListener("pagehide", keep));
    onSubmit(form, () => {
      this.submit();
    });
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (isComposing(event) || this.panel.completer.takes(event)) return;
    if (event.key === "Escape") this.escape();
    if (event.key === "ArrowUp" || event.key === "ArrowDown") this.recall(event);
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    this.submit();
  }

  escape() {
    const { panel } = this;
    if (panel.editing.isOn) panel.editing.cancel();
    else if (panel.state.is_busy && !panel.isFrozen && !panel.isGone) panel.stop();
  }

  /** In an empty box ArrowUp brings back what was asked before, one after the other.
   * @param {KeyboardEvent} event
   */
  recall(event) {
    const { panel } = this;
    const { input } = panel.parts;
    const isUnchanged = !input.value || input.value === this.recalled?.text;
    if (!isUnchanged || panel.editing.isOn) return;
    const prompts = panel.actions.prompts();
    const index = (this.recalled?.index ?? prompts.length) + (event.key === "ArrowUp" ? -1 : 1);
    const position = prompts[index];
    if (position === undefined && !this.recalled) return;
    event.preventDefault();
    if (position !== undefined) panel.actions.askText(position, (text) => this.fill({ index, text }));
    else if (index >= prompts.length) this.fill(null);
  }

  /** @param {{ index: number, text: string } | null} recalled */
  fill(recalled) {
    const { input } = this.panel.parts;
    this.recalled = recalled;
    input.value = recalled?.text ?? "";
    input.setSelectionRange(input.value.length, input.value.length);
    this.onInput();
  }

  // A draft outlives its view and its kernel, in this tab: the cell may be run again.
  keepDraft() {
    const { parts, editing, state } = this.panel;
    const text = editing.isOn ? editing.draft : parts.input.value;
    if (!state.chat_id || !text.trim()) return;
    sessionStorage.setItem(draftKey(state), text);
    sessionStorage.setItem(pastesKey(state), JSON.stringify(this.pastes.within(text)));
  }

  // After a restart the chat of this place has another id.
  restoreDraft() {
    const { parts, state: now, notebook } = this.panel;
    const place = `nbchat-chat-${notebook.place}`;
    const before = notebook.place ? sessionStorage.getItem(place) : null;
    if (notebook.place && now.chat_id) sessionStorage.setItem(place, now.chat_id);
    const known = [now.chat_id, before].find((id) => id && sessionStorage.getItem(draftKey({ chat_id: id })));
    if (!known) return;
    const state = { chat_id: known };
    const text = sessionStorage.getItem(draftKey(state));
    const pasted = JSON.parse(sessionStorage.getItem(pastesKey(state)) ?? "[]");
    for (const each of pasted) this.pastes.add(each);
    sessionStorage.removeItem(draftKey(state));
    sessionStorage.removeItem(pastesKey(state));
    if (!text || parts.input.value) return;
    parts.input.value = text;
    this.onInput();
  }

  // Type an @, after a space where there is a word.
  mention() {
    const { input } = this.panel.parts;
    const before = input.value.slice(0, input.selectionStart);
    input.focus();
    input.setRangeText(/\S$/.test(before) ? " @" : "@", input.selectionStart, input.selectionEnd, "end");
    this.onInput();
  }

  onInput() {
    const { input } = this.panel.parts;
    if (input.value.length > LONGEST_TYPED) {
      this.panel.attached.bringText("message.txt", input.value);
      input.value = "";
    }
    this.fitInput();
    this.panel.completer.follow();
    this.panel.attached.follow();
  }

  fitInput() {
    const { input } = this.panel.parts;
    input.style.height = "auto";
    const border = input.offsetHeight - input.clientHeight;
    const wanted = Math.min(input.scrollHeight + border, INPUT_LIMIT_PIXELS);
    input.style.height = `${wanted}px`;
    this.panel.drawButtons();
  }

  submit() {
    const { input } = this.panel.parts;
    if (this.panel.editing.isOn) {
      this.panel.editing.submit();
      return;
    }
    const text = tidied(input.value);
    if (!text || this.panel.isGone) return;
    const reason = this.panel.attached.waitsFor();
    if (reason) return this.panel.attached.hold(reason);
    const previews = this.panel.attached.keys();
    input.value = "";
    this.recalled = null;
    this.onInput();
    this.panel.say(text, previews, this.pastes.within(text));
    input.focus(); // from the button, which is hidden now
  }

  /** Text that comes back goes before the text being typed.
   * @param {Omit<Protocol.DraftOperation, "op">} draft
   */
  offerDraft({ text, position }) {
    const { parts, editing, settingsDialog } = this.panel;
    if (settingsDialog.keeps(text)) return;
    if (position !== undefined) {
      editing.begin(position, text, "");
    } else if (editing.isOn) {
      editing.draft = joined(text, editing.draft);
    } else {
      parts.input.value = joined(text, parts.input.value);
      this.onInput();
    }
    this.offered = text;
  }

  /** Remove text that another view has sent since, unless it was changed here.
   * @param {string[]} queue
   */
  forgetSent(queue) {
    const { parts, editing } = this.panel;
    if (this.offered === null || !queue.includes(this.offered) || parts.input.value !== this.offered) return;
    if (editing.isOn) return editing.show(null, editing.draft);
    parts.input.value = "";
    this.onInput();
  }
}

/** @param {Protocol.SomeState} state */
function draftKey({ chat_id: chat }) {
  return `nbchat-draft-${chat}`;
}

/** @param {Protocol.SomeState} state */
function pastesKey({ chat_id: chat }) {
  return `nbchat-pasted-${chat}`;
}

/** Without blank lines around it; the first line of pasted code keeps its indentation.
 * @param {string} text
 */
export function tidied(text) {
  const isCommand = /^\s*\/[a-z]/i.test(text);
  return isCommand ? text.trim() : text.trimEnd().replace(/^(?:[^\S\n]*\n)+/, "");
}

/** @param {...string} texts */
export function joined(...texts) {
  return texts.filter((text) => text.trim()).join("\n\n");
}
