// The pictures of the report and of the explorer, in plain SVG and canvas.
//
// Text of a run enters the page only by textContent.  The colours, of Okabe and Ito and of the map
// cividis, are colour-blind safe.

const SVG = "http://www.w3.org/2000/svg";
const BLUE = "#0072B2", ORANGE = "#E69F00", VERMILLION = "#D55E00", GREY = "#666666";
const CIVIDIS = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115],
  [138, 134, 120], [165, 156, 116], [195, 179, 105], [225, 204, 85], [254, 232, 56]];

// ---- words ----------------------------------------------------------------------------------

function seconds(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "";
  const size = Math.abs(x);
  if (size === 0) return "0 s";
  const [scale, unit] = size >= 1 ? [1, "s"] : size >= 1e-3 ? [1e-3, "ms"]
    : size >= 1e-6 ? [1e-6, "\u00b5s"] : [1e-9, "ns"];
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

function table(columns, rows, textColumns = 1) {
  const kind = (i) => (i < textColumns ? { class: "text" } : {});
  return element("table", {},
    element("thead", {}, element("tr", {},
      ...columns.map((name, i) => element("th", { scope: "col", ...kind(i) }, name)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {},
      ...row.map((cell, i) => element("td", kind(i), cell))))));
}

// A text, a straight line and a filled triangle that points down.
const text = (x, y, said, anchor = null, more = {}) =>
  svg("text", { x, y, "text-anchor": anchor, ...more }, said);
const line = (x1, y1, x2, y2, stroke, more = {}) => svg("line", { x1, y1, x2, y2, stroke, ...more });
const triangle = (x, y, w, h) => svg("path", { d: `M${x},${y}l-${w},-${h}h${2 * w}z`, fill: "#000" });

// A table that scrolls within its box.
function scrolling(label, table) {
  return element("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" },
    table);
}

// ---- scales ---------------------------------------------------------------------------------

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

function cividis(t) {
  const x = Math.min(Math.max(t, 0), 1) * (CIVIDIS.length - 1);
  const i = Math.min(Math.floor(x), CIVIDIS.length - 2), f = x - i;
  return CIVIDIS[i].map((c, k) => Math.round(c + f * (CIVIDIS[i + 1][k] - c)));
}

const rgb = (c) => `rgb(${c[0]},${c[1]},${c[2]})`;

// How seconds become colours: 0 ... top; or by the logarithm of seconds / mean.
function colouring(picture, relative) {
  if (!relative) {
    return { at: (value) => value / (picture.top || 1), ticks: ticks(0, picture.top || 1, 4),
      label: "seconds of the rank", text: seconds };
  }
  let high = 2;
  picture.mean.forEach((mean, c) => {
    if (!(mean > 0)) return;
    for (let r = 0; r < picture.rows; r += 1) high = Math.max(high, cellAt(picture, r, c) / mean);
  });
  const low = 0.25, span = Math.log2(high) - Math.log2(low), marks = [];
  for (let k = -2; 2 ** k <= high; k += 1) marks.push(2 ** k);
  return { at: (value, mean) => (mean > 0 && value > 0
    ? (Math.log2(value / mean) - Math.log2(low)) / span : 0),
  place: (v) => (Math.log2(v) - Math.log2(low)) / span,
  ticks: marks, label: "time of the rank / mean", text: short };
}

function cellAt(picture, row, column) {
  return picture.cells[row * picture.columns + column] * picture.top / 65535;
}

// ---- the picture of a run -------------------------------------------------------------------

// Heat map of the ranks above, maximum and mean below, on one axis of iterations.  Pointing tells the
// load, a click goes to that iteration, dragging zooms in, a double click zooms out.
class RunPicture {
  constructor(host, on = {}) {
    this.on = on;
    this.relative = false;
    this.iteration = 0;
    this.chosen = null;
    this.canvas = element("canvas", { "aria-hidden": "true" });
    this.lines = svg("svg", { role: "img" });
    this.host = element("div", { class: "picture" }, this.canvas, this.lines);
    host.append(this.host);
    this.point();
    new ResizeObserver(() => this.draw()).observe(this.host);
    addEventListener("beforeprint", () => this.draw(680));
    addEventListener("afterprint", () => this.draw());
  }

