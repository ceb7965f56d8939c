// The objects of a run at their places, coloured by load or by rank, with arrows for migrations.
// A canvas, because 100,000 objects are then drawn in a few milliseconds.

// Colours of ranks: those of Okabe and Ito, but with grey instead of black, and a darker yellow.
// Further ranks get the same colours darker, then lighter.
const RANKS = [[0, 114, 178], [230, 159, 0], [0, 158, 115], [204, 121, 167], [86, 180, 233],
  [213, 94, 0], [160, 150, 40], [120, 120, 120]];
const MOST_ARROWS = 24, MOST_ENDS = 30, MARGIN = 14, PANEL = 340;
const GLIDE = 900, REST = 700; // milliseconds in which objects move; before and after this

function rankColour(rank) {
  const shade = [1, 0.7, 1.3][Math.floor(rank / RANKS.length) % 3];
  return RANKS[rank % RANKS.length].map((c) => Math.min(255, Math.round(c * shade)));
}

const FRAME = packed([128, 128, 128]); // visible on a light and on a dark background

// The objects in one iteration: for each object, its rank + 1 (0: it does not exist), and its load.
function frameOf(sent) {
  return { iteration: sent.iteration, rank: numbers(sent.rank, Uint32Array),
    load: numbers(sent.load, Uint8Array) };
}

// The largest number of objects of a rank.
function fullest(base, frame) {
  const held = new Uint32Array(base.n_ranks + 1);
  for (let i = 0; i < frame.rank.length; i += 1) held[frame.rank[i]] += 1;
  return held.subarray(1).reduce((a, b) => Math.max(a, b), 1);
}

// The load of each rank, in an own unit.
function loadsOf(base, frame) {
  const out = new Float64Array(base.n_ranks);
  frame.rank.forEach((r, i) => { if (r) out[r - 1] += (frame.load[i] / 255) ** 2; });
  return out;
}

// The number of boxes, one for each rank, in a row and in a column.
function boxesOf({ n_ranks: p }) {
  const across = Math.ceil(Math.sqrt(2 * p));
  return [across, Math.ceil(p / across)];
}

// Places (0 ... 1 in both directions) of the objects, in rows in the box of their rank.
function boxed(base, frame) {
  const [across, high] = boxesOf(base), side = Math.ceil(Math.sqrt(fullest(base, frame)));
  const used = new Uint32Array(base.n_ranks), out = new Float32Array(2 * base.n);
  frame.rank.forEach((r, i) => {
    if (!r) return;
    const k = used[r - 1], box = r - 1;
    used[box] += 1;
    out[2 * i] = ((box % across) + 0.1 + (0.8 * ((k % side) + 0.5)) / side) / across;
    out[2 * i + 1] = (Math.floor(box / across) + 0.18
      + (0.76 * (Math.floor(k / side) + 0.5)) / side) / high;
  });
  return out;
}

