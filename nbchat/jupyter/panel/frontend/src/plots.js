// Plots of Vega, Plotly and Bokeh: which outputs a page draws late, and one line that says
// what a plot shows, for models that see no pictures and pages that haven't drawn it.

const NAME_CHARACTERS = 60; // of a title or a column
const LINE_CHARACTERS = 300;
const PARTS = 8; // layers or series that are named

const LIBRARY = /^application\/vnd\.(vega|plotly|bokeh|holoviews)/;
const DRAWS_ELSEWHERE = /^application\/vnd\.\w+_(exec|load)\./;
const NAMES = /** @type {Json} */ ({ vega: "Vega", plotly: "Plotly", bokeh: "Bokeh", holoviews: "HoloViews" });
const ALTAIR = { before: "})({", after: ', {"mode": "vega-lite"' }; // around the plot in its HTML
const CHANNELS = ["x", "y", "color", "size", "theta", "row", "column", "facet"];

/** @typedef {Record<string, any>} Json Of a notebook's file: nothing is certain */

/** Output that a script draws, perhaps after the cell has ended
 * @param {Json} data By media type
 */
export function isScripted(data) {
  if (drawsElsewhere(data)) return false;
  return Object.keys(data).some((kind) => LIBRARY.test(kind)) || html(data).includes("<script");
}

/** A script that draws in the output above, as Bokeh's
 * @param {Json} data By media type
 */
export function drawsElsewhere(data) {
  return Object.keys(data).some((kind) => DRAWS_ELSEWHERE.test(kind)) && !html(data);
}

/** One line about a plot; empty if the output is none.
 * @param {Json} data By media type
 */
export function plotLine(data) {
  const kind = Object.keys(data).find((each) => LIBRARY.test(each)) ?? "";
  const spec = kind ? data[kind] : altair(html(data));
  if ((!kind && !spec) || drawsElsewhere(data)) return "";
  const library = LIBRARY.exec(kind)?.[1] ?? "vega";
  const told = library === "plotly" ? plotly(spec) : library === "vega" ? vega(spec) : [text(data["text/plain"])];
  return [`${NAMES[library]} plot`, ...told.filter(Boolean)].join(", ").slice(0, LINE_CHARACTERS);
}

/** @param {Json} data */
function html(data) {
  return [data["text/html"] ?? ""].flat().join("");
}

/** The plot in the HTML that Altair writes
 * @param {string} written @returns {Json | undefined}
 */
function altair(written) {
  const end = written.lastIndexOf(ALTAIR.after);
  const start = end < 0 ? -1 : written.lastIndexOf(ALTAIR.before, end);
  if (start < 0) return undefined;
  try {
    return JSON.parse(written.slice(start + ALTAIR.before.length - 1, end));
  } catch {
    return undefined;
  }
}

/** @param {Json} spec */
function vega(spec) {
  const marks = Array.isArray(spec?.marks) ? named(spec.marks.map((each) => text(each?.type)).filter(Boolean)) : "";
  const axes = list(spec?.axes).map((axis) => axis?.title && `axis ${text(axis.title)}`);
  return [quoted(spec?.title), marks, ...axes.slice(0, PARTS), ...views(spec).slice(0, PARTS)];
}

/** The marks of all layers and neighbours, each with the columns it shows
 * @param {Json} spec @param {number} [depth] @returns {string[]}
 */
function views(spec, depth = 0) {
  if (!spec || typeof spec !== "object" || depth > PARTS) return [];
  const inside = ["layer", "hconcat", "vconcat", "concat"].flatMap((key) => list(spec[key])).slice(0, PARTS);
  const shown = CHANNELS.map((channel) => encoded(channel, spec.encoding?.[channel])).filter(Boolean).join(", ");
  const mark = spec.mark ? text(spec.mark.type ?? spec.mark) : "";
  const own = [mark, shown].filter(Boolean).join(" of ");
  return [...(own ? [own] : []), ...[...inside, spec.spec].flatMap((each) => views(each, depth + 1))];
}

/** @param {string} channel @param {Json | undefined} encoding */
function encoded(channel, encoding) {
  const column = text(encoding?.field);
  const how = text(encoding?.aggregate);
  const what = text(encoding?.title) || (how && column ? `${how}(${column})` : how || column);
  return what && `${channel} ${what}`;
}

/** @param {Json} figure */
function plotly(figure) {
  const series = list(figure?.data).map((each) => `${text(each?.type) || "scatter"} ${quoted(each?.name)}`.trim());
  const layout = Object.entries(figure?.layout ?? {});
  const axes = layout.filter(([key, axis]) => /^[xyz]axis\d*$/.test(key) && axis?.title);
  const titles = axes.map(([key, { title }]) => `${key.replace("axis", "")} ${text(title.text ?? title)}`);
  return [quoted(figure?.layout?.title), ...titles.slice(0, PARTS), named(series)];
}

/** @param {string[]} names */
function named(names) {
  const more = names.length > PARTS ? [`${names.length - PARTS} more`] : [];
  return [...new Set(names.slice(0, PARTS)), ...more].join(", ");
}

/** @param {any} title */
function quoted(title) {
  const said = text(title?.text ?? title);
  return said && JSON.stringify(said);
}

/** @param {unknown} value */
function list(value) {
  return /** @type {Json[]} */ (Array.isArray(value) ? value : []);
}

/** @param {unknown} value */
function text(value) {
  const said = Array.isArray(value) ? value.filter((each) => typeof each === "string").join(" ") : value;
  return typeof said === "string" ? said.replace(/\s+/g, " ").trim().slice(0, NAME_CHARACTERS) : "";
}
