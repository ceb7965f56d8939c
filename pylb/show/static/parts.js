// What is shown below the picture of a run: ranks in one iteration, migrations, decisions.

// ---- one iteration --------------------------------------------------------------------------

const ALARM = 1.1; // a rank above this multiple of the mean is shown as slow

// Loads of the ranks in one iteration, as bars: one for each rank, or for each group of neighbours.
// after: an iteration whose bars stand beside the first ones; null: none.
function drawBars(host, picture, iteration, after = null) {
  const column = (i) => Math.min(Math.floor(i / picture.iteration_step), picture.columns - 1);
  const shown = [column(iteration), ...(after === null ? [] : [column(after)])], n = picture.rows;
  const width = Math.max(host.clientWidth, 260), height = 170, left = 58, below = 26, top = 8;
  const inner = width - left - 10, pair = shown.length > 1;
  // All iterations have the same scale, except those with a load above `brightest`.
  const high = Math.max(picture.brightest, ...shown.map((c) => picture.max[c])) * 1.05 || 1;
  const box = { top, height: height - top - below }, y = scaleOf(box, 0, high);
  const out = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img",
    "aria-label": said(picture, iteration) + (pair ? ` ${said(picture, after)}` : "") });
  out.append(...grid({ left, width: inner }, box, y, 0, high, seconds));
  const step = inner / n, wide = Math.max((step - (step > 4 ? 1 : 0)) / shown.length, 0.5);
  shown.forEach((c, k) => {
    const mean = picture.mean[c];
    for (let r = 0; r < n; r += 1) {
      const v = cellAt(picture, r, c), fill = pair ? [VERMILLION, BLUE][k] : v > ALARM * mean ? VERMILLION : BLUE;
      out.append(svg("rect", { x: left + r * step + k * wide, y: y(v), width: wide,
        height: Math.max(y(0) - y(v), 0), fill }));
    }
    if (k === shown.length - 1) out.append(line(left, y(mean), left + inner, y(mean), INK, { "stroke-dasharray": "5 3" }));
  });
  for (const rank of ticks(0, picture.n_ranks - 1, 8, true)) {
    const x = left + (rank / picture.rank_step + 0.5) * step;
    out.append(text(x, height - 10, short(rank), "middle"));
  }
  const ratio = (c) => short(picture.max[c] / (picture.mean[c] || 1));
  host.replaceChildren(out, element("p", { class: "soft" }, pair
    ? `Orange-red: before the LB step, max/mean ${ratio(shown[0])}. Blue: after it, ${ratio(shown[1])}. Dashed: the mean.`
    : "Dashed: the mean. Orange-red: more than 10\u00a0% above it."));
}

// The first and the last of the neighbouring ranks or iterations that a cell shows.
function span(cell, step, n) {
  return [cell * step, Math.min((cell + 1) * step, n) - 1];
}

// A sentence about an iteration: its slowest rank.
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

// A sentence about the cell under the pointer.
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

const MOST_BANDS = 16; // more ranks are drawn as a matrix

// Draws migrations (from, to, objects, bytes, load) as bands from ranks on the left to those on the
// right, or as a matrix.  n: number of ranks (or groups of ranks); pairs: how many there are in all.
function drawFlows(host, flows, name, n = 0, pairs = 0) {
  if (!flows.length) {
    host.replaceChildren(element("p", { class: "soft" }, "No object moved between ranks."));
    return;
  }
  if (n > MOST_BANDS) drawMatrix(host, flows, name, n);
  else drawBands(host, flows, name);
  if (pairs > flows.length) {
    host.append(element("p", { class: "soft" }, `${short(flows.length)} of ${short(pairs)} pairs of ranks, `
      + "those with the most load."));
  }
}