class ObjectView {
  // wanted(iteration): called when the view needs the objects of an iteration; the caller then passes
  // them to `show`.  gone: an AbortSignal for the end of the view.
  constructor(wanted, gone) {
    this.wanted = wanted;
    this.base = null;
    this.frame = null;
    this.next = null;
    this.t = 0; // where objects that move are drawn: 0: on their old ranks, 1: on their new ones
    this.steps = []; // iterations after which objects move
    this.canvas = element("canvas", { role: "img", class: "objects" });
    this.said = element("p", { class: "soft" });
    this.pointed = element("p", { class: "pointed", "aria-live": "off" });
    this.legend = element("p", { class: "legend soft" });
    const select = (label, options) => {
      const box = element("select", {}, ...options.map(([v, name]) =>
        element("option", { value: v }, name)));
      box.addEventListener("change", () => (box === this.side ? this.glide() : this.draw()));
      return [box, element("label", {}, label, box)];
    };
    const [layout, layoutLabel] = select("Objects", [["place", "at their places"],
      ["ranks", "in the boxes of their ranks"]]);
    const [colour, colourLabel] = select("coloured by", [["load", "load"], ["rank", "rank"]]);
    const [side, sideLabel] = select("", [["before", "before the LB step"],
      ["after", "after the LB step"]]);
    side.setAttribute("aria-label", "Before or after the LB step");
    const player = element("button", { type: "button" }, "Play");
    player.addEventListener("click", () => this.play(!this.playing));
    Object.assign(this, { layout, colour, side, sideLabel, player });
    this.body = element("div", { class: "held" },
      element("div", { class: "controls" }, layoutLabel, colourLabel, sideLabel, player),
      this.said, this.canvas, this.legend, this.pointed);
    this.element = element("details", { class: "objectview" },
      element("summary", {}, "Objects: where they are, and where they move"), this.body);
    this.element.addEventListener("toggle", () => this.ask());
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => { this.pointed.textContent = ""; });
    new ResizeObserver(() => this.draw()).observe(this.body);
    const again = () => this.draw(); // draws in the colours of the new scheme
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again, { signal: gone });
    const theme = new MutationObserver(again);
    theme.observe(document.body, { attributes: true });
    gone.addEventListener("abort", () => theme.disconnect());
  }

  go(iteration) {
    this.iteration = iteration;
    this.ask();
  }

  ask() {
    if (this.element.open && this.iteration !== undefined) this.wanted(this.iteration);
  }

  // Takes the data that do not depend on the iteration.
  start(sent) {
    const place = Float32Array.from(numbers(sent.place, Uint16Array), (v) => v / 65535);
    this.base = { ...sent, place };
    this.layout.disabled = !place.length;
    if (!place.length) this.layout.value = "ranks";
  }

  show(frame, next) {
    this.frame = frame;
    this.next = next && next.rank.length === frame.rank.length ? next : null;
    this.moves = this.movesOf();
    const both = [frame, this.next || frame]; // what does not change while objects move
    this.loads = both.map((one) => loadsOf(this.base, one));
    this.most = Math.max(...both.map((one) => fullest(this.base, one)));
    const moved = this.moves.n;
    this.side.disabled = !moved;
    this.sideLabel.classList.toggle("idle", !moved);
    if (!moved || this.playing) this.side.value = "before";
    this.t = this.side.value === "after" ? 1 : 0;
    cancelAnimationFrame(this.gliding);
    const every = this.base.step > 1 ? ` (one of every ${this.base.step})` : "";
    const seen = frame.rank.filter((r) => r).length;
    this.text = `${count(seen, "object")}${every} on ${count(this.base.n_ranks, "rank")} in `
      + `iteration ${frame.iteration}; ${moved ? `${short(moved)} move after it` : "none moves after it"}.`;
    this.canvas.setAttribute("aria-label", this.text);
    this.draw();
    if (!this.playing) return;
    const onward = () => { if (this.playing) this.following(this.iteration + 1); };
    clearTimeout(this.resting);
    this.resting = setTimeout(!moved ? onward : () => {
      this.side.value = "after";
      this.glide(() => { this.resting = setTimeout(onward, REST); });
    }, moved ? REST : 0);
  }

  // Shows one LB step after the other, from the shown iteration on: ranks are boxes, filled to their
  // load, and the objects move from box to box.
  play(on) {
    this.playing = on;
    this.player.textContent = on ? "Stop" : "Play";
    clearTimeout(this.resting);
    if (!on) return;
    this.layout.value = "ranks";
    this.following(this.steps.some((i) => i >= this.iteration) ? this.iteration : 0);
  }

  following(from) {
    const i = this.steps.find((step) => step >= from);
    if (i === undefined) this.play(false);
    else this.goTo(i);
  }

  // Moves the objects to the ranks before or after the LB step, whichever is chosen.
  glide(then = () => {}) {
    const from = this.t, to = this.side.value === "after" ? 1 : 0, begin = performance.now();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    cancelAnimationFrame(this.gliding);
    const step = (now) => {
      const u = still ? 1 : Math.min(Math.max(now - begin, 0) / GLIDE, 1);
      this.t = from + (to - from) * u * u * (3 - 2 * u);
      this.drawNow();
      if (u < 1) this.gliding = requestAnimationFrame(step);
      else then();
    };
    this.gliding = requestAnimationFrame(step);
  }

  // The places of the objects at `t` of their way.
  places() {
    const { frame, next, t } = this;
    if (this.layout.value === "place") return this.base.place;
    const old = boxed(this.base, frame);
    if (!next || !t) return old;
    const out = boxed(this.base, next);
    for (let i = 0; i < frame.rank.length; i += 1) {
      const part = !frame.rank[i] ? 1 : (next.rank[i] ? t : 0); // new objects, and removed ones
      out[2 * i] = old[2 * i] + part * (out[2 * i] - old[2 * i]);
      out[2 * i + 1] = old[2 * i + 1] + part * (out[2 * i + 1] - old[2 * i + 1]);
    }
    return out;
  }

  // Migrations from the shown iteration to the next one: their number, and the pairs of ranks with
  // the most migrations, each pair with a few of its objects.
  movesOf() {
    const { rank } = this.frame, to = this.next ? this.next.rank : rank, counts = new Map();
    const pair = (i) => (to[i] !== rank[i] && to[i] && rank[i] ? rank[i] * 2097152 + to[i] : 0);
    rank.forEach((_, i) => counts.set(pair(i), (counts.get(pair(i)) || 0) + 1));
    const n = rank.length - (counts.get(0) || 0);
    counts.delete(0);
    const least = Float64Array.from(counts.values()).sort().at(-MOST_ARROWS) || 0;
    const most = [...counts].filter(([, k]) => k >= least).sort((a, b) => b[1] - a[1]);
    const pairs = new Map(most.slice(0, MOST_ARROWS).map(([key, k]) =>
      [key, { n: k, to: key % 2097152, objects: [] }]));
    rank.forEach((_, i) => {
      const found = pairs.get(pair(i));
      if (found && found.objects.length < MOST_ENDS) found.objects.push(i);
    });
    return { n, all: counts.size, pairs: [...pairs.values()] };
  }

  // Draws before the next frame of the screen, and only once, even after several calls.
  draw() {
    if (this.due) return;
    this.due = requestAnimationFrame(() => { this.due = 0; this.drawNow(); });
  }

  drawNow() {
    if (!this.frame || !this.element.open || this.body.clientWidth < 50) return;
    const shown = this.t > 0.5 && this.next ? this.next : this.frame, where = this.places();
    const byPlace = this.layout.value === "place";
    this.explain(byPlace);
    const width = this.body.clientWidth;
    const inner = width - 2 * MARGIN;
    const height = byPlace ? Math.min(Math.max(inner * this.base.flat, 24), PANEL) : PANEL;
    const pen = sized(this.canvas, { width, height: height + 2 * MARGIN });
    const ratio = this.canvas.width / width;
    const scale = byPlace ? Math.min(inner, this.base.flat > 0 ? height / this.base.flat : inner) : 0;
    const [sx, sy] = byPlace ? [scale, scale] : [inner, height];
    const left = byPlace ? (width - scale) / 2 : MARGIN;
    this.spots = { x: (i) => left + sx * where[2 * i], y: (i) => MARGIN + sy * where[2 * i + 1],
      size: this.sizeOf(byPlace, sx, sy), shown };
    const style = getComputedStyle(this.canvas);
    pen.scale(ratio, ratio);
    if (byPlace) this.drawEdges(pen, style.color);
    else this.drawBoxes(pen, style.color, width, height);
    this.legend.replaceChildren(...this.colours());
    pen.drawImage(this.pixels(ratio), 0, 0, width, height + 2 * MARGIN);
    if (!this.t) this.drawArrows(pen, style.color, style.backgroundColor);
  }

  explain(byPlace) {
    const how = byPlace && this.base.how === "communication graph"
      ? " Objects that communicate are close to each other." : "";
    const arrows = this.moves.all > MOST_ARROWS
      ? ` Arrows: the ${MOST_ARROWS} pairs of ranks with the most migrations.` : "";
    const out = byPlace && this.base.clipped
      ? ` ${count(this.base.clipped, "object")} far outside: drawn at the edge.` : "";
    this.said.textContent = this.text + how + out + arrows;
  }

  // The side of an object's square, in pixels.
  sizeOf(byPlace, sx, sy) {
    if (byPlace) {
      const { n, flat, apart } = this.base, area = sx * Math.max(sx * flat, 6);
      return Math.min(Math.max(0.7 * Math.sqrt(area / n), 1.5), 16, 0.9 * sx * apart);
    }
    const [across, high] = boxesOf(this.base), side = Math.ceil(Math.sqrt(this.most));
    return Math.min(Math.max((0.7 * Math.min(sx / across, sy / high)) / side, 1), 18);
  }

  colours() {
    const swatch = (colour) => svg("svg", { width: 12, height: 12, "aria-hidden": "true" },
      svg("rect", { width: 12, height: 12, fill: rgb(colour), stroke: GREY }));
    if (this.colour.value === "load") {
      const bar = Array.from({ length: 24 }, (_, i) => svg("rect", { x: 5 * i, width: 5.5, height: 12,
        fill: rgb(cividis(i / 23)) }));
      return ["0 s", svg("svg", { width: 120, height: 12, "aria-hidden": "true" }, ...bar),
        `${seconds(this.base.top)} or more`];
    }
    const named = Math.min(this.base.n_ranks, 3 * RANKS.length);
    const more = named < this.base.n_ranks ? ["The colours repeat."] : [];
    return [...Array.from({ length: named }, (_, r) =>
      element("span", {}, swatch(rankColour(r)), ` ${r}`)), ...more];
  }

  pixels(ratio) {
    const { x, y, size, shown } = this.spots, { width, height } = this.canvas;
    const byLoad = this.colour.value === "load", known = palette(cividis);
    const side = Math.max(1, Math.round(size * ratio)), half = size / 2;
    const colours = Array.from({ length: 3 * RANKS.length }, (_, r) => packed(rankColour(r)));
    return imageOf(width, height, (out) => shown.rank.forEach((r, i) => {
      if (!r) return;
      const root = shown.load[i] / 255;
      const colour = byLoad ? known[Math.round(255 * root * root)] : colours[(r - 1) % colours.length];
      const a = Math.round((x(i) - half) * ratio), b = Math.round((y(i) - half) * ratio);
      for (let v = Math.max(b, 0); v < Math.min(b + side, height); v += 1) {
        const edge = v === b || v === b + side - 1;
        for (let u = Math.max(a, 0); u < Math.min(a + side, width); u += 1) {
          const frame = side > 5 && (edge || u === a || u === a + side - 1);
          out[v * width + u] = frame ? FRAME : colour;
        }
      }
    }));
  }

  drawEdges(pen, colour) {
    const { x, y } = this.spots;
    pen.strokeStyle = colour;
    pen.globalAlpha = 0.35;
    pen.lineWidth = 1;
    pen.beginPath();
    for (const [i, j] of this.base.edges) {
      pen.moveTo(x(i), y(i));
      pen.lineTo(x(j), y(j));
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  drawBoxes(pen, colour, width, height) {
    const [across, high] = boxesOf(this.base), [now, then] = this.loads;
    const w = (width - 2 * MARGIN) / across, h = height / high;
    const top = Math.max(...now, ...then) || 1;
    pen.strokeStyle = colour;
    pen.font = "11px system-ui, sans-serif";
    pen.globalAlpha = 0.6;
    pen.lineWidth = 1;
    for (let r = 0; r < now.length; r += 1) {
      const x = MARGIN + (r % across) * w, y = MARGIN + Math.floor(r / across) * h;
      const full = (0.92 * h * (now[r] + this.t * (then[r] - now[r]))) / top;
      pen.fillStyle = "rgba(0, 114, 178, 0.35)";
      pen.fillRect(x + 0.04 * w, y + 0.96 * h - full, 0.92 * w, full);
      pen.strokeRect(x + 0.04 * w, y + 0.04 * h, 0.92 * w, 0.92 * h);
      pen.fillStyle = colour;
      if (w >= 40 && h >= 60) pen.fillText(`rank ${r}`, x + 0.04 * w + 4, y + 0.04 * h + 12);
    }
    pen.globalAlpha = 1;
  }

  // An arrow for each pair of ranks, from a moving object to the closest object on its new rank.
  drawArrows(pen, ink, ground) {
    const { pairs } = this.moves, there = new Map(pairs.map((m) => [m.to, []]));
    const { rank } = this.frame;
    for (let i = 0; pairs.length && i < rank.length; i += 1) {
      const found = there.get(rank[i]);
      if (found && found.length < 10 * MOST_ENDS) found.push(i);
    }
    for (const m of pairs) {
      const ends = this.closest(m.objects, there.get(m.to));
      const wide = 1 + (2.5 * m.n) / pairs[0].n;
      if (!ends) continue;
      arrow(pen, ...ends, ground, wide + 2.5);
      arrow(pen, ...ends, ink, wide);
    }
  }

  // The places of the closest pair of objects, one from each of two groups.
  closest(one, other) {
    const { x, y } = this.spots;
    let best = null, near = Infinity;
    for (const i of one) {
      for (const j of other) {
        const d = (x(i) - x(j)) ** 2 + (y(i) - y(j)) ** 2;
        if (d < near) [best, near] = [[[x(i), y(i)], [x(j), y(j)]], d];
      }
    }
    return best;
  }

  point(event) {
    if (!this.spots) return;
    const { x, y, size, shown } = this.spots, box = this.canvas.getBoundingClientRect();
    const [a, b] = [event.clientX - box.left, event.clientY - box.top];
    let best = -1, near = Math.max(size, 8) ** 2;
    for (let i = 0; i < shown.rank.length; i += 1) {
      if (!shown.rank[i]) continue;
      const d = (x(i) - a) ** 2 + (y(i) - b) ** 2;
      if (d < near) [best, near] = [i, d];
    }
    this.pointed.textContent = best < 0 ? "" : this.told(best);
  }

  told(i) {
    const { keys, step, top } = this.base, { shown } = this.spots, root = shown.load[i] / 255;
    const from = this.frame.rank[i] || shown.rank[i]; // a new object is in the next iteration only
    const to = this.next && this.next.rank[i];
    const moves = to && to !== from ? `, moves to rank ${to - 1}` : "";
    const load = root >= 1 ? `${seconds(top)} or more` : `about ${seconds(top * root * root)}`;
    return `Object ${keys ? keys[i] : i * step}: ${load} on rank ${from - 1}${moves}.`;
  }
}

function arrow(pen, [x0, y0], [x1, y1], colour, width) {
  const far = Math.hypot(x1 - x0, y1 - y0);
  if (far < 4) return;
  const [ux, uy] = [(x1 - x0) / far, (y1 - y0) / far], bend = Math.min(0.15 * far, 30);
  const [mx, my] = [(x0 + x1) / 2 - uy * bend, (y0 + y1) / 2 + ux * bend];
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.lineCap = "round";
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.quadraticCurveTo(mx, my, x1, y1);
  const [dx, dy] = [x1 - mx, y1 - my], end = Math.hypot(dx, dy), head = 7;
  const [vx, vy] = [(dx / end) * head, (dy / end) * head];
  pen.moveTo(x1 - vx - vy * 0.6, y1 - vy + vx * 0.6);
  pen.lineTo(x1, y1);
  pen.lineTo(x1 - vx + vy * 0.6, y1 - vy - vx * 0.6);
  pen.stroke();
}
