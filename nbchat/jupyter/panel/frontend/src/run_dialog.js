// The dialog before a model's code runs in the kernel

import { markAllInvisible } from "./code_blocks.js";
import { Dialog } from "./dialog.js";
import { button, on, primary, region, tag } from "./dom.js";

/** @import { ChatPanel } from "./panel.js" */

export class RunDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "Run in the kernel", className: "nbc-running" });
    const warning = "This code contains invisible characters. Their codes are shown here.";
    this.warning = tag("div", "nbc-dialog-warning", {}, warning);
    this.shown = tag("pre", "nbc-output");
    const run = primary("Run", "Insert it as a new cell and run it");
    const cancel = button("", "Cancel", "Close without running");
    cancel.dataset.first = "";
    this.footer.append(cancel, run);
    this.content.append(this.warning, tag("div", "nbc-preview-shown", {}, this.shown));
    const scrolling = region("The code");
    for (const [name, value] of Object.entries(scrolling)) this.content.setAttribute(name, value);
    this.run = run;
    on(cancel, "click", () => this.close());
    on(run, "click", () => this.confirm());
  }

  /** @param {string} code @param {HTMLElement} opener @param {() => void} agree */
  show(code, opener, agree) {
    this.agree = agree;
    this.shown.textContent = code;
    this.warning.hidden = !markAllInvisible(this.shown);
    this.open(opener);
    this.tell("It runs as a cell of this notebook, with all your permissions.");
  }

  draw() {
    this.run.disabled = this.panel.isGone;
  }

  confirm() {
    this.close();
    this.agree?.();
  }
}
