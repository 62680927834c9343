import assert from "node:assert/strict";
import { test } from "node:test";

const source = new URL("../../../../nbchat/jupyter/panel/frontend/src/", import.meta.url);
const { described } = await import(new URL("cell_outputs.js", source));

const output = (data) => ({ output_type: "display_data", data });

test("an output that has no text and was not drawn is named in a line", () => {
  const outputs = [
    output({ "application/vnd.plotly.v1+json": { data: [] } }),
    output({ "application/javascript": "load()" }),
    output({ "application/vnd.vegalite.v5+json": {}, "text/plain": "alt.Chart(...)" }),
    output({ "application/vnd.jupyter.widget-view+json": {}, "text/plain": "IntSlider(value=0)" }),
  ];
  const texts = ["[no text: application/vnd.plotly.v1+json]", "", "alt.Chart(...)", "[widget] IntSlider(value=0)"];
  assert.deepEqual(described(outputs).map(({ data }) => data), texts);
});
