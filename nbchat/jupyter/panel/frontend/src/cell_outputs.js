// The outputs of a cell for the model: text, errors, and pictures small enough to send.
// HTML is read in an inert document, and pictures are drawn and scaled here.

import { drawsElsewhere, isScripted, plotLine } from "./plots.js";
import { all, boxOf } from "./dom.js";

/** @import { Output } from "./notebook.js" */
/** @import * as Protocol from "../protocol.js" */

const TEXT_CHARACTERS = 50_000; // of one output
const ALL_CHARACTERS = 100_000; // of all outputs of a cell
const MOST_OUTPUTS = 1000; // of a cell; its first and last
const TITLE_CHARACTERS = 2_000; // an error's message
const LINE_CHARACTERS = 300; // about a plot
const LONGEST_SIDE = 1568; // pixels; models scale larger pictures down
const PICTURE_CHARACTERS = 700_000; // of base64, so that a message stays below 1 MB
const SMALLEST_DRAWN = 40; // pixels of a plot; smaller shapes are icons

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"];
const READABLE = ["text/latex", "text/markdown", "application/json"];
const WIDGET = "application/vnd.jupyter.widget-view+json";
const BARE = /^(<[\w.]+( object)?( at 0x[0-9a-f]+)?>|alt\.\w+\(\.\.\.\))?$/; // says nothing of its value

const CONTROLS = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\))/g; // a terminal's colours, cursor moves and links

/** @param {Output[]} outputs @param {Element | undefined} shown the cell in the page
 * @returns {Protocol.CellOutput[]}
 */
export function described(outputs, shown) {
  const drawn = all(shown, ".jp-OutputArea-child");
  return bounded(outputs.map((output, place) => read(output, drawn[place])));
}

/** @param {Output} output @param {Element | undefined} shown @returns {Protocol.CellOutput} */
function read({ output_type: type, text, data = {}, ename, evalue, traceback }, shown) {
  if (type === "stream") return { kind: "text", data: plain(joined(text)), title: "" };
  if (type === "error") {
    const title = [ename, evalue].filter(Boolean).join(": ");
    return { kind: "error", data: plain(joined(traceback, "\n")) || title, title };
  }
  const about = plotLine(data);
  if (PICTURES.some((each) => data[each])) return { kind: "picture", data: about, title: "" };
  const said = about || (data[WIDGET] ? widgetText(data, shown) : textOf(data));
  if (isPlot(data, shown)) return { kind: "picture", data: BARE.test(said) ? "" : oneLine(said), title: "" };
  return { kind: "text", data: about ? `[not drawn: ${about}]` : said || unreadable(data), title: "" };
}

/** HTML, widgets and other kinds that the page has drawn as a canvas or SVG
 * @param {NonNullable<Output["data"]>} data @param {Element | undefined} shown
 */
function isPlot(data, shown) {
  const mayDraw = BARE.test(joined(data["text/plain"])) || isScripted(data) || data[WIDGET];
  return Boolean(mayDraw && shapes(shown).length);
}

/** True while the page is about to draw a plot of a cell: where it has the plot's library,
 * or a script is still loading.
 * @param {Output[]} outputs @param {Element | undefined} shown the cell @param {boolean} isLoading
 */
export function isDrawing(outputs, shown, isLoading) {
  const areas = all(shown, ".jp-OutputArea-child");
  const isDrawn = (/** @type {Element | undefined} */ area) => shapes(area).length > 0;
  if (shown && outputs.some(({ data = {} }) => drawsElsewhere(data)) && !areas.some(isDrawn)) return true;
  return areas.some((area, place) => {
    const { data = {} } = outputs[place] ?? {};
    if (data[WIDGET] && !isFilled(area)) return true;
    if (!isScripted(data) || isDrawn(area)) return false;
    return isLoading || isOfLibrary(area.querySelector(".jp-OutputArea-output"));
  });
}

/** What the page draws by an extension of its own, not as text or HTML in place of the plot
 * @param {Element | null} output
 */
function isOfLibrary(output) {
  const kind = /** @type {HTMLElement | null} */ (output)?.dataset.mimeType; // only of what JupyterLab draws itself
  return Boolean(output) && (!kind || isScripted({ [kind]: {} }));
}

