// The loads of the ranks over the iterations, as colours.

const MOST_OUTLIERS = 40; // of so many outliers at most, the largest ones, each gets a mark

// How values become colours: the ratio of a rank's seconds to the mean of its iteration, or (`plain`)
// seconds from 0 to `brightest`.  The ratios go from 1 / `spread` to `spread`; cells far above are
// outliers, which get marks.
function colouring(picture, plain) {
  if (plain) {
    const high = picture.brightest || 1;
    return { at: (value) => value / high, place: (v) => v / high, map: cividis, text: seconds,
      ticks: ticks(0, high, 4), label: "seconds of the rank", outliers: [],
      above: picture.top > high * 1.0001 ? seconds(picture.top) : "" };
  }
  const ratio = (r, c) => (picture.mean[c] > 0 ? cellAt(picture, r, c) / picture.mean[c] : 1);
  const end = Math.log2(picture.spread), outliers = [];
  let top = 0;
  for (let r = 0; r < picture.rows; r += 1) {
    for (let c = 0, before = false; c < picture.columns; c += 1) {
      const out = ratio(r, c) > 1.5 * 2 ** end;
      top = Math.max(top, ratio(r, c));
      if (out && !before) outliers.push([r, c, ratio(r, c)]); // the first of neighbouring ones
      before = out;
    }
  }
  outliers.sort((a, b) => b[2] - a[2]);
  const place = (v) => Math.log2(v) / (2 * end) + 0.5;
  const marks = [0.25, 1 / 3, 0.5, 2 / 3, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4];
  return { at: (value, mean) => (mean > 0 ? place(Math.max(value / mean, 0.01)) : 0.5), place,
    map: diverging, text: short, ticks: marks.filter((v) => Math.abs(Math.log2(v)) <= end + 1e-9
      && (end < 0.5 || Math.abs(Math.log2(v)) > 0.2 || v === 1)),
    label: "time of the rank / mean", outliers: outliers.slice(0, MOST_OUTLIERS),
    above: top > 1.01 * 2 ** end ? short(top) : "" };
}

function cellAt(picture, row, column) {
  return picture.cells[row * picture.columns + column] * picture.top / 65535;
}

const palette = (map) => Uint32Array.from({ length: 256 }, (_, i) => packed(map(i / 255)));

// Returns a canvas of this size; `draw` gets the array of its pixels.
function imageOf(width, height, draw) {
  const image = new ImageData(width, height), out = element("canvas", { width, height });
  draw(new Uint32Array(image.data.buffer));
  out.getContext("2d").putImageData(image, 0, 0);
  return out;
}

// An image with a pixel for each cell, rank 0 at the bottom.
function heatImage(picture, colours) {
  const { rows, columns } = picture, known = palette(colours.map);
  return imageOf(columns, rows, (pixels) => {
    for (let r = 0; r < rows; r += 1) {
      for (let c = 0; c < columns; c += 1) {
        const t = colours.at(cellAt(picture, r, c), picture.mean[c]);
        pixels[(rows - 1 - r) * columns + c] = known[Math.min(255, Math.max(0, Math.round(255 * t)))];
      }
    }
  });
}

// Returns a canvas below an SVG; `draw(width)` is called when their size changes, and for paper.
function layersOf(name, draw, gone) {
  const canvas = element("canvas", { "aria-hidden": "true" }), lines = svg("svg", { role: "img" });
  const host = element("div", { class: name }, canvas, lines);
  new ResizeObserver(() => draw()).observe(host);
  addEventListener("beforeprint", () => draw(680), { signal: gone });
  addEventListener("afterprint", () => draw(), { signal: gone });
  return { canvas, lines, host };
}

// The SVG's size.
function resize(lines, width, height) {
  lines.setAttribute("viewBox", `0 0 ${width} ${height}`);
  lines.setAttribute("height", height);
  lines.style.width = `${width}px`;
}

// Puts a canvas at the place `box`, with a pixel for each pixel of the screen; returns its context.
function sized(canvas, box) {
  const ratio = window.devicePixelRatio || 1;
  for (const [name, value] of Object.entries(box)) canvas.style[name] = `${value}px`;
  canvas.width = Math.round(box.width * ratio);
  canvas.height = Math.round(box.height * ratio);
  return canvas.getContext("2d");
}

// A bar that explains the colours, at the place `x`, `top`, with this height.
function colourBar(x, top, height, colours) {
  const n = 24, out = [], { place, map } = colours;
  for (let i = 0; i < n; i += 1) {
    out.push(svg("rect", { x, y: top + (height * (n - 1 - i)) / n, width: 12,
      height: height / n + 0.5, fill: rgb(map((i + 0.5) / n)) }));
  }
  for (const mark of colours.ticks) {
    out.push(text(x + 16, top + height * (1 - place(mark)) + 4, colours.text(mark)));
  }
  if (colours.above) {
    out.push(svg("path", { d: `M${x},${top - 1}h12l-6,-9z`, fill: rgb(map(1)) }),
      text(x + 16, top - 8, `up to ${colours.above}`));
  }
  const middle = top + height / 2;
  out.push(text(x + 70, middle, colours.label, "middle",
    { class: "title", transform: `rotate(90 ${x + 70} ${middle})` }));
  return out;
}
