// The report: shows a run; `show` is called again when a run in progress has new data.

const MOST_PRINTED = 24; // decisions on paper
const percent = (x) => `${(100 * x).toFixed(1)} %`;

function efficienciesOf(run) {
  const columns = ["region", "time", "parallel efficiency", "load balance",
    "communication efficiency", "load balance of iterations"];
  const rows = run.regions.map((r) => [r.name, seconds(r.elapsed), percent(r.parallel_efficiency),
    percent(r.load_balance), percent(r.communication_efficiency), percent(r.of_iterations)]);
  const out = [element("h2", {}, "Efficiency"),
    element("p", { class: "soft" }, "As POP and TALP define it: parallel efficiency is load "
      + "balance times communication efficiency. Regions are the iterations between LB steps; "
      + "together they can take less time than the whole run, which includes the time between "
      + "iterations. Waits for a core lower the communication efficiency. The last column also counts "
      + "the waiting if a different rank is the slowest in each iteration."),
    scrolling("Efficiency", table(columns, rows))];
  if (run.regions_in_all > run.regions.length) {
    const more = run.regions_in_all - run.regions.length;
    out.push(element("p", { class: "soft" }, `Not shown: ${count(more, "region")} more.`));
  }
  return out;
}

function heaviestOf(run) {
  if (!run.heaviest.length) return [];
  const rows = run.heaviest.map(([key, name, mean, iterations, rank]) =>
    [key, name, seconds(mean), short(iterations), short(rank)]);
  const columns = ["object", "name", "mean load", "iterations", "last on rank"];
  return [element("h2", {}, "Heaviest objects"),
    scrolling("Heaviest objects", table(columns, rows, (i) => i < 2))];
}

class Report {
  constructor(host) {
    [this.facts, this.verdict] = [element("div"), element("p", { class: "verdict" })];
    this.when = element("p", { class: "soft" });
    this.tables = element("div");
    this.printed = element("ol", { class: "printed" });
    this.all = element("button", { type: "button" }, "All iterations");
    this.view = new RunView((i) => {
      const chosen = this.run.decisions[i];
      this.view.flowsHead.textContent = `Migrations after iteration ${chosen.iteration}`;
      this.view.tell(chosen);
    }, (i) => this.showObjects(i));
    this.all.addEventListener("click", () => {
      this.view.told = null;
      this.view.drawn.choose(null);
      this.view.drawn.all();
      this.view.mark(-1);
      this.everything();
    });
    this.title = element("h1");
    const { view } = this;
    view.goesOn = true;
    host.replaceChildren(
      this.title, this.verdict, this.when, view.timeline.host, view.controls(this.all), view.readout,
      this.facts, element("p", { class: "soft hint" }, "Time in the loops = computing + "
        + "waiting for the slowest rank + LB steps + messages, waits for cores and all else. The headline counts "
        + "of the last part only the waits for cores that ranks share."),
      element("h2", {}, "Loads of the ranks"), view.host,
      element("p", { class: "soft hint" }, "Drag to zoom in; double-click to zoom out; click to go "
        + "to an iteration."),
      element("h2", {}, "Decisions"), view.list, view.receipt, this.printed, view.side,
      view.objects.element, this.tables);
  }

  show(run) {
    this.run = run;
    this.title.textContent = run.title;
    this.verdict.textContent = `${run.verdict}.`;
    this.when.textContent = `${run.when} The time without LB steps is computed from the same loads.`;
    this.facts.replaceChildren(factsOf(run.facts));
    const worth = (d) => Math.max(d.cost || 0, Math.abs(d.gain || 0));
    const most = [...run.decisions].sort((a, b) => worth(b) - worth(a)).slice(0, MOST_PRINTED);
    const left = run.decisions_in_all - most.length;
    this.printed.replaceChildren(...most.sort((a, b) => a.iteration - b.iteration)
      .map((d) => element("li", {}, `${d.headline}.`)),
    ...(left ? [element("li", { class: "soft" }, `${count(left, "decision")} that cost and saved less.`)] : []));
    this.tables.replaceChildren(...efficienciesOf(run), ...heaviestOf(run),
      element("p", { class: "soft" }, `Made by pylb ${run.pylb}.`));
    this.view.objects.element.hidden = !run.objects;
    this.frames = null;
    this.everything();
    this.view.show(run.picture, run.timeline, run.columns, run.decisions);
    if (run.decisions_in_all > run.decisions.length) {
      this.view.list.append(element("p", { class: "soft" }, `Only ${run.decisions.length} of `
        + `${run.decisions_in_all} decisions are listed: those that cost or saved the most.`));
    }
  }

  // All migrations of the run.
  everything() {
    const { group: step, groups } = this.run, p = this.run.picture.n_ranks;
    const name = (i) => (step > 1
      ? `${i * step}-${Math.min((i + 1) * step, p) - 1}` : `rank ${i}`);
    this.view.flowsHead.textContent = "Migrations, all";
    drawFlows(this.view.flows, groups, name, Math.ceil(p / step), groups.length);
  }

  // Shows the objects in the most recent stored iteration that is not after `iteration`.
  showObjects(iteration) {
    const { objects } = this.run;
    if (!objects) return;
    if (!this.frames) {
      this.frames = objects.frames.map(frameOf);
      this.view.objects.start(objects);
    }
    let k = 0;
    while (k + 1 < this.frames.length && this.frames[k + 1].iteration <= iteration) k += 1;
    const next = this.frames[k + 1];
    const follows = next && next.iteration === this.frames[k].iteration + 1;
    this.view.objects.show(this.frames[k], follows ? next : null);
  }
}

// The report of a run in progress below a line that says how it stands.
class Following {
  constructor(host) {
    this.status = element("p", { class: "status", "aria-live": "off" }, "Waiting for the run ...");
    this.page = element("div", { hidden: "" });
    this.report = new Report(this.page);
    host.replaceChildren(this.status, this.page);
  }

  // run: what was read from the file; without a picture if nothing is new.
  show(run) {
    this.status.textContent = run.said;
    if (!run.picture) return;
    this.page.hidden = false;
    this.report.show(run);
  }
}
