// Making elements, and writing numbers

const TYPING_MILLISECONDS = 250; // ask when the person has paused

/** The element of the kernel's safe HTML.
 * @param {string} html
 * @returns {HTMLElement}
 */
export function fromHtml(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return /** @type {HTMLElement} */ (template.content.firstElementChild);
}

/**
 * @param {string} className
 * @param {string} label
 * @param {string} title
 * @param {string} [type]
 */
export function button(className, label, title, type = "button") {
  return tag("button", className, { type, title }, label);
}

/** The button that most people want
 * @param {string} label
 * @param {string} title
 * @param {string} [type]
 */
export function primary(label, title, type) {
  return button("nbc-primary", label, title, type);
}

/** A button that shows a shape of icons.css; its label is read out and in the tooltip.
 * @param {string} className
 * @param {string} icon
 * @param {string} label
 * @param {string} [title]
 * @param {string} [type]
 */
export function iconButton(className, icon, label, title = label, type = "button") {
  const made = tag("button", `nbc-icon ${className}`, { type, title, "aria-label": label });
  made.dataset.icon = icon;
  return made;
}

/**
 * @template {keyof HTMLElementEventMap} Name
 * @param {EventTarget} target
 * @param {Name} name
 * @param {(event: HTMLElementEventMap[Name]) => unknown} react
 * @param {AddEventListenerOptions} [options]
 */
export function on(target, name, react, options) {
  target.addEventListener(name, /** @type {EventListener} */ (react), options);
}

/** The page isn't loaded again, as a form's would be.
 * @param {HTMLFormElement} form
 * @param {() => unknown} react
 */
export function onSubmit(form, react) {
  on(form, "submit", (event) => {
    event.preventDefault();
    react();
  });
}

/** @param {HTMLElement} element @param {string} text */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * @template {HTMLElement} [Found=HTMLElement]
 * @param {ParentNode | null | undefined} root none has no elements
 * @param {string} selector
 * @returns {Found[]}
 */
export function all(root, selector) {
  return root ? [.../** @type {NodeListOf<Found>} */ (root.querySelectorAll(selector))] : [];
}

/** @param {ParentNode} root @param {string} selector @param {boolean | undefined} isDisabled */
export function setDisabled(root, selector, isDisabled) {
  for (const each of all(root, selector)) each.toggleAttribute("disabled", Boolean(isDisabled));
}

/** What was pressed, if it is or is in an element that the selector means.
 * @template {Element} [Pressed=HTMLButtonElement]
 * @param {Event} event
 * @param {string} selector
 * @returns {Pressed | null}
 */
export function pressedIn({ target }, selector) {
  return target instanceof Element ? target.closest(selector) : null;
}

/** Whether a key belongs to an input method; Safari's Enter comes after the composition.
 * @param {KeyboardEvent} event
 */
export function isComposing(event) {
  return event.isComposing || event.keyCode === 229;
}

/** As everywhere in the panel Shift+Enter begins a line.
 * @param {HTMLTextAreaElement} text in a form
 */
export function submitByEnter(text) {
  on(text, "keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || isComposing(event)) return;
    event.preventDefault();
    /** @type {HTMLFormElement} */ (text.form).requestSubmit();
  });
}

/**
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {string} [className]
 * @param {Record<string, string>} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function tag(name, className = "", attributes = {}, ...children) {
  const element = document.createElement(name);
  if (className) element.className = className;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** @param {string} value @param {string} text */
export function option(value, text) {
  return tag("option", "", { value }, text);
}

/** Focus an element without moving what is read.
 * @param {HTMLElement | SVGElement | null | undefined} element
 */
export function focusQuietly(element) {
  element?.focus({ preventScroll: true });
}

/** @param {Element} element */
export function boxOf(element) {
  return element.getBoundingClientRect();
}

/** What scrolls can be reached by keys, and has a name.
 * @param {string} label
 */
export function region(label) {
  return { tabindex: "0", role: "region", "aria-label": label };
}

export function newToken() {
  return `q${Math.random().toString(36).slice(2)}`;
}

/** @param {() => void} react */
export function later(react) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(react, TYPING_MILLISECONDS);
  };
}

/** @param {number} number */
export function count(number) {
  return number.toLocaleString("en-US");
}

/** Tokens, rounded for reading
 * @param {number} tokens
 */
export function about(tokens) {
  if (tokens < 1_000) return plural(tokens, "token");
  const thousands = tokens / 1_000;
  return `${thousands < 10 ? Number(thousands.toFixed(1)) : Math.round(thousands)}k tokens`;
}

/** @param {number} share */
export function percent(share) {
  return `${Math.round(100 * share)}%`;
}

/** @param {number} number @param {string} noun */
export function plural(number, noun) {
  if (number !== 1 && noun.endsWith("ry")) noun = `${noun.slice(0, -1)}ie`;
  const ending = noun.endsWith("ch") ? "es" : "s";
  return `${count(number)} ${noun}${number === 1 ? "" : ending}`;
}
