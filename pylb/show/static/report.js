// The report: reads the run from the page and shows it.

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
      + "balance times communication efficiency. Regions are the iterations between LB steps; the "
      + "last column counts the waiting for the slowest rank in each single iteration."),
    scrolling("Efficiency", table(columns, rows))];
  if (run.regions_in_all > run.regions.length) {
    const more = run.regions_in_all - run.regions.length + 1;
    out.push(element("p", { class: "soft" }, `${more} more regions are not shown.`));
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
    scrolling("Heaviest objects", table(columns, rows, named ? 2 : 1))];
}

// All migrations, between groups of neighbouring ranks, as flows.
function flowsOfAll(groups) {
  const out = [];
  groups.objects.forEach((row, i) => row.forEach((n, j) => { if (n) out.push([i, j, n, 0]); }));
  return out.sort((a, b) => b[2] - a[2]).slice(0, 120);
}

function report(host, run) {
  document.title = `pylb: ${run.title}`;
  const bytes = Uint8Array.from(atob(run.picture.cells), (c) => c.charCodeAt(0));
  const picture = decoded(run.picture, bytes);
  const all = element("button", { type: "button" }, "All iterations");
  const view = new RunView({ id: "iteration" },
    "Choose a decision to read why it was taken, what it cost and what it saved.", (i) => {
      view.flowsHead.textContent = `Migrations after iteration ${run.decisions[i].iteration}`;
      view.tell(run.decisions[i]);
    });
  const everything = () => {
    const { step } = run.groups;
    const name = (i) => (step > 1
      ? `${i * step}-${Math.min((i + 1) * step, picture.n_ranks) - 1}` : `rank ${i}`);
    view.flowsHead.textContent = "Migrations, all";
    drawFlows(view.flows, flowsOfAll(run.groups), name);
  };

  host.replaceChildren(
    element("h1", {}, run.title), factsOf(run),
    element("h2", {}, "Loads of the ranks"), view.controls(all), view.readout, view.host,
    element("p", { class: "soft hint" }, "Drag to zoom in; double-click to zoom out; click to go "
      + "to an iteration."),
    element("h2", {}, "Decisions"), view.list, view.receipt,
    element("ol", { class: "printed" }, ...run.decisions.map((d) => element("li", {}, d.said))),
    view.side, ...efficienciesOf(run), ...heaviestOf(run),
    element("p", { class: "soft" }, `Made by pylb ${run.pylb}.`));
  view.show(picture, run.decisions);
  if (run.decisions_in_all > run.decisions.length) {
    view.list.append(element("p", { class: "soft" }, `The ${run.decisions.length} of `
      + `${run.decisions_in_all} decisions that cost or saved most.`));
  }
  all.addEventListener("click", () => {
    view.drawn.choose(null);
    view.drawn.all();
    view.mark(-1);
    everything();
  });
  everything();
}

report(document.getElementById("report"), JSON.parse(document.getElementById("run").textContent));