// The net load that moved from one rank to another: a square for each pair, darker for more load.
function drawMatrix(host, flows, name, n) {
  const width = Math.min(Math.max(host.clientWidth, 260), 420), left = 58, top = 22;
  const size = width - left - 10, cell = size / n, height = size + top + 8;
  const load = new Map(flows.map((f) => [`${f[0]} ${f[1]}`, f[4]]));
  const net = flows.map((f) => [...f, f[4] - (load.get(`${f[1]} ${f[0]}`) || 0)]).filter((f) => f[5] > 0);
  const most = Math.max(...net.map((f) => f[5])), wide = Math.max(cell, 3);
  const out = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img",
    "aria-label": `Net load that moved between ranks, up to ${seconds(most)} of a pair` },
  svg("rect", { x: left, y: top, width: size, height: size, fill: "none", stroke: GREY }),
  text(left, 10, "net load, from (down) to (across)", null, { class: "title" }));
  out.style.width = `${width}px`;
  for (const i of ticks(0, n - 1, 5, true)) {
    const at = (i + 0.5) * cell;
    out.append(text(left - 6, top + at + 4, name(i), "end"), text(left + at, top - 2, i ? name(i).replace("rank ", "") : "", "middle"));
  }
  for (const [i, j, k, , , x] of net) {
    out.append(svg("rect", { x: left + j * cell, y: top + i * cell, width: wide, height: wide, fill: BLUE,
      opacity: 0.15 + 0.85 * (x / most) }, svg("title", {}, `${name(i)} to ${name(j)}: ${seconds(x)} net, `
      + count(k, "object"))));
  }
  host.replaceChildren(out);
}

function drawBands(host, flows, name) {
  const width = Math.max(host.clientWidth, 260), total = flows.reduce((s, f) => s + f[2], 0);
  const sides = [0, 1].map((side) => [...new Set(flows.map((f) => f[side]))]
    .sort((a, b) => a - b));
  const longest = Math.max(sides[0].length, sides[1].length);
  const gap = longest > 20 ? 2 : 6, height = Math.min(Math.max(140, 22 * longest), 420);
  const left = 62, right = width - 62;
  const out = svg("svg", { viewBox: `0 0 ${width} ${height + 22}`, height: height + 22,
    role: "img", "aria-label": `Migrations between ranks, ${count(total, "object")}` });
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
    svg("title", {}, `${name(source)} to ${name(target)}: ${count(n, "object")}`
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
const SAID = { number: short, seconds, bytes: (n) => (n ? bytes(n) : ""), text: String };

// The list of decisions; choosing one calls `choose(index)`.  columns: (name, heading, kind, note)
// of the figures of a decision; those that no decision has are not shown.
function drawDecisions(host, columns, decisions, choose) {
  const names = columns.map(([, heading]) => heading);
  const cellOf = (d) => ([name, , kind]) => {
    if (name === "iteration") return element("button", { type: "button" }, short(d.iteration));
    if (name === "choice") return CHOICES[d.choice] + (d.choice === "balance" && !d.moved ? " (not done)" : "");
    return d[name] === null ? "" : SAID[kind](d[name]);
  };
  const rows = decisions.map((d) => columns.map(cellOf(d)));
  const out = table(names, rows, (i) => i === 0 || columns[i][2] === "text");
  out.setAttribute("class", "decisions");
  const lines = [...out.querySelectorAll("tbody tr")];
  const mark = (i) => lines.forEach((line, k) => line.setAttribute("aria-current", k === i));
  lines.forEach((line, i) => {
    line.querySelector("button").setAttribute("aria-label",
      `Receipt of the decision after iteration ${decisions[i].iteration}`);
    line.addEventListener("click", () => { mark(i); choose(i); });
  });
  const notes = columns.filter(([, , , note], i) => note && rows.some((row) => row[i] !== ""));
  const explained = element("p", { class: "soft" },
    notes.map(([, heading, , note]) => `${heading}: ${note}`).join("; ") + (notes.length ? "." : ""));
  host.replaceChildren(...(decisions.length ? [scrolling("Decisions", out), explained]
    : [element("p", { class: "soft" }, "No decision was taken.")]));
  return mark;
}