  show(picture, decisions) {
    const same = this.picture && this.picture.n_iterations === picture.n_iterations;
    this.picture = picture;
    this.decisions = decisions;
    if (!same) this.range = [0, picture.n_iterations];
    this.iteration = Math.min(this.iteration, picture.n_iterations - 1);
    this.image = null;
    this.draw();
  }

  // Each cell of the heat map is a pixel of this image; drawing only scales it.
  paint() {
    const { rows, columns } = this.picture;
    this.colours = colouring(this.picture, this.relative);
    const image = new ImageData(columns, rows), known = new Uint32Array(image.data.buffer);
    const palette = new Uint32Array(256);
    for (let i = 0; i < 256; i += 1) {
      const [r, g, b] = cividis(i / 255);
      palette[i] = (255 << 24) | (b << 16) | (g << 8) | r;
    }
    const scale = this.picture.top / 65535;
    for (let r = 0; r < rows; r += 1) {
      for (let c = 0; c < columns; c += 1) {
        const t = this.colours.at(this.picture.cells[r * columns + c] * scale, this.picture.mean[c]);
        const level = Math.min(255, Math.max(0, Math.round(255 * t)));
        known[(rows - 1 - r) * columns + c] = palette[level]; // rank 0 below
      }
    }
    this.image = document.createElement("canvas");
    this.image.width = columns;
    this.image.height = rows;
    this.image.getContext("2d").putImageData(image, 0, 0);
  }

  draw(given = 0) {
    if (!this.picture) return;
    const width = given || this.host.clientWidth;
    if (width < 50) return;
    if (!this.image) this.paint();
    const left = 64, right = 96, heat = 190, gap = 34, line = 150, top = 18;
    this.box = { left, top, width: width - left - right, heat, below: top + heat + gap, line };
    const height = top + heat + gap + line + 40;
    this.lines.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.lines.setAttribute("height", height);
    this.lines.style.width = `${width}px`;
    this.drawHeat();
    this.lines.setAttribute("aria-label", this.described());
    this.lines.replaceChildren(...this.heatAxes(), ...this.legend(), ...this.lineChart(),
      ...this.marks());
    this.cursor = svg("g", { "pointer-events": "none" });
    this.lines.append(this.cursor);
    this.drawCursor();
  }

  described() {
    const p = this.picture, last = this.decisions.filter((d) => d.choice === "balance").length;
    return `Loads of ${p.n_ranks} ranks over ${p.n_iterations} iterations, up to `
      + `${seconds(p.top)}; ${last} LB steps listed below`;
  }

  drawHeat() {
    const b = this.box, p = this.picture, ratio = window.devicePixelRatio || 1;
    const c = this.canvas;
    c.style.left = `${b.left}px`;
    c.style.top = `${b.top}px`;
    c.style.width = `${b.width}px`;
    c.style.height = `${b.heat}px`;
    c.width = Math.round(b.width * ratio);
    c.height = Math.round(b.heat * ratio);
    const pen = c.getContext("2d");
    pen.imageSmoothingEnabled = false;
    const from = this.range[0] / p.iteration_step, to = this.range[1] / p.iteration_step;
    const skip = p.rows - p.n_ranks / p.rank_step; // of the last row, which may have fewer ranks
    pen.drawImage(this.image, from, skip, to - from, p.rows - skip, 0, 0, c.width, c.height);
  }

  x(iteration) {
    const [a, b] = this.range;
    return this.box.left + ((iteration - a) / (b - a)) * this.box.width;
  }

  heatAxes() {
    const b = this.box, p = this.picture, out = [];
    out.push(svg("rect", { x: b.left, y: b.top, width: b.width, height: b.heat, fill: "none",
      stroke: "#999" }));
    for (const rank of ticks(0, Math.max(p.n_ranks - 1, 1), 5, true)) {
      if (rank > p.n_ranks - 1) continue;
      const y = b.top + b.heat * (1 - (rank + 0.5) / p.n_ranks);
      out.push(text(b.left - 6, y + 4, short(rank), "end"));
    }
    const name = p.rank_step > 1 ? `rank (slowest of each ${p.rank_step})` : "rank";
    const y = b.top + b.heat / 2;
    out.push(text(14, y, name, "middle", { class: "title", transform: `rotate(-90 14 ${y})` }));
    return out;
  }

