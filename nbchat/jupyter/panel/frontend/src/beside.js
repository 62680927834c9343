// The place beside the notebook, which nbchat's extension of JupyterLab offers. The two
// speak by attributes and events of the page, so that each works without the other.

/** @import { ChatPanel } from "./panel.js" */

/** @typedef {{ text: string, error?: { traceback: string, source: string } }} Composed */

const ERROR = "application/vnd.jupyter.error"; // as nbchat.jupyter.panel.previews knows it

export class Beside {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    this.panel = panel;
    panel.parts.root.addEventListener("nbchat-compose", (event) => {
      this.compose(/** @type {CustomEvent<Composed>} */ (event).detail);
    });
  }

  // What the extension has put this panel in
  get view() {
    return /** @type {HTMLElement | null} */ (this.panel.parts.root.closest(".nbchat-view"));
  }

  get isOffered() {
    return "nbchatSide" in document.body.dataset && !this.view;
  }

  open() {
    document.dispatchEvent(new CustomEvent("nbchat-side"));
  }

  // The cell that is selected in the notebook, by its id
  get cellId() {
    return this.view?.dataset.cell;
  }

  get notebook() {
    return document.getElementById(this.view?.dataset.notebook ?? "")?.querySelector(".jp-Notebook");
  }

  /** Add to the message, which the person reads before it is sent. An error of
   * a cell is described by the kernel, as `@error` is.
   * @param {Composed} composed
   */
  compose({ text, error }) {
    const { box, attached, parts } = this.panel;
    if (error) attached.bring([new File([JSON.stringify(error)], "error", { type: ERROR })]);
    if (!parts.input.value.includes(text.trim())) {
      const between = /\S$/.test(parts.input.value) ? " " : "";
      parts.input.value += between + text;
    }
    this.panel.focusBox();
    box.onInput();
  }

  // For the extension: the conversation is here
  draw() {
    this.panel.parts.root.toggleAttribute("data-drawn", this.panel.sequence !== null);
  }
}
