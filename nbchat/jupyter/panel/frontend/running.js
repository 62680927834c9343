// The dialog before code of a model runs in the kernel

class RunDialog extends Dialog {
  constructor(panel) {
    super(panel, { title: "Run in the kernel", className: "nbc-running" });
    const warning = "It has characters that nobody sees; here they are written out.";
    this.warning = tag("div", "nbc-dialog-warning", {}, warning);
    this.shown = tag("pre", "nbc-output");
    const run = button("nbc-primary", "Run", "Insert it as a cell and run that");
    const cancel = button("", "Cancel", "Run nothing");
    cancel.dataset.first = "";
    this.footer.append(cancel, run);
    this.content.append(this.warning, tag("div", "nbc-preview-shown", {}, this.shown));
    const scrolling = { tabindex: "0", role: "region", "aria-label": "The code" };
    for (const [name, value] of Object.entries(scrolling)) this.content.setAttribute(name, value);
    this.run = run;
    cancel.addEventListener("click", () => this.close());
    run.addEventListener("click", () => this.confirm());
  }

  show(code, opener, agree) {
    this.agree = agree;
    this.shown.textContent = code;
    this.warning.hidden = !markUnseen(this.shown);
    this.open(opener);
    this.status.textContent = "It becomes a cell of the notebook, and may do whatever you may.";
  }

  draw() {
    this.run.disabled = this.panel.isGone;
  }

  confirm() {
    this.close();
    this.agree();
  }
}
