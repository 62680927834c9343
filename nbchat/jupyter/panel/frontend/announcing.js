// What a screen reader says: each finished message, once

const ANNOUNCED_MILLISECONDS = 10_000; // then it is read where it stands

const openPanels = new Set(); // of one chat: each model has a module of its own

class Announcer {
  constructor(panel) {
    this.panel = panel;
    this.heard = []; // what came with this batch
    openPanels.add(panel);
    panel.undo.push(() => openPanels.delete(panel));
  }

  // What a person said is not news to them, and a call's course is told as the status.
  hear(item) {
    if (item) this.heard.push(item.matches(".nbc-line") ? item.firstElementChild : item);
  }

  // Once a batch, and after it is drawn: to ask what is in sight lays out the page.
  tell() {
    const texts = this.heard.splice(0).map(spoken).filter(Boolean);
    if (texts.length) setTimeout(() => this.isSpeaker() && this.speak(texts));
  }

  speak(texts) {
    const told = texts.map((text) => tag("p", "", {}, text));
    this.panel.parts.announcements.append(...told);
    setTimeout(() => told.forEach((each) => each.remove()), ANNOUNCED_MILLISECONDS);
  }

  // Of several views of a chat one speaks: that with the focus, or the first in sight.
  isSpeaker() {
    const views = [...openPanels].filter((panel) => panel.parts.root.getClientRects().length);
    const focused = views.find((panel) => panel.parts.root.contains(document.activeElement));
    return (focused ?? views[0]) === this.panel;
  }
}

function spoken(item) {
  if (item.matches(".nbc-assistant")) return `Assistant: ${answerText(item)}`;
  if (item.matches(".nbc-banner[data-state='running']")) return "";
  if (item.matches(".nbc-banner")) {
    const told = item.querySelectorAll(".nbc-banner-title, .nbc-banner-figures");
    return [...told].map((part) => part.textContent).join(": ");
  }
  return item.matches(".nbc-note, .nbc-notice, .nbc-error") ? item.textContent : "";
}

function answerText(item) {
  const copy = item.cloneNode(true);
  copy.querySelectorAll("button, .nbc-language").forEach((part) => part.remove());
  const blocks = copy.querySelectorAll(".nbc-md > *, .nbc-cut");
  return [...blocks].map((block) => block.textContent.trim()).join("\n");
}
