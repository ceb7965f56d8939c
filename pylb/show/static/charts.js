// Charts of lines over the iterations.  Each chart has a height, and a function that draws it, with
// the names of its lines, on the axis of iterations that all charts of a picture share.

// Returns a function that gives the y of a value; the box shows values from `low` to `high`.
const scaleOf = (box, low, high) => (v) =>
  box.top + box.height * (1 - Math.min(Math.max((v - low) / (high - low || 1), 0), 1));

// The top of an axis for these values.  A few values far above the others are cut off; otherwise
// the lines would be nearly flat.
function topOf(values) {
  const sorted = values.slice().sort((a, b) => a - b), most = sorted[sorted.length - 1];
  const high = sorted[Math.floor(0.95 * (sorted.length - 1))];
  return high > 0 && most > 3 * high ? 1.25 * high : most;
}

// If values are above the top of the axis: a text with the largest value, to the right of the top.
const beyond = (axis, box, values, top, said) => {
  const most = Math.max(...values);
  return most > top * 1.01
    ? [text(axis.left + axis.width + 6, box.top + 4, `up to ${said(most)}`)] : [];
};

function grid(axis, box, y, low, high, said) {
  return ticks(low, high, 4).flatMap((value) => [
    line(axis.left, y(value), axis.left + axis.width, y(value), GRID),
    text(axis.left - 6, y(value) + 4, said(value), "end")]);
}

// The visible columns and their places; of a single one both ends, for a line instead of a point.
const seenOf = ({ seen, range }) =>
  (seen.length === 1 ? range.map((end) => [seen[0][0], end]) : seen);

// A path through the values of the visible columns.
function through(axis, y, values) {
  return seenOf(axis).map(([c, at], i) => `${i ? "L" : "M"}${axis.x(at).toFixed(1)},`
    + y(values[c]).toFixed(1)).join("");
}

const stroke = (d, colour, more = {}) =>
  svg("path", { d, fill: "none", stroke: colour, "stroke-width": 1.6, ...more });

// The legend of a chart.  names: [name, colour, dash] for a line, or [name] for the LB steps.
function namesOf(axis, y, names) {
  const out = [];
  let x = axis.narrow ? 0 : axis.left;
  for (const [name, colour, dash] of names) {
    if (colour) out.push(line(x, y - 4, x + 18, y - 4, colour,
      { "stroke-width": 2, "stroke-dasharray": dash }));
    else out.push(triangle(x + 9, y, 5, 9));
    out.push(text(x + 22, y, name));
    x += 36 + 6.3 * name.length;
  }
  return out;
}

// Seconds of the slowest rank, of the mean over the ranks and of the whole iteration; in a replay
// also of the slowest rank as recorded, which then replaces the whole iteration in the legend.
const secondsChart = {
  height: 140,
  draw(axis, box, p, chosen) {
    const lines = [p.max, p.elapsed, ...(p.recorded ? [p.recorded] : [])];
    const values = lines.flatMap((v) => axis.seen.map(([c]) => v[c]));
    const high = topOf(values);
    const y = scaleOf(box, 0, high * 1.05 || 1), max = through(axis, y, p.max);
    const back = seenOf(axis).slice().reverse().map(([c, at]) => `L${axis.x(at).toFixed(1)},`
      + y(p.mean[c]).toFixed(1)).join("");
    const out = [...grid(axis, box, y, 0, high * 1.05 || 1, seconds),
      ...beyond(axis, box, values, high * 1.05, seconds), axis.clipped(box,
      svg("path", { d: `${max}${back}Z`, fill: ORANGE, opacity: 0.22 }),
      p.recorded ? stroke(through(axis, y, p.recorded), INK,
        { "stroke-width": 1.1, "stroke-dasharray": "1 3" }) : "",
      stroke(through(axis, y, p.elapsed), GREY, { "stroke-width": 1, "stroke-dasharray": "2 2" }),
      stroke(max, VERMILLION),
      stroke(through(axis, y, p.mean), BLUE, { "stroke-dasharray": "6 3" }),
      ...fitted(axis, y, p, chosen))];
    const names = [["slowest rank", VERMILLION], ["mean", BLUE, "6 3"]];
    if (p.recorded) names.push(["as recorded", INK, "1 3"]);
    else names.push(["whole iteration", GREY, "2 2"]);
    if (p.balanced.length) names.push(["LB step"]);
    return [...out, ...namesOf(axis, box.top - 8, names)];
  },
};

// The lines that the trigger had fitted when it took the chosen decision.
function fitted(axis, y, p, d) {
  const f = d && d.fit;
  if (!f || f.max_slope === null || f.max_offset === null) return [];
  const before = p.balanced.filter((i) => i < d.iteration);
  const last = before.length ? before[before.length - 1] : -1;
  const fit = (slope, offset, colour) => line(axis.x(last + 1.5), y(offset + slope),
    axis.x(d.iteration + 0.5), y(offset + slope * (d.iteration - last)), colour,
    { "stroke-width": 3, opacity: 0.55 });
  return [fit(f.max_slope, f.max_offset, VERMILLION), fit(f.mean_slope, f.mean_offset, BLUE)];
}

// max/mean of each iteration; for each LB step, its estimates of max/mean before and after it.
const ratioChart = {
  height: 90,
  draw(axis, box, p, chosen, decisions) {
    const ratio = p.max.map((max, c) => (p.mean[c] > 0 ? max / p.mean[c] : 1));
    const [a, b] = axis.range;
    const done = decisions.filter((d) => d.choice === "balance" && d.iteration + 1 >= a
      && d.iteration < b);
    const values = [...axis.seen.map(([c]) => ratio[c]),
      ...done.flatMap((d) => [d.before, d.predicted]).filter((v) => v !== null)];
    const high = Math.max(topOf(values), 1.05);
    const y = scaleOf(box, 1, high);
    const marks = done.flatMap((d) => {
      const x = axis.x(d.iteration + 1);
      if (d.before === null || d.predicted === null) return [];
      return [line(x, y(d.before), x, y(d.predicted), BLUE, { "stroke-width": 1.2 }),
        line(x - 4, y(d.predicted), x + 4, y(d.predicted), BLUE, { "stroke-width": 2.5 })];
    });
    const names = [["max/mean", VERMILLION]];
    if (p.balanced.length) names.push(["before an LB step, and predicted", BLUE]);
    return [...grid(axis, box, y, 1, high, short), ...beyond(axis, box, values, high, short),
      axis.clipped(box, stroke(through(axis, y, ratio), VERMILLION), ...marks),
      ...namesOf(axis, box.top - 8, names)];
  },
};
