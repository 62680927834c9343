// The box a message is typed in

const INPUT_LIMIT_PIXELS = 180;

class Box {
  constructor(panel) {
    this.panel = panel;
    this.offered = null; // what came back, as it stands in the box of every view
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
    if (event.key === "Escape" && !event.isComposing) this.panel.rewriting.cancel();
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
    if (this.panel.rewriting.isOn) {
      this.panel.rewriting.submit();
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

  // What comes back stands before what is being typed.
  offerDraft({ text, place }) {
    const { parts, rewriting } = this.panel;
    if (place !== undefined) {
      rewriting.begin(place, text, "");
    } else if (rewriting.isOn) {
      rewriting.draft = joined(text, rewriting.draft);
    } else {
      parts.input.value = joined(text, parts.input.value);
      this.onInput();
    }
    this.offered = text;
  }

  // What another view has sent since, nobody needs here, unless it was changed.
  forgetSent(queue) {
    const { parts, rewriting } = this.panel;
    if (!queue.includes(this.offered) || parts.input.value !== this.offered) return;
    if (rewriting.isOn) return rewriting.show(null, rewriting.draft);
    parts.input.value = "";
    this.onInput();
  }
}

// Without blank lines around it; the first line of pasted code keeps its indentation.
function tidied(text) {
  const isCommand = /^\s*\/[a-z]/i.test(text);
  return isCommand ? text.trim() : text.trimEnd().replace(/^(?:[^\S\n]*\n)+/, "");
}

function joined(...texts) {
  return texts.filter((text) => text.trim()).join("\n\n");
}