  legend() {
    const b = this.box, x = b.left + b.width + 16, n = 24, out = [];
    for (let i = 0; i < n; i += 1) {
      out.push(svg("rect", { x, y: b.top + (b.heat * (n - 1 - i)) / n, width: 12,
        height: b.heat / n + 0.5, fill: rgb(cividis((i + 0.5) / n)) }));
    }
    const place = this.colours.place || this.colours.at;
    for (const mark of this.colours.ticks) {
      const y = b.top + b.heat * (1 - place(mark));
      out.push(text(x + 16, y + 4, this.colours.text(mark)));
    }
    const middle = b.top + b.heat / 2;
    out.push(text(x + 74, middle, this.colours.label, "middle",
      { class: "title", transform: `rotate(90 ${x + 74} ${middle})` }));
    return out;
  }

  // Columns that are seen, and the middle of each on the axis.
  seen() {
    const p = this.picture, s = p.iteration_step, out = [];
    for (let c = 0; c < p.columns; c += 1) {
      const first = c * s, end = Math.min(first + s, p.n_iterations);
      if (end > this.range[0] && first < this.range[1]) out.push([c, (first + end) / 2]);
    }
    return out;
  }

  lineChart() {
    const b = this.box, p = this.picture, out = [];
    let seen = this.seen();
    if (seen.length === 1) seen = this.range.map((end) => [seen[0][0], end]); // a line, no point
    const high = Math.max(...seen.map(([c]) => Math.max(p.max[c], p.elapsed[c])), 0) * 1.05 || 1;
    this.y = (value) => b.below + b.line * (1 - Math.min(value / high, 1));
    const path = (values) => seen.map(([c, at], i) => `${i ? "L" : "M"}${this.x(at).toFixed(1)},`
      + this.y(values[c]).toFixed(1)).join("");
    const back = seen.slice().reverse().map(([c, at]) => `L${this.x(at).toFixed(1)},`
      + this.y(p.mean[c]).toFixed(1)).join("");
    for (const value of ticks(0, high, 4)) {
      const y = this.y(value);
      out.push(line(b.left, y, b.left + b.width, y, "#e6e6e6"),
        text(b.left - 6, y + 4, seconds(value), "end"));
    }
    const clip = `clip${RunPicture.count = (RunPicture.count || 0) + 1}`;
    out.push(svg("clipPath", { id: clip }, svg("rect", { x: b.left, y: b.below - 4,
      width: b.width, height: b.line + 8 })));
    out.push(svg("g", { "clip-path": `url(#${clip})` },
      svg("path", { d: `${path(p.max)}${back}Z`, fill: ORANGE, opacity: 0.22 }),
      svg("path", { d: path(p.elapsed), fill: "none", stroke: GREY, "stroke-width": 1,
        "stroke-dasharray": "2 2" }),
      svg("path", { d: path(p.max), fill: "none", stroke: VERMILLION, "stroke-width": 1.6 }),
      svg("path", { d: path(p.mean), fill: "none", stroke: BLUE, "stroke-width": 1.6,
        "stroke-dasharray": "6 3" }),
      ...this.fitted()));
    for (const i of ticks(this.range[0], this.range[1] - 1, 8, true)) {
      const x = this.x(i + 0.5), y = b.below + b.line;
      out.push(line(x, y, x, y + 4, "#999"), text(x, y + 16, short(i), "middle"));
    }
    const name = p.iteration_step > 1 ? `iteration (each ${p.iteration_step} as one)` : "iteration";
    out.push(text(b.left + b.width / 2, b.below + b.line + 32, name, "middle", { class: "title" }));
    return [...out, ...this.names()];
  }

