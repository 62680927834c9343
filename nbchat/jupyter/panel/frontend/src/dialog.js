// A dialog over the panel; the rest is inert while it is open

import { all, button, focusQuietly, isComposing, newToken, on, onSubmit, tag } from "./dom.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { ChatPanel } from "./panel.js" */

/** @typedef {Extract<Protocol.KernelToView, { token: string }>} Answer */

/** @typedef {Extract<Protocol.ViewToKernel, { token: string }>} Question */

/** @typedef {{ [Name in Question["type"]]: Omit<Extract<Question, { type: Name }>, "token"> }[Question["type"]]} Query A question without its token */

const FOCUSABLE = "button, input, select, textarea, summary, a[href], [tabindex='0']";

export class Dialog {
  /**
   * @param {ChatPanel} panel
   * @param {{ title: string, className: string, note?: string }} about
   */
  constructor(panel, { title, className, note = "" }) {
    this.panel = panel;
    /** @type {string | null} */
    this.token = null; // of the query that waits for its answer
    this.content = tag("div", "nbc-dialog-content");
    this.status = tag("div", "nbc-dialog-status", { role: "status" });
    this.footer = tag("div", "nbc-dialog-footer", {}, this.status);
    const close = button("nbc-dialog-close", "×", "Close");
    close.setAttribute("aria-label", "Close");
    const heading = tag("h2", "nbc-dialog-title", {}, title, tag("small", "", {}, note));
    const header = tag("div", "nbc-dialog-header", {}, heading, close);
    /** @type {Record<string, string>} */
    const attributes = { role: "dialog", "aria-modal": "true", tabindex: "-1" };
    attributes["aria-label"] = `${title}${note}`;
    const parts = [header, this.content, this.footer];
    this.box = tag("div", `nbc-dialog ${className}`, attributes, ...parts);
    // Tab from the last stop or back from the first reaches one of these, and goes on.
    const [before, after] = [1, 2].map(() => tag("span", "", { tabindex: "0" }));
    this.overlay = tag("div", "nbc-overlay", { hidden: "" }, before, this.box, after);
    on(this.overlay, "keydown", (event) => this.onKey(event));
    on(before, "focus", () => this.stops().at(-1)?.focus());
    on(after, "focus", () => this.stops()[0].focus());
    on(close, "click", () => this.close());
    panel.parts.root.append(this.overlay);
  }

  get isOpen() {
    return !this.overlay.hidden;
  }

  get isBlocked() {
    return this.panel.isBlocked;
  }

  /** @param {string} text */
  tell(text) {
    this.status.textContent = text;
  }

  /** @param {HTMLElement} opener */
  open(opener) {
    this.opener = opener;
    this.tell("");
    this.setOpen(true);
    this.draw();
    const first = /** @type {HTMLElement | null} */ (this.box.querySelector("[data-first]"));
    focusQuietly(first ?? this.box);
    this.overlay.scrollIntoView({ block: "nearest" });
  }

  close() {
    this.token = null;
    this.setOpen(false);
    this.opener?.focus();
    if (document.activeElement !== this.opener) this.panel.focusBox();
  }

  /** Close, and go on in the message box.
   * @param {string} command
   */
  leave(command) {
    this.opener = this.panel.parts.input;
    this.close();
    this.panel.command(command);
  }

  /** @param {boolean} isOpen */
  setOpen(isOpen) {
    const { root, announcements } = this.panel.parts;
    this.overlay.hidden = !isOpen;
    for (const part of /** @type {Iterable<HTMLElement>} */ (root.children)) {
      if (part !== this.overlay && part !== announcements) part.inert = isOpen;
    }
  }

  // Make a token for a query; its answer reaches all views
  newToken() {
    this.token = newToken();
    return this.token;
  }

  /** @param {Answer} message */
  hear(message) {
    if (message.token !== this.token) return;
    this.token = null;
    this.keepFocus(() => {
      if (message.type === "refused") this.tell(message.reason);
      else this.answered(message);
      this.draw();
    });
  }

  /** Without a focused element the next key would be a notebook command.
   * @param {() => void} step
   */
  keepFocus(step) {
    const hadFocus = this.box.contains(document.activeElement);
    step();
    const focused = /** @type {HTMLInputElement | null} */ (document.activeElement);
    const isLost = !this.box.contains(focused) || focused?.disabled; // a disabled element loses it
    if (hadFocus && isLost) this.box.focus();
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.key !== "Escape" || isComposing(event)) return;
    event.preventDefault();
    this.close();
  }

  stops() {
    return all(this.box, FOCUSABLE).filter(isReachable);
  }

  /** Add a form with Cancel and the button that confirms.
   * @param {HTMLButtonElement} confirm
   * @param {...HTMLElement} fields
   */
  addForm(confirm, ...fields) {
    const cancel = button("", "Cancel", "Close without changes");
    this.footer.append(cancel, confirm);
    const form = tag("form", "nbc-fields", {}, ...fields, this.footer);
    this.content.append(form);
    on(cancel, "click", () => this.close());
    onSubmit(form, () => confirm.disabled || this.submit());
  }

  /** Ask the kernel; its answer reaches all views, and this dialog by the token.
   * @param {Query} query
   */
  query(query) {
    this.panel.send(/** @type {Protocol.ViewToKernel} */ ({ ...query, token: this.newToken() }));
  }

  submit() {}
  draw() {}
  refresh() {}
  /** @param {Exclude<Answer, Protocol.Refused>} _message */
  answered(_message) {}
  /** @param {HTMLElement} _item */
  see(_item) {}
}

/** Whether an element can have the focus.
 * @param {(Element & { disabled?: boolean }) | null} element
 */
export function isReachable(element) {
  return element !== null && !element.disabled && element.getClientRects().length > 0;
}

/** @param {string} label @param {HTMLElement} input */
export function field(label, input) {
  return tag("label", "nbc-field", {}, tag("span", "", {}, label), input);
}
