// The input box

const INPUT_LIMIT_PIXELS = 180;

export class Box {
  constructor(panel) {
    this.panel = panel;
    this.offered = null; // the text that came back, the same in every view
    const { input, form } = panel.parts;
    input.addEventListener("keydown", (event) => this.onKey(event));
    input.addEventListener("input", () => this.onInput());
    input.addEventListener("focus", () => panel.attached.look()); // a cell may have run
    input.addEventListener("click", () => panel.completer.follow());
    input.addEventListener("blur", () => panel.completer.close());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
  }

  onKey(event) {
    if (this.panel.completer.takes(event)) return;
    if (event.key === "Escape" && !event.isComposing) this.panel.editing.cancel();
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.submit();
  }

  onInput() {
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
    const previews = this.panel.attached.keys();
    input.value = "";
    this.onInput();
    this.panel.say(text, previews);
    input.focus(); // from the button, which is hidden now
  }

  // Text that comes back goes before the text being typed.
  offerDraft({ text, position }) {
    const { parts, editing } = this.panel;
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

  // Remove text that another view has sent since, unless it was changed here.
  forgetSent(queue) {
    const { parts, editing } = this.panel;
    if (!queue.includes(this.offered) || parts.input.value !== this.offered) return;
    if (editing.isOn) return editing.show(null, editing.draft);
    parts.input.value = "";
    this.onInput();
  }
}

// Without blank lines around it; the first line of pasted code keeps its indentation.
export function tidied(text) {
  const isCommand = /^\s*\/[a-z]/i.test(text);
  return isCommand ? text.trim() : text.trimEnd().replace(/^(?:[^\S\n]*\n)+/, "");
}

export function joined(...texts) {
  return texts.filter((text) => text.trim()).join("\n\n");
}
