import assert from "node:assert/strict";
import { test } from "node:test";

const source = new URL("../../../../nbchat/jupyter/panel/frontend/src/", import.meta.url);
const { described, isDrawing } = await import(new URL("cell_outputs.js", source));
const { plotLine } = await import(new URL("plots.js", source));

const output = (data) => ({ output_type: "display_data", data });

test("an output that has no text and was not drawn is named in a line", () => {
  const outputs = [
    output({ "application/vnd.plotly.v1+json": { data: [] } }),
    output({ "application/javascript": "load()", "application/vnd.bokehjs_exec.v0+json": "" }),
    output({ "application/vnd.vegalite.v5+json": {}, "text/plain": "alt.Chart(...)" }),
    output({ "application/vnd.jupyter.widget-view+json": {}, "text/plain": "IntSlider(value=0)" }),
  ];
  const texts = ["[not drawn: Plotly plot]", "", "[not drawn: Vega plot]", "[widget] IntSlider(value=0)"];
  assert.deepEqual(described(outputs).map(({ data }) => data), texts);
});

test("a plot is waited for only while the page is about to draw it", () => {
  Object.assign(globalThis, { SVGSVGElement: class {}, HTMLCanvasElement: class { getBoundingClientRect = () => ({ width: 90, height: 90 }) } });
  const area = (mimeType, ...drawn) => ({ querySelector: () => ({ dataset: { mimeType } }), querySelectorAll: () => drawn });
  const cell = (...areas) => ({ querySelectorAll: () => areas });
  const script = [output({ "text/html": "<script>console.log(1)</script>" })];
  const vega = [output({ "application/vnd.vegalite.v5+json": {}, "text/plain": "alt.Chart(...)" })];
  const canvas = new HTMLCanvasElement();
  assert.equal(isDrawing(script, cell(area("text/html")), false), false); // it may never draw
  assert.equal(isDrawing(script, cell(area("text/html")), true), true);
  assert.equal(isDrawing(script, cell(area("text/html", canvas)), true), false);
  assert.equal(isDrawing(vega, cell(area(undefined)), false), true); // by an extension of the page
  assert.equal(isDrawing(vega, cell(area("text/plain")), false), false); // which has none for it
  assert.equal(isDrawing(vega, cell(area(undefined, canvas)), false), false);
  const bokeh = [output({ "text/html": "<div></div>" }), output({ "application/javascript": "", "application/vnd.bokehjs_exec.v0+json": "" })];
  assert.equal(isDrawing(bokeh, cell(area("text/html"), area("application/javascript")), false), true);
  assert.equal(isDrawing(bokeh, cell(area("text/html", canvas), area("application/javascript")), false), false);
  assert.equal(isDrawing(vega, undefined, true), false); // no page shows the cell
});

test("a plot says in one line what it shows, whatever is in it", () => {
  const line = (kind, spec, more = {}) => plotLine({ [`application/vnd.${kind}`]: spec, ...more });
  const title = { text: "Sales\n by  month" };
  const series = [{ type: "bar", name: "north" }, { name: "south" }, null];
  const layout = { title, xaxis: { title: "month" }, yaxis2: { title: { text: "sum" } }, zaxis: null };
  const plotly = 'Plotly plot, "Sales by month", x month, y2 sum, bar "north", scatter "south", scatter';
  assert.equal(line("plotly.v1+json", { data: series, layout }), plotly);
  const encoding = { x: { field: "month" }, y: { field: "sum", aggregate: "mean" }, color: 3 };
  const chart = { title, hconcat: [{ mark: "bar", encoding }, { layer: [{ mark: { type: "line" } }, null] }] };
  const vega = 'Vega plot, "Sales by month", bar of x month, y mean(sum), line';
  assert.equal(line("vegalite.v5+json", chart), vega);
  const written = `<script>(function(spec){\n})(${JSON.stringify(chart)}, {"mode": "vega-lite"});</script>`;
  assert.equal(plotLine({ "text/html": written }), vega);
  assert.equal(line("vega.v5+json", { marks: [{ type: "rect" }, {}], axes: [{ title: "year" }] }), "Vega plot, rect, axis year");
  assert.equal(line("holoviews_exec.v0+json", "", { "text/html": "<div>", "text/plain": ":Curve   [x]   (y)" }), "HoloViews plot, :Curve [x] (y)");
  assert.equal(line("plotly.v1+json", null), "Plotly plot");
  assert.equal(plotLine({ "text/html": '})({x, {"mode": "vega-lite"' }), "");
  const long = Array.from({ length: 500 }, (_, n) => ({ name: `${n}`.repeat(5000) }));
  assert.equal(line("plotly.v1+json", { data: long }).length, 300);
});
