// JupyterLab 4 and Notebook 7: the chat of a notebook beside it, opened by an icon. All
// that is said and drawn in it is the panel's, which the kernel sends as for `%chat`.

import { ILayoutRestorer } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { INotebookTracker } from "@jupyterlab/notebook";
import { IRenderMimeRegistry } from "@jupyterlab/rendermime";
import { LabIcon } from "@jupyterlab/ui-components";
import { addFixButtons } from "./fix.js";
import { Side } from "./side.js";

const TOGGLE = "nbchat:toggle";
const OPEN = "nbchat:open";
const ASK = "nbchat:ask-about-cell";

const ICON = new LabIcon({
  name: "nbchat:chat",
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24">
<path class="jp-icon3 jp-icon-selectable" fill="#616161" d="M5 3h14a3 3 0 0 1 3 3v9a3 3 0 0 1-3 3h-6.6L7 22.4V18H5a3 3 0 0 1-3-3V6a3 3 0 0 1 3-3zm0 2a1 1 0 0 0-1 1v9a1 1 0 0 0 1 1h4v2.3l2.7-2.3H19a1 1 0 0 0 1-1V6a1 1 0 0 0-1-1zm2 3h10v2H7zm0 3.5h7v2H7z"/></svg>`,
});

export default {
  id: "jupyter-nbchat:plugin",
  description: "A chat about the notebook, beside it.",
  autoStart: true,
  requires: [INotebookTracker, IRenderMimeRegistry],
  optional: [ICommandPalette, ILayoutRestorer],
  activate,
};

/**
 * @param {App} app
 * @param {Tracker} tracker
 * @param {RenderMimeRegistry} rendermime
 * @param {{ addItem(item: { command: string, category: string }): void } | null} palette
 * @param {{ add(widget: Side, name: string): void } | null} restorer Notebook 7 has none
 */
function activate(app, tracker, rendermime, palette, restorer) {
  const side = new Side(app, tracker, ICON, TOGGLE);
  app.shell.add(side, "right", { rank: 900 });
  restorer?.add(side, side.id);

  const open = () => app.shell.activateById(side.id);
  /** @param {{ text: string, error?: { traceback: string, source: string } }} message As `Composed` of the panel */
  const compose = (message) => {
    open();
    side.current?.whenDrawn((panel) => panel.dispatchEvent(new CustomEvent("nbchat-compose", { detail: message })));
  };

  app.commands.addCommand(TOGGLE, {
    label: "Chat About This Notebook",
    caption: "Open or close the chat beside the notebook",
    icon: ICON,
    execute: () => (side.isVisible ? app.shell.collapseRight() : open()),
  });
  app.commands.addCommand(OPEN, { label: "Open the Chat Beside the Notebook", execute: open });
  app.commands.addCommand(ASK, {
    label: "Ask About This Cell",
    caption: "Add this cell to a chat message",
    icon: ICON,
    execute: () => compose({ text: mentionOf(tracker.currentWidget?.content.activeCell) }),
    isEnabled: () => Boolean(tracker.currentWidget?.content.activeCell),
  });
  for (const command of [TOGGLE, ASK]) palette?.addItem({ command, category: "Notebook Chat" });
  addFixButtons(rendermime, (traceback, button) => {
    const cell = tracker.currentWidget?.content.activeCell; // a click selects it
    const source = cell?.node.contains(button) ? cell.model.sharedModel.source : "";
    compose({ text: "Fix this error.", error: { traceback, source } });
  });

  // A panel in a cell, and `%chat side`, ask for the place beside the notebook.
  document.body.dataset.nbchatSide = "";
  document.addEventListener("nbchat-side", open);
}

/** A cell that was run is attached with its output, another one is quoted.
 * @param {Cell | null | undefined} cell
 */
function mentionOf(cell) {
  if (!cell) return "";
  const { type, executionCount, sharedModel } = cell.model;
  if (type === "code" && executionCount) return `@cell:${executionCount} `;
  const language = type === "code" ? "python" : "markdown";
  return `\`\`\`${language}\n${sharedModel.source}\n\`\`\`\n\n`;
}