/** @param {NonNullable<Output["data"]>} data */
function textOf(data) {
  const text = joined(data["text/plain"]);
  const html = joined(data["text/html"]);
  if (/<table/i.test(html) || (html && BARE.test(text))) return htmlText(html) || text;
  const readable = READABLE.find((each) => data[each] !== undefined);
  if (!readable || !BARE.test(text)) return text;
  const value = data[readable];
  return typeof value === "object" && !Array.isArray(value) ? JSON.stringify(value) : joined(value);
}

/** A widget as its cell has put it out, and the text that it shows now; but not a chat's
 * @param {NonNullable<Output["data"]>} data @param {Element | undefined} shown
 */
function widgetText(data, shown) {
  const isOther = shown && isFilled(shown) && !shown.querySelector(".nbc");
  const now = isOther ? /** @type {HTMLElement} */ (shown).innerText.trim() : "";
  return `[widget] ${joined(data["text/plain"])}${now && `\nshows: ${now.replace(/\s*\n\s*/g, " | ")}`}`;
}

/** False while a widget is being loaded, which the page says in plain text
 * @param {Element} area
 */
function isFilled(area) {
  return Boolean(area.querySelector(".jp-OutputArea-output *"));
}

/** What has no text and was not drawn, as a plot of Plotly without the network
 * @param {NonNullable<Output["data"]>} data
 */
function unreadable(data) {
  if (drawsElsewhere(data)) return "";
  const kinds = Object.keys(data).filter((kind) => kind !== "text/plain" && kind !== "application/javascript");
  return kinds.length ? `[no text: ${kinds.join(", ")}]` : "";
}

/** The text of HTML, tables as rows
 * @param {string} html
 */
function htmlText(html) {
  const page = new DOMParser().parseFromString(html, "text/html"); // runs and loads nothing
  for (const each of all(page, "script, style, template, noscript")) each.remove();
  for (const table of page.querySelectorAll("table")) table.replaceWith(`\n${rows(table)}\n`);
  for (const block of all(page, "p, div, li, br, h1, h2, h3, h4, pre")) block.after("\n");
  return (page.body.textContent ?? "").replace(/[ \t]*\n\s*/g, "\n").trim();
}

/** @param {HTMLTableElement} table */
function rows(table) {
  const lines = [...table.rows].map(({ cells }) => {
    const texts = [...cells].map((cell) => (cell.textContent ?? "").trim().replace(/\s+/g, " "));
    return `| ${texts.join(" | ")} |`;
  });
  return lines.join("\n");
}

/** Long texts by their start and end; errors have the most room.
 * @param {Protocol.CellOutput[]} outputs
 */
function bounded(outputs) {
  const removed = outputs.length - MOST_OUTPUTS;
  /** @type {Protocol.CellOutput} */
  const gap = { kind: "text", data: `[${removed.toLocaleString("en-US")} outputs removed]`, title: "" };
  const half = MOST_OUTPUTS / 2;
  const kept = removed > 0 ? [...outputs.slice(0, half), gap, ...outputs.slice(-half)] : outputs;
  const share = Math.min(TEXT_CHARACTERS, Math.ceil(ALL_CHARACTERS / kept.length));
  return kept.map(({ kind, data, title = "" }) => {
    const limit = kind === "error" ? TEXT_CHARACTERS : share;
    return { kind, data: cut(data, limit), title: cut(title, TITLE_CHARACTERS) };
  });
}

/** @param {string | string[] | object} [text] @param {string} [between] */
function joined(text, between = "") {
  return Array.isArray(text) ? text.join(between) : String(text ?? "");
}

/** @param {string} text */
function oneLine(text) {
  return text.slice(0, LINE_CHARACTERS).replace(/\s+/g, " ").trim();
}

/** @param {string} text */
function plain(text) {
  return text.replace(CONTROLS, "");
}

/** The start and the end: an error is at the end of a long output.
 * @param {string} text @param {number} limit
 */
function cut(text, limit) {
  if (text.length <= limit) return text;
  const half = Math.floor(limit / 2);
  const removed = (text.length - 2 * half).toLocaleString("en-US");
  return `${text.slice(0, half)}\n[${removed} characters removed]\n${text.slice(-half)}`;
}

