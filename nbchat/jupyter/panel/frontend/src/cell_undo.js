// A cell as it is before the model changes it, and how a person's undo restores it.

/** @import { NotebookCells, Output } from "./notebook.js" */
/** @import * as Protocol from "../protocol.js" */

import { all, button } from "./dom.js";
import { attachmentsOf } from "./notebook.js";

const OUTPUT_CHARACTERS = 100_000; // of a cell's text outputs
const ATTACHED_CHARACTERS = 500_000; // of the pictures in a text cell, so that a message stays below 1 MB
const UNDO = "Undo changes of this turn";
const UNDO_HELP = "Restore the cells as they were before this turn. Your own edits since then stay.";

/** @param {NotebookCells} notebook @param {number} index @returns {Protocol.KeptCell} */
export function kept({ cells, known }, index) {
  const { id, cell_type: kind, source } = cells[index];
  const outputs = known.cells.get(index).outputs?.toJSON() ?? [];
  const texts = outputs.map(textOf).filter((each) => each !== null);
  let size = 0;
  const fitting = texts.filter((each) => (size += JSON.stringify(each).length) <= OUTPUT_CHARACTERS);
  const attachments = JSON.stringify(attachmentsOf(cells[index]));
  const isWhole = attachments.length <= ATTACHED_CHARACTERS;
  return {
    id,
    number: index + 1,
    kind,
    source,
    metadata: JSON.stringify(cells[index].getMetadata()),
    attachments: isWhole ? attachments : "{}",
    outputs: JSON.stringify(fitting),
    above: cells[index - 1]?.id ?? "",
    below: cells[index + 1]?.id ?? "",
    left_out: outputs.filter(isPicture).length + texts.length - fitting.length + Number(!isWhole),
  };
}

/** The place of the restored cell; -1 where it is gone again
 * @param {NotebookCells} notebook @param {Protocol.Notebook} asked
 */
export function restore(notebook, asked) {
  const { change, cell = "", expected = null, after } = asked;
  if (!notebook.model) throw Error("This notebook is read-only.");
  const index = notebook.find(cell);
  const present = index < 0 ? null : notebook.cells[index].source;
  if (present !== expected) throw Error("The cell has changed meanwhile. Try again.");
  const { sharedModel } = notebook.known;
  if (change === "delete") sharedModel.deleteCell(index);
  if (change === "delete") return -1;
  if (change === "insert") return insert(notebook, asked);
  replace(notebook, index, asked);
  if (after === undefined) return index;
  const above = notebook.find(after);
  const to = above < index ? above + 1 : above;
  if (to !== index && (above >= 0 || !after)) sharedModel.moveCells(index, to);
  return notebook.find(cell);
}

/** With its own id, below the cell that it was below, or else at the end
 * @param {NotebookCells} notebook @param {Protocol.Notebook} asked
 */
function insert(notebook, { cell: id = "", kind = "code", source = "", metadata = "{}", attachments = "{}", outputs = "[]", after }) {
  const above = notebook.find(after);
  const index = above < 0 && after ? notebook.cells.length : above + 1;
  const isCode = kind === "code";
  const more = isCode ? { outputs: JSON.parse(outputs), execution_count: null } : { attachments: JSON.parse(attachments) };
  const cell = { id, cell_type: kind, source, metadata: JSON.parse(metadata), ...more };
  notebook.known.sharedModel.insertCell(index, cell);
  return index;
}

/** Outputs that are still as they were keep their pictures.
 * @param {NotebookCells} notebook @param {number} index @param {Protocol.Notebook} asked
 */
function replace(notebook, index, { kind = "code", source = "", metadata = "{}", attachments = "{}", outputs = "[]" }) {
  notebook.convert(index, kind);
  const cell = notebook.cells[index];
  if (!Object.keys(attachmentsOf(cell)).length) cell.setAttachments?.(JSON.parse(attachments));
  cell.updateSource(0, cell.source.length, source);
  if (JSON.stringify(cell.getMetadata()) !== metadata) cell.setMetadata(JSON.parse(metadata));
  const shown = notebook.known.cells.get(index).outputs;
  if (!shown || kept(notebook, index).outputs === outputs) return;
  shown.clear();
  JSON.parse(outputs).forEach((/** @type {Output} */ each) => shown.add(each));
}

/** An output with its text alone; null where it has none
 * @param {Output} output
 */
function textOf(output) {
  if (!output.data) return output;
  const text = output.data["text/plain"];
  return text === undefined ? null : { output_type: "display_data", data: { "text/plain": text }, metadata: {} };
}

/** @param {Output} output */
function isPicture({ data = {} }) {
  return !("text/plain" in data) && Object.keys(data).length > 0 || Object.keys(data).some((each) => each.startsWith("image/"));
}

/** The buttons of the line under a turn that changed cells
 * @param {HTMLElement} line
 */
export function addUndo(line) {
  if (!line.matches(".nbc-cells")) return;
  if ("undo" in line.dataset) line.querySelector(".nbc-cells-note")?.before(button("nbc-undo-cells", UNDO, UNDO_HELP), " ");
  all(line, "details[data-cell]").forEach((each) => {
    const name = "added" in /** @type {HTMLElement} */ (each).dataset ? "Delete anyway" : "Restore anyway";
    each.append(button("nbc-undo-cells", name, "Your own edits to this cell are lost. The notebook's undo brings them back."));
  });
}
