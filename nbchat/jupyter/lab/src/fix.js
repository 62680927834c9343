// A button on each error that a cell shows, which brings this error to the chat.

import { element } from "./view.js";

const ERROR = "application/vnd.jupyter.error"; // JupyterLab draws errors as stderr
const STDERR = "application/vnd.jupyter.stderr";
const BEFORE_STDERR = 100; // whose rank is 110
const COLOURS = /\x1b\[[0-9;]*m/g;

/** @param {RenderMimeRegistry} rendermime @param {(traceback: string, button: HTMLElement) => void} fix */
export function addFixButtons(rendermime, fix) {
  const stderr = rendermime.getFactory(STDERR);
  if (!stderr) return;
  rendermime.addFactory(
    {
      safe: true,
      mimeTypes: [ERROR],
      createRenderer: (options) => {
        const renderer = stderr.createRenderer({ ...options, mimeType: STDERR });
        const draw = renderer.renderModel.bind(renderer);
        renderer.renderModel = async (model) => {
          await draw(model);
          renderer.node.append(fixButton((button) => fix(textOf(model.data[ERROR]), button)));
        };
        return renderer;
      },
    },
    BEFORE_STDERR,
  );
}

/** @param {(button: HTMLElement) => void} fix */
function fixButton(fix) {
  const made = element("button", { className: "nbchat-fix", type: "button", title: "Ask the chat to fix this error" }, "Fix");
  made.addEventListener("click", () => fix(made));
  return made;
}

/** @param {any} error As in a notebook's file */
function textOf({ ename, evalue, traceback = [] }) {
  return (traceback.join("\n") || `${ename}: ${evalue}`).replace(COLOURS, "");
}
