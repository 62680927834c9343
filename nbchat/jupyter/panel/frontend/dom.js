// Making elements, and writing numbers

const TYPING_MILLISECONDS = 250; // ask when the person has paused

function fromHtml(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

function button(className, label, title, type = "button") {
  return tag("button", className, { type, title }, label);
}

// As everywhere in the panel Shift+Enter begins a line.
function submitByEnter(text) {
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    text.form.requestSubmit();
  });
}

function tag(name, className = "", attributes = {}, ...children) {
  const element = document.createElement(name);
  if (className) element.className = className;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function options(names) {
  return names.map((name) => option(name, name));
}

function option(value, text) {
  return tag("option", "", { value }, text);
}

function newToken() {
  return `q${Math.random().toString(36).slice(2)}`;
}

function later(react) {
  let timer = null;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(react, TYPING_MILLISECONDS);
  };
}

function count(number) {
  return number.toLocaleString("en-US");
}

function percent(share) {
  return `${Math.round(100 * share)}%`;
}

function plural(number, noun) {
  if (number !== 1 && noun.endsWith("ry")) noun = `${noun.slice(0, -1)}ie`;
  const ending = noun.endsWith("ch") ? "es" : "s";
  return `${count(number)} ${noun}${number === 1 ? "" : ending}`;
}