  names() {
    const b = this.box, y = b.below - 10, out = [], narrow = b.width < 320;
    let x = narrow ? 0 : b.left;
    for (const [name, colour, dash, wide] of [["slowest rank", VERMILLION, null, 86],
      ["mean", BLUE, "6 3", 50], ["whole iteration", GREY, "2 2", 100]]) {
      out.push(line(x, y - 4, x + 20, y - 4, colour, { "stroke-width": 2, "stroke-dasharray": dash }),
        text(x + 25, y, name));
      x += 25 + wide - (narrow ? 11 : 0);
    }
    if (this.picture.balanced.length) out.push(triangle(x + 5, y, 5, 9), text(x + 15, y, "LB step"));
    return out;
  }

  // The lines that the trigger had fitted when it took the chosen decision.
  fitted() {
    const d = this.chosen, f = d && d.fit;
    if (!f || f.max_slope === null || f.max_offset === null) return [];
    const before = this.picture.balanced.filter((i) => i < d.iteration);
    const last = before.length ? before[before.length - 1] : -1;
    const fit = (slope, offset, colour) => line(this.x(last + 1.5), this.y(offset + slope),
      this.x(d.iteration + 0.5), this.y(offset + slope * (d.iteration - last)), colour,
      { "stroke-width": 3, opacity: 0.55 });
    return [fit(f.max_slope, f.max_offset, VERMILLION), fit(f.mean_slope, f.mean_offset, BLUE)];
  }

  marks() {
    const b = this.box, out = [], few = this.picture.balanced.length <= 24;
    for (const i of this.picture.balanced) {
      if (i + 1 < this.range[0] || i + 1 > this.range[1]) continue;
      const x = this.x(i + 1);
      out.push(triangle(x, b.top - 2, 4, 8));
      if (few) {
        const dash = { "stroke-dasharray": "4 2" };
        out.push(line(x, b.top, x, b.top + b.heat, "#fff", { ...dash, opacity: 0.8 }),
          line(x, b.below, x, b.below + b.line, GREY, { ...dash, opacity: 0.6 }));
      }
    }
    if (this.chosen) {
      const x = this.x(this.chosen.iteration + 1);
      out.push(line(x, b.top - 10, x, b.below + b.line, VERMILLION, { "stroke-width": 2 }));
    }
    return out;
  }

  drawCursor() {
    if (!this.cursor) return;
    const b = this.box, s = this.picture.iteration_step;
    const first = Math.floor(this.iteration / s) * s;
    const x = this.x(first), wide = Math.max(this.x(first + s) - x, 1.5);
    this.cursor.replaceChildren();
    if (x + wide < b.left || x > b.left + b.width) return;
    for (const [y, height] of [[b.top, b.heat], [b.below, b.line]]) {
      this.cursor.append(svg("rect", { x: x - 0.5, y, width: wide + 1, height, fill: "none",
        stroke: "#000", "stroke-width": 1 }));
    }
  }

  scrub(iteration) {
    this.iteration = iteration;
    this.drawCursor();
  }

  choose(decision) {
    this.chosen = decision;
    this.draw();
  }

  setRelative(relative) {
    this.relative = relative;
    this.image = null;
    this.draw();
  }

  // ---- pointing ----

  at(event) {
    const box = this.lines.getBoundingClientRect(), b = this.box;
    const part = (event.clientX - box.left - b.left) / b.width;
    const [first, end] = this.range;
    const i = Math.floor(first + Math.min(Math.max(part, 0), 0.999999) * (end - first));
    const above = 1 - (event.clientY - box.top - b.top) / b.heat;
    const rank = above >= 0 && above < 1 ? Math.floor(above * this.picture.n_ranks) : null;
    return { iteration: i, rank };
  }

  point() {
    let from = null;
    const say = (at) => this.on.point && this.on.point(at);
    this.lines.addEventListener("pointerdown", (event) => { from = this.at(event).iteration; });
    this.lines.addEventListener("pointermove", (event) => say(this.at(event)));
    this.lines.addEventListener("pointerleave", () => { from = null; say(null); });
    this.lines.addEventListener("pointerup", (event) => {
      const to = this.at(event).iteration;
      if (from !== null && Math.abs(to - from) > 2) {
        this.range = [Math.min(from, to), Math.max(from, to) + 1];
        this.draw();
      } else if (from !== null && this.on.go) {
        this.on.go(to);
      }
      from = null;
    });
    this.lines.addEventListener("dblclick", () => this.all());
  }

