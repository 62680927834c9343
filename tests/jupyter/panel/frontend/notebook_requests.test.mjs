import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

// Enough of a page for modules that draw nothing here
const element = () => ({ hidden: true, append() {}, setAttribute() {}, replaceChildren() {}, addEventListener() {}, closest: () => null, querySelectorAll: () => [] });
Object.assign(globalThis, {
  window: globalThis,
  document: { ...element(), createElement: element, querySelector: () => null, getElementById: () => null, scripts: [] },
  requestAnimationFrame: (react) => setTimeout(react),
  addEventListener() {},
});
for (const name of ["HTMLElement", "SVGSVGElement", "HTMLCanvasElement"]) globalThis[name] = class {};

const source = new URL("../../../../nbchat/jupyter/panel/frontend/src/", import.meta.url);
const { NotebookRequests } = await import(new URL("notebook_requests.js", source));
const { NotebookCells } = await import(new URL("notebook.js", source));

let cells, runs, interrupts, requests, sent, notebook;

function cell(id, cell_type, source, metadata = {}) {
  const updateSource = function (start, end, text) {
    this.source = this.source.slice(0, start) + text + this.source.slice(end);
  };
  return { id, cell_type, source, getMetadata: () => metadata, updateSource, outputs: [], count: null };
}

function viewOf(cell) {
  const outputs = {
    add: (output) => cell.outputs.push(output),
    clear: () => (cell.outputs.length = 0),
    toJSON: () => cell.outputs,
    get: (index) => ({ type: cell.outputs[index].output_type }),
    get length() {
      return cell.outputs.length;
    },
  };
  return (cell.view ??= { sharedModel: cell, outputs, executionCount: null, executionState: "idle", isDisposed: false });
}

// A kernel whose cells print how they end; one that waits is ended by runs[0].end
function requestExecute() {
  const run = runs.shift();
  const future = {};
  const over = run.status ? Promise.resolve() : new Promise((resolve) => (run.end = resolve));
  future.done = over.then(() => ({ content: { status: run.status ?? "error", execution_count: 4 } }));
  setTimeout(() => future.onIOPub({ header: { msg_type: "stream" }, content: { name: "stdout", text: run.text } }));
  const drawn = new Promise((resolve) => setTimeout(resolve, 1));
  future.done = Promise.all([future.done, drawn]).then(([reply]) => reply);
  return future;
}

beforeEach(() => {
  cells = [cell("aaaaaaaa-1", "code", "x = 1"), cell("aaaaaaaa-2", "code", "y"), cell("bbbbbbbb-3", "markdown", "# hi")];
  [runs, interrupts, sent] = [[], 0, []];
  const sharedModel = {
    get cells() {
      return [...cells];
    },
    insertCell: (index, { id = `new${cells.length}`, cell_type, source, metadata }) => cells.splice(index, 0, cell(id, cell_type, source, metadata)),
    deleteCell: (index) => cells.splice(index, 1),
    moveCells: (from, to) => cells.splice(to, 0, ...cells.splice(from, 1)),
    transact: (change) => change(),
  };
  notebook = { sharedModel, readOnly: false, cells: { get: (index) => viewOf(cells[index]) } };
  const kernel = { interrupt: async () => interrupts++, requestExecute };
  const panel = {
    undo: [],
    onModel() {},
    send: (message) => sent.push(message),
    parts: { root: element(), running: element(), input: { value: "" } },
    model: { widget_manager: { context: { model: notebook, path: "a.ipynb" } } },
    link: { kernel },
    beside: { notebook: null },
  };
  panel.notebook = new NotebookCells(panel);
  requests = new NotebookRequests(panel);
});

async function ask(action, details = {}) {
  await requests.hear({ type: "notebook", action, view: requests.view, token: "t", ...details });
  return sent.at(-1);
}

function edit(change, details) {
  return ask("edit", { change, source: "", after: "", kind: "code", expected: null, is_trial: false, ...details });
}

const sources = () => cells.map((each) => `${each.cell_type} ${each.source}`);

