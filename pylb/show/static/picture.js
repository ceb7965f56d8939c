// The picture of a run: a heat map of the ranks and charts below, all on one axis of iterations.
// Pointing shows the load, a click goes to that iteration, dragging zooms in, a double click zooms
// out; the slider, the pointer and the zoom act on the heat map and all charts together.

const HEAT = 180, GAP = 34, TOP = 24, CHARTS = [secondsChart, ratioChart];

class RunPicture {
  constructor(host, on, gone) {
    this.on = on;
    this.plain = false;
    this.iteration = 0;
    this.chosen = null;
    Object.assign(this, layersOf("picture", (width) => this.draw(width), gone));
    host.append(this.host);
    this.point();
  }

  show(picture, decisions) {
    const old = this.picture;
    const all = !old || this.range[1] - this.range[0] === old.n_iterations
      || this.range[1] > picture.n_iterations;
    this.picture = picture;
    this.decisions = decisions;
    if (all) this.range = [0, picture.n_iterations];
    this.iteration = Math.min(this.iteration, picture.n_iterations - 1);
    this.image = null;
    this.draw();
  }

  draw(given = 0) {
    if (!this.picture) return;
    const width = given || this.host.clientWidth;
    if (width < 50) return;
    if (!this.image) {
      this.colours = colouring(this.picture, this.plain);
      this.image = heatImage(this.picture, this.colours);
    }
    this.axis = this.axisOf(width);
    this.on.zoom(this.range);
    let below = TOP + HEAT;
    this.boxes = CHARTS.map(({ height }) => {
      const box = { top: below + GAP, height };
      below = box.top + height;
      return box;
    });
    this.end = below;
    resize(this.lines, width, below + 40);
    this.drawHeat();
    this.lines.setAttribute("aria-label", this.described());
    this.lines.replaceChildren(...this.heatAxes(),
      ...colourBar(this.axis.left + this.axis.width + 14, TOP, HEAT, this.colours),
      ...CHARTS.flatMap((chart, i) => chart.draw(this.axis, this.boxes[i], this.picture,
        this.chosen, this.decisions)),
      ...this.iterations(), ...this.marks());
    this.cursor = svg("g", { "pointer-events": "none" });
    this.hair = line(0, TOP, 0, below, INK, { "pointer-events": "none", visibility: "hidden",
      "stroke-dasharray": "2 2" });
    this.lines.append(this.cursor, this.hair);
    this.drawCursor();
  }

  axisOf(width) {
    const left = 58, right = 92, p = this.picture, range = this.range, s = p.iteration_step;
    const axis = { left, width: width - left - right, range, narrow: width < 520, seen: [] };
    axis.x = (i) => left + ((i - range[0]) / (range[1] - range[0])) * axis.width;
    for (let c = 0; c < p.columns; c += 1) {
      const first = c * s, end = Math.min(first + s, p.n_iterations);
      if (end > range[0] && first < range[1]) axis.seen.push([c, (first + end) / 2]);
    }
    axis.clipped = (box, ...children) => {
      const id = `clip${RunPicture.count = (RunPicture.count || 0) + 1}`;
      const area = { x: left, y: box.top - 4, width: axis.width, height: box.height + 8 };
      return svg("g", { "clip-path": `url(#${id})` },
        svg("clipPath", { id }, svg("rect", area)), ...children.filter((child) => child !== ""));
    };
    return axis;
  }

  described() {
    const p = this.picture, last = this.decisions.filter((d) => d.choice === "balance").length;
    return `Loads of ${count(p.n_ranks, "rank")} over ${count(p.n_iterations, "iteration")}, up to `
      + `${seconds(p.top)}; ${count(last, "LB step")} listed below`;
  }

  drawHeat() {
    const p = this.picture, { left, width } = this.axis;
    const pen = sized(this.canvas, { left, top: TOP, width, height: HEAT });
    pen.imageSmoothingEnabled = false;
    const from = this.range[0] / p.iteration_step, to = this.range[1] / p.iteration_step;
    const skip = p.rows - p.n_ranks / p.rank_step; // the part of the top row of cells that has no ranks
    pen.drawImage(this.image, from, skip, to - from, p.rows - skip, 0, 0, this.canvas.width,
      this.canvas.height);
  }

