// Words, elements and scales that all pictures share.
//
// Text of a run enters the page only as text, never as HTML.  The colours, of Okabe and Ito, of the
// map cividis and from blue over white to orange, are colour-blind safe; style.css has them for light
// and dark schemes.

const SVG = "http://www.w3.org/2000/svg";
const BLUE = "var(--blue)", ORANGE = "var(--orange)", VERMILLION = "var(--vermillion)";
const GREY = "var(--soft)", INK = "var(--ink)", GRID = "var(--grid)";
const NOTHING = 1e-13; // seconds; smaller values are rounding errors of differences
const CIVIDIS = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115],
  [138, 134, 120], [165, 156, 116], [195, 179, 105], [225, 204, 85], [254, 232, 56]];

const DIVERGING = [[0, 68, 122], [86, 160, 206], [243, 243, 240], [230, 140, 60], [150, 55, 0]];

// ---- words ----------------------------------------------------------------------------------

function seconds(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "";
  const size = Math.abs(x);
  if (size < NOTHING) return "0 s";
  const units = [[1, "s"], [1e-3, "ms"], [1e-6, "\u00b5s"], [1e-9, "ns"]];
  const [scale, unit] = units.find(([u]) => size >= 0.9995 * u) || units[3];
  return `${short(x / scale)} ${unit}`;
}

function short(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "";
  return Math.abs(x) >= 1000 ? Math.round(x).toLocaleString("en") : String(Number(x.toPrecision(3)));
}

function bytes(n) {
  for (const [scale, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (n >= scale) return `${short(n / scale)} ${unit}`;
  }
  return `${n} B`;
}

const count = (n, word) => `${short(n)} ${word}${n === 1 ? "" : "s"}`;

// ---- elements -------------------------------------------------------------------------------

function element(name, attributes = {}, ...children) {
  const out = document.createElement(name);
  return filled(out, attributes, children);
}

function svg(name, attributes = {}, ...children) {
  const out = document.createElementNS(SVG, name);
  return filled(out, attributes, children);
}

function filled(out, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) out.setAttribute(key, String(value));
  }
  for (const child of children) {
    out.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return out;
}

// A table without its empty columns.  isText(i): whether column i has texts, which are aligned left.
function table(columns, rows, isText = (i) => i < 1) {
  const used = columns.map((_, i) => i).filter((i) => rows.some((row) => row[i] !== ""));
  const kind = (i) => (isText(i) ? { class: "text" } : {});
  return element("table", {},
    element("thead", {}, element("tr", {},
      ...used.map((i) => element("th", { scope: "col", ...kind(i) }, columns[i])))),
    element("tbody", {}, ...rows.map((row) => element("tr", {},
      ...used.map((i) => element("td", kind(i), row[i]))))));
}

const factsOf = (facts) => element("dl", { class: "facts" }, ...facts.map(([name, value]) =>
  element("div", {}, element("dt", {}, name), element("dd", {}, value))));

// A text, a straight line and a filled triangle that points down.
const text = (x, y, said, anchor = null, more = {}) =>
  svg("text", { x, y, "text-anchor": anchor, ...more }, said);
const line = (x1, y1, x2, y2, stroke, more = {}) => svg("line", { x1, y1, x2, y2, stroke, ...more });
const triangle = (x, y, w, h) => svg("path", { d: `M${x},${y}l-${w},-${h}h${2 * w}z`, fill: INK });

function scrolling(label, table) {
  return element("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" },
    table);
}

// ---- numbers and scales ---------------------------------------------------------------------------------

// The numbers that a message has as base64, little endian; Kind: Uint8Array, Uint16Array, ...
const numbers = (code, Kind) =>
  new Kind(Uint8Array.from(atob(code), (c) => c.charCodeAt(0)).buffer);

// About `most` round numbers from a to b.
function ticks(a, b, most, whole = false) {
  const span = b - a;
  if (!(span > 0)) return [a];
  let step = 10 ** Math.floor(Math.log10(span / most));
  for (const factor of [1, 2, 5, 10]) {
    if (span / (step * factor) <= most) { step *= factor; break; }
  }
  if (whole) step = Math.max(1, Math.round(step));
  const out = [];
  for (let i = Math.ceil(a / step - 1e-9); i * step <= b + 1e-9 * span; i += 1) out.push(i * step);
  return out;
}

function between(colours, t) {
  const x = Math.min(Math.max(t, 0), 1) * (colours.length - 1);
  const i = Math.min(Math.floor(x), colours.length - 2), f = x - i;
  return colours[i].map((c, k) => Math.round(c + f * (colours[i + 1][k] - c)));
}

const cividis = (t) => between(CIVIDIS, t), diverging = (t) => between(DIVERGING, t);

const rgb = (c) => `rgb(${c[0]},${c[1]},${c[2]})`;
const packed = ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r; // a pixel of an ImageData
