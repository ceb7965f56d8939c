// The loads of the ranks over the iterations, as colours.

// How seconds become colours: linear from 0 to `brightest`, or the logarithm of seconds / mean.
function colouring(picture, relative) {
  if (!relative) {
    const high = picture.brightest || 1;
    return { at: (value) => value / high, ticks: ticks(0, high, 4), text: seconds,
      label: "seconds of the rank", above: picture.top > high * 1.0001 ? seconds(picture.top) : "" };
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
  ticks: marks, label: "time of the rank / mean", text: short, above: "" };
}

function cellAt(picture, row, column) {
  return picture.cells[row * picture.columns + column] * picture.top / 65535;
}

function palette(n) {
  const out = new Uint32Array(n);
  for (let i = 0; i < n; i += 1) {
    const [r, g, b] = cividis(i / (n - 1));
    out[i] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return out;
}

// An image with a pixel for each cell, rank 0 at the bottom.
function heatImage(picture, colours) {
  const { rows, columns } = picture, known = palette(256), scale = picture.top / 65535;
  const image = new ImageData(columns, rows), pixels = new Uint32Array(image.data.buffer);
  for (let r = 0; r < rows; r += 1) {
    for (let c = 0; c < columns; c += 1) {
      const t = colours.at(picture.cells[r * columns + c] * scale, picture.mean[c]);
      const level = Math.min(255, Math.max(0, Math.round(255 * t)));
      pixels[(rows - 1 - r) * columns + c] = known[level];
    }
  }
  const out = document.createElement("canvas");
  out.width = columns;
  out.height = rows;
  out.getContext("2d").putImageData(image, 0, 0);
  return out;
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
  const n = 24, out = [], place = colours.place || colours.at;
  for (let i = 0; i < n; i += 1) {
    out.push(svg("rect", { x, y: top + (height * (n - 1 - i)) / n, width: 12,
      height: height / n + 0.5, fill: rgb(cividis((i + 0.5) / n)) }));
  }
  for (const mark of colours.ticks) {
    out.push(text(x + 16, top + height * (1 - place(mark)) + 4, colours.text(mark)));
  }
  if (colours.above) {
    out.push(svg("path", { d: `M${x},${top - 1}h12l-6,-9z`, fill: rgb(cividis(1)) }),
      text(x + 16, top - 3, `to ${colours.above}`));
  }
  const middle = top + height / 2;
  out.push(text(x + 70, middle, colours.label, "middle",
    { class: "title", transform: `rotate(90 ${x + 70} ${middle})` }));
  return out;
}