  heatAxes() {
    const { left, width } = this.axis, p = this.picture, out = [];
    out.push(svg("rect", { x: left, y: TOP, width, height: HEAT, fill: "none", stroke: GREY }));
    for (const rank of ticks(0, p.n_ranks - 1, 5, true)) {
      const y = TOP + HEAT * (1 - (rank + 0.5) / p.n_ranks);
      out.push(text(left - 6, y + 4, short(rank), "end"));
    }
    const name = p.rank_step > 1 ? `rank (slowest of each ${p.rank_step})` : "rank";
    const y = TOP + HEAT / 2;
    out.push(text(14, y, name, "middle", { class: "title", transform: `rotate(-90 14 ${y})` }));
    return out;
  }

  iterations() {
    const { x, left, width, range, narrow } = this.axis, p = this.picture, y = this.end, out = [];
    for (const i of ticks(range[0], range[1] - 1, narrow ? 5 : 8, true)) {
      out.push(line(x(i + 0.5), y, x(i + 0.5), y + 4, GREY),
        text(x(i + 0.5), y + 16, short(i), "middle"));
    }
    const name = p.iteration_step > 1 ? `iteration (each ${p.iteration_step} as one)` : "iteration";
    out.push(text(left + width / 2, y + 32, name, "middle", { class: "title" }));
    return out;
  }

  marks() {
    const { x } = this.axis, out = [], few = this.picture.balanced.length <= 24;
    for (const i of this.picture.balanced) {
      if (i + 1 < this.range[0] || i + 1 > this.range[1]) continue;
      const at = x(i + 1), dash = { "stroke-dasharray": "4 2" };
      out.push(triangle(at, TOP - 2, 4, 8));
      if (!few) continue;
      out.push(line(at, TOP, at, TOP + HEAT, this.plain ? "#fff" : "#333", { ...dash, opacity: 0.7 }));
      const box = this.boxes[0];
      out.push(line(at, box.top, at, box.top + box.height, GREY, { ...dash, opacity: 0.6 }));
    }
    for (const [r, c] of this.colours.outliers) {
      const { iteration_step: s, rank_step: t, n_ranks: n } = this.picture;
      const at = (c + 0.5) * s;
      if (at < this.range[0] || at > this.range[1]) continue;
      const y = TOP + HEAT * (1 - (Math.min((r + 0.5) * t, n)) / n);
      out.push(svg("circle", { cx: x(at), cy: y, r: 3.5, fill: "none", stroke: "#000" }));
    }
    if (this.chosen) {
      const at = x(this.chosen.iteration + 1);
      out.push(line(at, TOP - 10, at, this.end, VERMILLION, { "stroke-width": 2 }));
    }
    return out;
  }

  drawCursor() {
    if (!this.cursor) return;
    const { x, left, width } = this.axis, s = this.picture.iteration_step;
    const first = Math.floor(this.iteration / s) * s;
    const at = x(first), wide = Math.max(x(first + s) - at, 1.5);
    this.cursor.replaceChildren();
    if (at + wide < left || at > left + width) return;
    for (const { top, height } of [{ top: TOP, height: HEAT }, ...this.boxes]) {
      this.cursor.append(svg("rect", { x: at - 0.5, y: top, width: wide + 1, height, fill: "none",
        stroke: INK, "stroke-width": 1 }));
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

  setPlain(plain) {
    this.plain = plain;
    this.image = null;
    this.draw();
  }

  // ---- pointing ----

  at(event) {
    const box = this.lines.getBoundingClientRect(), { left, width } = this.axis;
    const part = (event.clientX - box.left - left) / width, [first, end] = this.range;
    const i = Math.floor(first + Math.min(Math.max(part, 0), 0.999999) * (end - first));
    const above = 1 - (event.clientY - box.top - TOP) / HEAT;
    const rank = above >= 0 && above < 1 ? Math.floor(above * this.picture.n_ranks) : null;
    return { iteration: i, rank };
  }

  follow(at) {
    this.hair.setAttribute("visibility", at ? "visible" : "hidden");
    if (at) for (const end of ["x1", "x2"]) this.hair.setAttribute(end, this.axis.x(at.iteration + 0.5));
    this.on.point(at);
  }

  point() {
    let from = null;
    this.lines.addEventListener("pointerdown", (event) => { from = this.at(event).iteration; });
    this.lines.addEventListener("pointermove", (event) => this.follow(this.at(event)));
    this.lines.addEventListener("pointerleave", () => { from = null; this.follow(null); });
    this.lines.addEventListener("pointerup", (event) => {
      const to = this.at(event).iteration;
      if (from !== null && Math.abs(to - from) > 2) {
        this.range = [Math.min(from, to), Math.max(from, to) + 1];
        this.draw();
      } else if (from !== null) {
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