test("a cell is found by the start of its id, never by a number", async () => {
  const { cells: found } = await ask("read", { cell: "bbbb" });
  assert.deepEqual([found[0].short, found[0].number, found[0].source], ["bbbbbbbb", 3, "# hi"]);
  assert.match((await ask("read", { cell: "aaaa" })).problem, /2 cells have an id that begins with aaaa/);
  assert.match((await ask("read", { cell: "2" })).problem, /cell 2 has the id aaaaaaaa-2 now/);
  assert.match((await ask("read", { cell: "9" })).problem, /there are 3 cells/);
  assert.match((await ask("read", { cell: "zz" })).problem, /no cell zz/);
  assert.equal((await edit("delete", {})).problem, "give the id of a cell");
});

test("cells are changed where they are as expected, and a trial changes nothing", async () => {
  await edit("replace", { cell: "aaaaaaaa-1", source: "x = 22", expected: "x = 1" });
  const { problem, cells: now } = await edit("replace", { cell: "aaaaaaaa-1", source: "z", expected: "x = 1" });
  assert.match(problem, /has changed since/);
  assert.equal(now[0].source, "x = 22");
  await edit("delete", { cell: "bbbb", is_trial: true });
  assert.deepEqual(sources(), ["code x = 22", "code y", "markdown # hi"]);
  await edit("replace", { cell: "aaaaaaaa-1", source: "*text*", kind: "markdown" });
  await edit("kind", { cell: "bbbb", kind: "raw" });
  await edit("insert", { source: "top" });
  await edit("move", { cell: "bbbb" });
  assert.deepEqual(sources(), ["raw # hi", "code top", "markdown *text*", "code y"]);
  assert.equal(cells[0].id, "bbbbbbbb-3");
  await edit("move", { cell: "bbbb", after: "aaaaaaaa-1" });
  await edit("delete", { cell: "new3" });
  assert.deepEqual(sources(), ["markdown *text*", "raw # hi", "code y"]);
  notebook.readOnly = true;
  assert.equal((await edit("delete", { cell: "bbbb" })).problem, "this notebook is read-only");
});

test("a page that can't reach the notebook says so at once, and is not found", async () => {
  requests.panel.model.widget_manager.context.model = null;
  assert.match((await ask("outline")).problem, /can't reach the notebook/);
  sent.length = 0;
  for (const silent of [ask("find"), ask("outline", { view: "another" })]) assert.equal(await silent, undefined);
});

test("a run that the kernel gave up behind a failed cell is made again", async () => {
  runs = [{ status: "aborted", text: "no" }, { status: "ok", text: "yes" }];
  const { cells: ran } = await ask("run", { cell: "aaaaaaaa-2" });
  assert.equal(ran[0].outputs.at(-1).data, "yes");
  assert.equal(ran[0].count, 4);
  const { problem, cells: text } = await ask("run", { cell: "bbbb" });
  assert.deepEqual([problem, text[0].kind], ["", "markdown"]); // nothing to run
});

test("a stop interrupts the cell that its turn has started, and only once", async () => {
  const run = { text: "begun" };
  runs = [run];
  const running = ask("run", { cell: "aaaaaaaa-2" });
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual((await ask("read", { cell: "aaaaaaaa-2" })).cells[0].states, ["running"]);
  requests.endTurn();
  requests.stopTurn(); // of another turn
  assert.equal(interrupts, 0);
  const stopped = [ask("interrupt"), ask("interrupt")];
  run.end();
  await Promise.all([running, ...stopped]);
  assert.equal(interrupts, 1);
  assert.match((await ask("interrupt")).problem, /no cell that you started/);
});

test("an outline of 5,000 cells and the outputs of a loud one stay far below 1 MB", async () => {
  cells = Array.from({ length: 5000 }, (_, n) => cell(`${n}-${"x".repeat(30)}`, "code", `value_${n} = ${"é".repeat(400)}\nsecond`));
  const outline = await ask("outline", { first: 4001 });
  assert.deepEqual([outline.cells.length, outline.total, outline.cells.at(-1).number], [1000, 5000, 5000]);
  assert.equal((await ask("outline", { search: "VALUE_4999" })).cells[0].number, 5000);
  const text = "é".repeat(10_000_000);
  cells[7].outputs.push({ output_type: "stream", text }, ...Array(5000).fill({ output_type: "stream", text: "n".repeat(500) }));
  const loud = await ask("read", { cell: cells[7].id });
  assert.equal(loud.cells[0].outputs[500].data, "[4,001 outputs removed]");
  for (const answer of [outline, loud]) assert.ok(Buffer.byteLength(JSON.stringify(answer)) < 700_000);
});