/** A picture among the outputs in base64, scaled; throws where the page cannot draw it.
 * @param {Output | undefined} output @param {Element | undefined} shown
 */
export async function picture(output, shown) {
  const type = PICTURES.find((each) => output?.data?.[each]);
  const child = shown ?? undefined;
  if (!type) return sent(await photographed(child));
  const data = joined(output?.data?.[type]);
  const base64 = data.replaceAll("\n", "");
  const isSvg = type === "image/svg+xml";
  const drawn = await image(isSvg ? svgAddress(data) : `data:${type};base64,${base64}`);
  const isSmall = Math.max(drawn.naturalWidth, drawn.naturalHeight) <= LONGEST_SIDE;
  const isReady = ["image/png", "image/jpeg"].includes(type) && isSmall;
  return isReady && base64.length <= PICTURE_CHARACTERS ? base64 : sent(drawn);
}

/** @param {string} svg */
function svgAddress(svg) {
  return `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`; // an image runs no script
}

/** @param {string} address */
async function image(address) {
  const made = new Image();
  made.src = address;
  await made.decode();
  return made;
}

/** @param {HTMLImageElement | HTMLCanvasElement} drawn */
function sent(drawn) {
  const isImage = drawn instanceof HTMLImageElement;
  const width = (isImage ? drawn.naturalWidth : drawn.width) || 300;
  const height = (isImage ? drawn.naturalHeight : drawn.height) || 150;
  for (let side = LONGEST_SIDE; side > 100; side *= 0.75) {
    const scale = Math.min(1, side / Math.max(width, height));
    const canvas = onWhite(Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale)));
    canvas.getContext("2d")?.drawImage(drawn, 0, 0, canvas.width, canvas.height);
    for (const [type, quality] of /** @type {[string, number?][]} */ ([["image/png"], ["image/jpeg", 0.85]])) {
      const data = canvas.toDataURL(type, quality).split(",")[1] ?? "";
      if (data && data.length <= PICTURE_CHARACTERS) return data;
    }
  }
  throw Error("the page cannot draw this picture");
}

/** @param {number} width @param {number} height */
function onWhite(width, height) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.fillStyle = "white";
  context.fillRect(0, 0, width, height);
  return canvas;
}

/** The canvases and SVGs that an output shows, also in shadow trees
 * @param {Element | ShadowRoot | undefined} root
 * @returns {(HTMLCanvasElement | SVGSVGElement)[]}
 */
function shapes(root) {
  const found = all(root, "*").flatMap((each) => {
    const isOutermost = each instanceof SVGSVGElement && !each.parentElement?.closest("svg");
    if (each instanceof HTMLCanvasElement || isOutermost) return [each];
    return each.shadowRoot ? shapes(each.shadowRoot) : [];
  });
  return found.filter((each) => {
    const { width, height } = boxOf(each);
    return Math.min(width, height) >= SMALLEST_DRAWN;
  });
}

/** What an output shows, drawn again on one canvas
 * @param {Element | undefined} shown
 */
async function photographed(shown) {
  const parts = shapes(shown).map((part) => ({ part, box: boxOf(part) }));
  if (!parts.length) throw Error("the page does not show this picture");
  const left = Math.min(...parts.map(({ box }) => box.left));
  const top = Math.min(...parts.map(({ box }) => box.top));
  const right = Math.max(...parts.map(({ box }) => box.right));
  const bottom = Math.max(...parts.map(({ box }) => box.bottom));
  const canvas = onWhite(Math.ceil(right - left), Math.ceil(bottom - top));
  for (const { part, box } of parts) {
    const drawn = part instanceof HTMLCanvasElement ? part : await image(svgAddress(written(part, box)));
    canvas.getContext("2d")?.drawImage(drawn, box.left - left, box.top - top, box.width, box.height);
  }
  return canvas;
}

/** @param {SVGSVGElement} svg @param {DOMRect} box */
function written(svg, box) {
  const copy = /** @type {SVGSVGElement} */ (svg.cloneNode(true));
  copy.setAttribute("width", String(box.width));
  copy.setAttribute("height", String(box.height));
  return new XMLSerializer().serializeToString(copy);
}
