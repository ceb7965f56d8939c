// The report: reads the run from the page, and lets its reader look around.

function decoded(picture) {
  const text = atob(picture.cells), raw = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) raw[i] = text.charCodeAt(i);
  const view = new DataView(raw.buffer), cells = new Uint16Array(raw.length / 2);
  for (let i = 0; i < cells.length; i += 1) cells[i] = view.getUint16(2 * i, true);
  return { ...picture, cells };
}

function factsOf(run) {
  return element("dl", { class: "facts" }, ...run.facts.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

const percent = (x) => `${(100 * x).toFixed(1)} %`;

function efficienciesOf(run) {
  const columns = ["region", "time", "parallel efficiency", "load balance",
    "communication efficiency", "load balance of iterations"];
  const rows = run.regions.map((r) => [r.name, seconds(r.elapsed), percent(r.parallel_efficiency),
    percent(r.load_balance), percent(r.communication_efficiency), percent(r.of_iterations)]);
  const out = [element("h2", {}, "Efficiency"),
    element("p", { class: "soft" }, "As POP and TALP define it: parallel efficiency is load "
      + "balance times communication efficiency. Regions are the iterations between balancings; "
      + "the last column counts what the ranks wait for the slowest in each single iteration."),
    element("div", { class: "scroll", role: "region", "aria-label": "Efficiency", tabindex: "0" },
      table(columns, rows))];
  if (run.regions_in_all > run.regions.length) {
    out.push(element("p", { class: "soft" }, `${run.regions_in_all - run.regions.length + 1} more `
      + "regions are not shown."));
  }
  return out;
}

function heaviestOf(run) {
  if (!run.heaviest.length) return [];
  const named = run.heaviest.some((row) => row[1]);
  const rows = run.heaviest.map(([key, name, mean, iterations, rank]) =>
    (named ? [key, name] : [key]).concat([seconds(mean), short(iterations), short(rank)]));
  const columns = (named ? ["object", "name"] : ["object"]).concat(
    ["mean load", "iterations", "last on rank"]);
  return [element("h2", {}, "Heaviest objects"),
    element("div", { class: "scroll", role: "region", "aria-label": "Heaviest objects",
      tabindex: "0" }, table(columns, rows, named ? 2 : 1))];
}

// All migrations, between groups of neighbouring ranks, as flows.
function flowsOfAll(groups) {
  const out = [];
  groups.objects.forEach((row, i) => row.forEach((n, j) => { if (n) out.push([i, j, n, 0]); }));
  return out.sort((a, b) => b[2] - a[2]).slice(0, 120);
}

function report(host, run) {
  document.title = `pylb: ${run.title}`;
  const picture = decoded(run.picture);
  const readout = element("p", { class: "readout", role: "status", "aria-live": "polite" });
  const slider = element("input", { type: "range", min: 0, max: picture.n_iterations - 1, value: 0,
    id: "iteration" });
  const number = element("output", { for: "iteration", "aria-live": "off" }, "0");
  const relative = element("input", { type: "checkbox" });
  const all = element("button", { type: "button" }, "All iterations");
  const bars = element("div", { class: "bars" }), flows = element("div", { class: "flows" });
  const flowsHead = element("h2", {}, "Migrations");
  const receipt = element("div", { class: "receipt", role: "status", "aria-live": "polite" },
    element("p", {}, "Choose a decision to read why it was taken, what it cost and what it saved."));
  const list = element("div", {});

  const pictureHost = element("div", {});
  const go = (i) => {
    slider.value = i;
    number.textContent = i;
    shown.scrub(i);
    drawBars(bars, picture, i);
    readout.textContent = said(picture, i);
  };
  const choose = (i) => {
    const d = run.decisions[i];
    mark(i);
    receipt.replaceChildren(element("p", {}, d.said));
    shown.choose(d);
    go(Math.min(Math.max(d.iteration, 0), picture.n_iterations - 1));
    flowsHead.textContent = `Migrations after iteration ${d.iteration}`;
    drawFlows(flows, d.flows, (rank) => `rank ${rank}`);
  };
  const everything = () => {
    const g = run.groups;
    const name = (i) => (g.step > 1
      ? `${i * g.step}-${Math.min((i + 1) * g.step, picture.n_ranks) - 1}` : `rank ${i}`);
    flowsHead.textContent = "Migrations, all";
    drawFlows(flows, flowsOfAll(g), name);
  };

  host.replaceChildren(
    element("h1", {}, run.title), factsOf(run),
    element("h2", {}, "Loads of the ranks"),
    element("div", { class: "controls" },
      element("label", {}, "Iteration", slider), number,
      element("label", {}, relative, "relative to the mean"), all),
    readout, pictureHost,
    element("p", { class: "soft hint" }, "Drag to look closer; a double click shows everything; "
      + "a click goes to an iteration."),
    element("h2", {}, "Decisions"), list, receipt,
    element("ol", { class: "printed" }, ...run.decisions.map((d) => element("li", {}, d.said))),
    element("div", { class: "side" },
      element("section", {}, element("h2", {}, "Ranks in the iteration"), bars),
      element("section", {}, flowsHead, flows)),
    ...efficienciesOf(run), ...heaviestOf(run),
    element("p", { class: "soft" }, `Made by pylb ${run.pylb}.`));

  const shown = new RunPicture(pictureHost, { go,
    point: (at) => { if (at) readout.textContent = pointed(picture, at); } });
  shown.show(picture, run.decisions);
  const mark = drawDecisions(list, run.decisions, choose);
  if (run.decisions_in_all > run.decisions.length) {
    list.append(element("p", { class: "soft" }, `The ${run.decisions.length} of `
      + `${run.decisions_in_all} decisions that cost or saved most.`));
  }
  slider.addEventListener("input", () => go(Number(slider.value)));
  relative.addEventListener("change", () => shown.setRelative(relative.checked));
  all.addEventListener("click", () => { shown.choose(null); shown.all(); mark(-1); everything(); });
  go(0);
  everything();
}

report(document.getElementById("report"), JSON.parse(document.getElementById("run").textContent));
