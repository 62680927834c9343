// The panel in the right side bar, which shows the chat of the notebook one works in.

import { NotebookActions } from "@jupyterlab/notebook";
import { CommandRegistry } from "@lumino/commands";
import { Panel, Widget } from "@lumino/widgets";
import { ChatView } from "./view.js";

const NO_NOTEBOOK = "Open a notebook to chat about it.";

export class Side extends Panel {
  /** @param {App} app @param {Tracker} tracker @param {unknown} icon @param {string} toggle */
  constructor(app, tracker, icon, toggle) {
    super();
    this.app = app;
    this.tracker = tracker;
    /** @type {Map<NotebookPanel, ChatView>} */
    this.views = new Map();
    this.id = "nbchat-side";
    this.addClass("nbchat-side");
    Object.assign(this.title, { icon, caption: "Chat" });
    this.none = new Widget({ node: document.createElement("p") });
    this.none.addClass("nbchat-note");
    this.none.node.textContent = NO_NOTEBOOK;
    this.addWidget(this.none);
    tracker.widgetAdded.connect((_, notebook) => this.add(notebook));
    tracker.currentChanged.connect(() => this.follow());
    tracker.forEach((notebook) => this.add(notebook));
    NotebookActions.executed.connect((_, { notebook }) => {
      for (const [{ content }, view] of this.views) if (content === notebook) view.cellRan();
    });
    this.node.addEventListener("keydown", (event) => this.toggleBy(event, toggle), true);
    this.follow();
  }

  /** @param {NotebookPanel} notebook */
  add(notebook) {
    const view = new ChatView(notebook, this.app.commands);
    view.hide();
    this.views.set(notebook, view);
    view.disposed.connect(() => {
      this.views.delete(notebook);
      this.follow();
    });
    this.addWidget(view);
    this.follow();
  }

  get current() {
    const { currentWidget } = this.tracker;
    return currentWidget ? this.views.get(currentWidget) : undefined;
  }

  follow() {
    const { current } = this;
    for (const view of this.views.values()) if (view !== current) view.hide();
    if (current) this.none.hide();
    else this.none.show();
    current?.show();
  }

  /** @param {object} message */
  onActivateRequest(message) {
    super.onActivateRequest(message);
    this.current?.focus();
  }

  // The panel keeps its keys from the notebook's shortcuts, but not the one that closes it.
  /** @param {KeyboardEvent} event @param {string} toggle */
  toggleBy(event, toggle) {
    const stroke = CommandRegistry.keystrokeForKeydownEvent(event);
    /** @param {KeyBinding} binding */
    const isToggle = ({ command, keys }) => command === toggle && keys.length === 1 && keys[0] === stroke;
    if (!this.app.commands.keyBindings.some(isToggle)) return;
    event.preventDefault();
    event.stopPropagation();
    void this.app.commands.execute(toggle);
  }
}