  all() {
    this.range = [0, this.picture.n_iterations];
    this.draw();
  }
}

// ---- one iteration --------------------------------------------------------------------------

// Loads of the ranks in one iteration, as bars, or one point for each group of them.
function drawBars(host, picture, iteration) {
  const c = Math.floor(iteration / picture.iteration_step), n = picture.rows;
  const width = Math.max(host.clientWidth, 260), height = 170, left = 58, below = 26, top = 8;
  const inner = width - left - 10, high = picture.top * 1.05 || 1;
  const y = (v) => top + (height - top - below) * (1 - v / high);
  const out = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img",
    "aria-label": said(picture, iteration) });
  for (const value of ticks(0, high, 4)) {
    out.append(line(left, y(value), left + inner, y(value), "#e6e6e6"),
      text(left - 6, y(value) + 4, seconds(value), "end"));
  }
  const step = inner / n, mean = picture.mean[c];
  for (let r = 0; r < n; r += 1) {
    const v = cellAt(picture, r, c);
    out.append(svg("rect", { x: left + r * step, y: y(v), width: Math.max(step - (step > 4 ? 1 : 0),
      0.5), height: Math.max(y(0) - y(v), 0), fill: v > mean ? VERMILLION : BLUE }));
  }
  out.append(line(left, y(mean), left + inner, y(mean), "#000", { "stroke-dasharray": "5 3" }));
  for (const rank of ticks(0, Math.max(picture.n_ranks - 1, 1), 8, true)) {
    if (rank > picture.n_ranks - 1) continue;
    const x = left + (rank / picture.rank_step + 0.5) * step;
    out.append(text(x, height - 10, short(rank), "middle"));
  }
  host.replaceChildren(out);
}

// First and last of the neighbours that a cell stands for.
function span(cell, step, n) {
  return [cell * step, Math.min((cell + 1) * step, n) - 1];
}

// What an iteration was like, in a sentence.
function said(picture, iteration) {
  const c = Math.floor(iteration / picture.iteration_step), mean = picture.mean[c];
  let slowest = 0;
  for (let r = 1; r < picture.rows; r += 1) {
    if (cellAt(picture, r, c) > cellAt(picture, slowest, c)) slowest = r;
  }
  const [i, j] = span(c, picture.iteration_step, picture.n_iterations);
  const [r, s] = span(slowest, picture.rank_step, picture.n_ranks);
  const when = j > i ? `Iterations ${i} to ${j}` : `Iteration ${i}`;
  const who = s > r ? `one of ranks ${r} to ${s}` : `rank ${r}`;
  const ratio = mean > 0 ? `, ${short(picture.max[c] / mean)} times the mean` : "";
  return `${when}: ${who} is the slowest with ${seconds(picture.max[c])}${ratio}.`;
}

// What stands under the pointer.
function pointed(picture, at) {
  const c = Math.floor(at.iteration / picture.iteration_step);
  if (at.rank === null) return said(picture, at.iteration);
  const row = Math.floor(at.rank / picture.rank_step), value = cellAt(picture, row, c);
  const mean = picture.mean[c];
  const [first, last] = span(row, picture.rank_step, picture.n_ranks);
  const who = last > first ? `Slowest of ranks ${first} to ${last}` : `Rank ${first}`;
  const ratio = mean > 0 ? `, ${short(value / mean)} times the mean` : "";
  return `${who} in iteration ${at.iteration}: ${seconds(value)}${ratio}.`;
}

// ---- migrations -----------------------------------------------------------------------------

