// What the report, the explorer and the live page share: a slider through the iterations, the
// picture of the run, the decisions with their receipts, the ranks in an iteration, the migrations,
// the objects.

const LIVE = { role: "status", "aria-live": "polite" };

class RunView {
  // chosen: called with the index of the chosen decision; wanted: called with an iteration whose
  // objects the view needs.
  constructor(chosen, wanted) {
    this.chosen = chosen;
    this.slider = element("input", { type: "range", min: 0, value: 0, "aria-label": "Iteration" });
    this.number = element("output", { "aria-live": "off" }, "0");
    this.plain = element("input", { type: "checkbox" });
    this.readout = element("p", { class: "readout", ...LIVE });
    this.receipt = element("div", { class: "receipt", ...LIVE });
    this.picture = null;
    [this.host, this.list] = [element("div"), element("div", { class: "list" })];
    this.bars = element("div", { class: "bars" });
    this.flows = element("div", { class: "flows" });
    this.flowsHead = element("h2", {}, "Migrations of the decision");
    this.side = element("div", { class: "side" },
      element("section", {}, element("h2", {}, "Ranks in the iteration"), this.bars),
      element("section", {}, this.flowsHead, this.flows));
    this.gone = new AbortController();
    this.objects = new ObjectView(wanted, this.gone.signal);
    this.timeline = new Timeline(this.gone.signal, (i) => this.go(i));
    this.alone = element("input", { type: "checkbox" });
    this.alone.addEventListener("change", () => this.zoom());
    this.drawn = new RunPicture(this.host, { go: (i) => this.go(i), zoom: () => this.zoom(), point: (at) => {
      if (at && this.picture) this.readout.textContent = pointed(this.picture, at);
    } }, this.gone.signal);
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.plain.addEventListener("change", () => this.drawn.setPlain(this.plain.checked));
  }

  controls(...more) {
    return element("div", { class: "controls" },
      element("label", {}, "Iteration", this.slider, this.number),
      element("label", {}, this.alone, "timeline of this iteration"),
      element("label", {}, this.plain, "heat map in seconds"), ...more);
  }

  // The timeline shows the iterations that the other pictures show, or only the chosen one.
  zoom() {
    const i = Number(this.slider.value), range = this.alone.checked ? [i, i + 1] : this.drawn.range;
    if (String(range) !== String(this.timeline.range)) this.timeline.zoom(range);
  }

  show(sent, timeline, columns, decisions) {
    const last = this.picture && Number(this.slider.value) >= this.picture.n_iterations - 1;
    const kept = this.kept(), picture = { ...sent, cells: numbers(sent.cells, Uint16Array) };
    this.picture = picture;
    this.slider.max = picture.n_iterations - 1;
    this.drawn.chosen = null;
    this.timeline.show(timeline);
    this.objects.goTo = (i) => this.go(i);
    this.objects.steps = decisions.filter((d) => d.moved && d.choice === "balance" && d.iteration >= 0)
      .map((d) => d.iteration);
    this.drawn.show(picture, decisions);
    this.mark = drawDecisions(this.list, columns, decisions, (i) => {
      this.go(Math.min(Math.max(decisions[i].iteration, 0), picture.n_iterations - 1));
      this.chosen(i);
    });
    this.receipt.hidden = !decisions.length; // then the list says "No decision was taken."
    this.receipt.replaceChildren(element("p", {},
      "Choose a decision to read why it was taken, what it cost and what it saved."));
    const end = picture.n_iterations - 1;
    this.go(last ? end : Math.min(Number(this.slider.value), end)); // if at the end: stay there
    this.restore(kept, decisions);
  }

  // What the user has chosen in the list of decisions: kept when a run in progress has new data.
  kept() {
    const scroll = this.list.querySelector(".scroll"), button = document.activeElement;
    return { top: scroll ? scroll.scrollTop : 0, told: this.told,
      focused: this.list.contains(button) ? button.getAttribute("aria-label") : null };
  }

  restore({ top, told, focused }, decisions) {
    const scroll = this.list.querySelector(".scroll");
    if (!scroll || !this.goesOn) return;
    scroll.scrollTop = top;
    const same = (button) => button.getAttribute("aria-label") === focused;
    const button = [...this.list.querySelectorAll("button")].find(same);
    if (focused && button) button.focus({ preventScroll: true });
    const i = told ? decisions.findIndex((d) => d.iteration === told.iteration) : -1;
    if (i < 0) return;
    this.mark(i);
    this.chosen(i);
  }

  go(i) {
    if (!this.picture) return;
    this.slider.value = i;
    this.number.textContent = i;
    this.slider.setAttribute("aria-valuetext", `iteration ${i}`);
    this.drawn.scrub(i);
    this.timeline.mark(i);
    this.zoom();
    const { told } = this, pair = told && told.moved && told.iteration === i && told.choice === "balance";
    drawBars(this.bars, this.picture, i, pair ? i + 1 : null);
    this.objects.go(i);
    this.readout.textContent = said(this.picture, i);
  }

  // Shows a decision with its receipt, fitted lines and migrations.
  tell(decision) {
    this.told = decision;
    const why = element("details", {}, element("summary", {}, "Why"), element("p", {}, decision.said));
    this.receipt.replaceChildren(element("p", { class: "headline" }, `${decision.headline}.`), why);
    this.drawn.choose(decision);
    if (decision.iteration >= 0) this.go(Math.min(decision.iteration, this.picture.n_iterations - 1));
    const { n_ranks: n } = this.picture;
    drawFlows(this.flows, decision.flows, (rank) => `rank ${rank}`, n, decision.pairs);
  }
}
