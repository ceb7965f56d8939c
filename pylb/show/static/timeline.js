// When ranks compute and wait, on one axis of seconds: without LB steps above, with them below.

const LANES = [["computes", "blue"], ["waits", "sand"], ["\u25bc LB step", "ink"], ["moves objects", "vermillion"]];

class Timeline {
  // go: called with the iteration that was clicked.
  constructor(gone, go) {
    Object.assign(this, layersOf("timeline", (width) => this.draw(width), gone));
    this.iteration = 0;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw(),
      { signal: gone });
    this.lines.addEventListener("click", (event) => {
      const at = this.at(event);
      if (at !== null) go(at);
    });
  }

  show(data) {
    const lanes = (run) => ({ ...run, cells: numbers(run.computing, Uint8Array) });
    this.data = { ...data, runs: data.runs.map(lanes) };
    this.draw();
  }

  // Shows only these iterations, [first, end).
  zoom(range) {
    this.range = range;
    this.draw();
  }

  colours() {
    return Object.fromEntries(LANES.map(([, name]) => {
      this.canvas.style.color = `var(--${name})`;
      return [name, getComputedStyle(this.canvas).color];
    }));
  }

  draw(given = 0) {
    const width = given || this.host.clientWidth;
    if (!this.data || !this.range || width < 50) return;
    const { labels, runs, step } = this.data, n = labels.length;
    const tall = Math.min(Math.max(n * 14, 48), 170), left = 58, above = 28, inner = width - left - 16;
    const [a, b] = [Math.floor(this.range[0] / step), Math.ceil(this.range[1] / step)];
    const long = runs.map((run) => {
      let sum = 0;
      for (let c = a; c < Math.min(b, run.iteration.length); c += 1) {
        sum += run.iteration[c] + run.deciding[c] + run.moving[c];
      }
      return sum;
    });
    const most = Math.max(...long) || 1, x = (t) => left + (t / most) * inner;
    const bottom = runs.length * (above + tall + 8) + 12, height = bottom + 22;
    resize(this.lines, width, height);
    this.lines.replaceChildren();
    const pen = sized(this.canvas, { left: 0, top: 0, width, height }), colours = this.colours();
    const ratio = window.devicePixelRatio || 1;
    pen.scale(ratio, ratio);
    this.ends = [];
    const whole = a === 0 && b >= runs[0].iteration.length;
    runs.forEach((run, k) => {
      const top = k * (above + tall + 8) + above + 12;
      this.ends.push({ top, tall, at: this.bars(pen, colours, run, x, top, tall / n, a, b) });
      const ticksShown = n > 24 ? ticks(0, n - 1, 4, true) : labels.map((_, r) => r);
      for (const r of ticksShown) {
        this.lines.append(text(left - 6, top + tall - (r + 0.5) * (tall / n) + 4, labels[r], "end"));
      }
      if (labels[0] === "0") this.lines.append(text(0, top + tall / 2 + 4, "rank"));
      const end = seconds(whole ? run.seconds : long[k]);
      this.lines.append(text(left, top - 11, `${run.name}: ${end}`, null, { class: "title" }));
    });
    for (const t of ticks(0, most, width < 520 ? 4 : 8)) {
      this.lines.append(line(x(t), bottom, x(t), bottom + 4, GREY),
        text(x(t), bottom + 16, seconds(t), "middle"));
    }
    this.legend(width < 520 ? 0 : left);
    this.lines.setAttribute("aria-label", `Timeline of the ranks: ${runs.map((run, k) =>
      `${run.name} ${seconds(whole ? run.seconds : long[k])}`).join(", ")}`);
    this.mark();
  }

  // Draws a run; returns the x at which each of its columns begins.
  bars(pen, colours, run, x, top, high, a, b) {
    const m = run.iteration.length, lanes = this.data.labels.length, out = [], gap = high > 5 ? 1 : 0;
    const end = Math.min(b, m), lb = (c) => run.deciding[c] + run.moving[c];
    const seen = run.deciding.map((_, c) => c).filter((c) => c >= a && c < end && lb(c) > 0);
    let t = 0;
    for (let c = a, next = a; c < end; c = next) {
      const from = x(t);
      let [long, apart] = [0, true]; // seconds; whether the iteration is wide enough to be seen alone
      const busy = new Float64Array(lanes);
      do {
        out.push(x(t + long));
        for (let r = 0; r < lanes; r += 1) busy[r] += (run.cells[r * m + next] / 255) * run.iteration[next];
        long += run.iteration[next] + (apart && x(t + run.iteration[next]) - from >= 3 ? 0 : lb(next));
        next += 1;
        apart = x(t + long) - from >= 3 && next === c + 1;
      } while (next < end && x(t + long) - from < 3);
      const wide = x(t + long) - from;
      pen.fillStyle = colours.sand;
      pen.fillRect(from, top, wide + 0.3, lanes * high);
      pen.fillStyle = colours.blue;
      for (let r = 0; r < lanes; r += 1) {
        const part = long > 0 ? busy[r] / long : 0, y = top + (lanes - 1 - r) * high;
        pen.globalAlpha = apart ? 1 : part; // iterations that cannot be told apart: the mean colour
        pen.fillRect(from, y, apart ? part * wide : wide + 0.3, high - gap);
      }
      pen.globalAlpha = 1;
      const meanwhile = apart ? x(t + run.hidden[c]) - from : 0;
      pen.fillStyle = colours.vermillion; // a thin line: objects move while ranks compute
      if (meanwhile > 0) pen.fillRect(from, top + lanes * high - 2, meanwhile, 2);
      t += long;
      if (!apart) continue;
      for (const [name, time] of [["ink", run.deciding[c]], ["vermillion", run.moving[c]]]) {
        pen.fillStyle = colours[name];
        if (time > 0) pen.fillRect(x(t), top, Math.max(x(t + time) - x(t), 1), lanes * high);
        t += time;
      }
    }
    out.push(x(t));
    const marks = new Set(seen.map((c) => Math.round(out[c + 1 - a])));
    this.lines.append(...[...marks].map((at) => triangle(at, top - 1, 3, 6)));
    return out;
  }

  legend(at) {
    for (const [name, colour] of LANES) {
      this.lines.append(svg("rect", { x: at, y: 2, width: 10, height: 9, fill: `var(--${colour})` }),
        text(at + 14, 10, name));
      at += 26 + 6.4 * name.length;
    }
  }

  // Frames the chosen iteration in both runs.
  mark(iteration = this.iteration) {
    this.iteration = iteration;
    if (!this.ends) return;
    this.lines.querySelectorAll(".chosen").forEach((frame) => frame.remove());
    const c = Math.floor(iteration / this.data.step) - Math.floor(this.range[0] / this.data.step);
    for (const { top, tall, at } of this.ends) {
      if (c < 0 || c + 1 >= at.length) continue;
      this.lines.append(svg("rect", { class: "chosen", x: at[c] - 0.5, y: top - 1, fill: "none",
        width: Math.max(at[c + 1] - at[c], 1) + 1, height: tall + 2, stroke: INK }));
    }
  }

  // The iteration at the pointer; null: none.
  at(event) {
    const box = this.lines.getBoundingClientRect(), y = event.clientY - box.top;
    const x = event.clientX - box.left;
    const run = (this.ends || []).find(({ top, tall }) => y >= top && y < top + tall);
    if (!run) return null;
    const c = run.at.findIndex((end) => end > x) - 1;
    return c < 0 ? null : (c + Math.floor(this.range[0] / this.data.step)) * this.data.step;
  }
}