// (from, to, objects, bytes) as bands from the ranks on the left to those on the right.
function drawFlows(host, flows, name) {
  if (!flows.length) {
    host.replaceChildren(element("p", { class: "soft" }, "No object moved between ranks."));
    return;
  }
  const width = Math.max(host.clientWidth, 260), total = flows.reduce((s, f) => s + f[2], 0);
  const sides = [0, 1].map((side) => [...new Set(flows.map((f) => f[side]))]
    .sort((a, b) => a - b));
  const longest = Math.max(sides[0].length, sides[1].length);
  const gap = longest > 20 ? 2 : 6, height = Math.min(Math.max(140, 22 * longest), 420);
  const left = 62, right = width - 62;
  const out = svg("svg", { viewBox: `0 0 ${width} ${height + 22}`, height: height + 22,
    role: "img", "aria-label": `Migrations between ranks, ${total} objects` });
  const places = sides.map((ranks, side) => {
    const room = height - gap * (ranks.length - 1), out2 = new Map();
    let y = 18;
    for (const rank of ranks) {
      const n = flows.filter((f) => f[side] === rank).reduce((s, f) => s + f[2], 0);
      const h = (room * n) / total;
      out2.set(rank, { y, h, used: 0, n });
      y += h + gap;
    }
    return out2;
  });
  out.append(text(left, 10, "from", "end", { class: "title" }),
    text(right, 10, "to", null, { class: "title" }));
  for (const [source, target, n, size] of flows) {
    const a = places[0].get(source), b = places[1].get(target), middle = (left + right) / 2;
    const ya = a.y + a.used + (a.h * n) / a.n / 2, yb = b.y + b.used + (b.h * n) / b.n / 2;
    a.used += (a.h * n) / a.n;
    b.used += (b.h * n) / b.n;
    out.append(svg("path", { d: `M${left},${ya}C${middle},${ya} ${middle},${yb} ${right},${yb}`,
      fill: "none", stroke: BLUE, opacity: 0.4,
      "stroke-width": Math.max(1, (a.h * n) / a.n) },
    svg("title", {}, `${name(source)} to ${name(target)}: ${n} objects`
      + (size ? `, ${bytes(size)}` : ""))));
  }
  for (const [side, x, anchor] of [[0, left, "end"], [1, right, "start"]]) {
    for (const [rank, place] of places[side]) {
      out.append(svg("rect", { x: side ? x : x - 6, y: place.y, width: 6,
        height: Math.max(place.h, 1), fill: side ? ORANGE : VERMILLION }));
      if (place.h >= 9 || longest <= 12) {
        out.append(text(side ? x + 10 : x - 10, place.y + place.h / 2 + 4, name(rank), anchor));
      }
    }
  }
  host.replaceChildren(out);
}

// ---- decisions ------------------------------------------------------------------------------

const CHOICES = { balance: "balance", hold: "hold", off: "switched off" };

// The list of decisions; choosing one calls `choose(index)`.
function drawDecisions(host, decisions, choose) {
  const names = ["after iteration", "decision", "strategy", "max/mean", "placed", "since",
    "moved", "cost", "saved"];
  const cells = decisions.map((d) => [
    element("button", { type: "button" }, short(d.iteration)),
    CHOICES[d.choice] + (d.until > d.iteration ? `, last after ${d.until}` : "")
      + (d.choice === "balance" && !d.moved ? " (not done)" : ""),
    d.strategy, short(d.ratio ?? d.before), short(d.predicted), short(d.realised),
    d.choice === "balance" ? `${short(d.migrations)}` : "",
    d.choice === "balance" ? seconds(d.cost) : "", seconds(d.gain)]);
  const used = names.map((_, i) => i < 3 || cells.some((row) => row[i] !== ""));
  const rows = cells.map((row) => row.filter((_, i) => used[i]));
  const out = table(names.filter((_, i) => used[i]), rows, 3);
  out.setAttribute("class", "decisions");
  const lines = [...out.querySelectorAll("tbody tr")];
  const mark = (i) => lines.forEach((line, k) => line.setAttribute("aria-current", k === i));
  lines.forEach((line, i) => {
    line.querySelector("button").setAttribute("aria-label",
      `Receipt of the decision after iteration ${decisions[i].iteration}`);
    line.addEventListener("click", () => { mark(i); choose(i); });
  });
  host.replaceChildren(decisions.length ? scrolling("Decisions", out)
    : element("p", { class: "soft" }, "No decision was taken."));
  return mark;
}
