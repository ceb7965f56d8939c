// The explorer: when a control changes, it asks the kernel for a replay and shows the answer.  Only
// one replay is requested at a time.  If controls change before the answer comes, one more request
// follows the answer, with the latest settings.

const PATIENCE = 3000; // milliseconds until the page says that no answer has come
const NETWORKS = [["none", 0, 0], ["1 \u00b5s, 10 GB/s", 1e-6, 1e-10], ["10 \u00b5s, 1 GB/s", 1e-5, 1e-9],
  ["50 \u00b5s, 100 MB/s", 5e-5, 1e-8], ["1 ms, 10 MB/s", 1e-3, 1e-7]];
const EVERY = "every ...";
const BASELINES = ["none", "unbalanced"]; // strategies without decisions
// The slider of the cost: exponents of 10 in seconds; the lowest one means: as measured.
const COST = { low: -6, high: 2, step: 0.25 };

function option(value, text) { return element("option", { value }, text ?? value); }

// The row of controls, and a function that reads the settings from them.
function controlsOf(choices, settings, changed) {
  const select = (label, values, value) => {
    const box = element("select", { "aria-label": label }, ...values.map((v) => option(v)));
    box.value = value;
    box.addEventListener("change", changed);
    return box;
  };
  const range = (label, low, high, step, value, told) => {
    const box = element("input", { type: "range", min: low, max: high, step, "aria-label": label });
    const out = element("output", { "aria-live": "off" });
    box.value = value;
    box.say = () => {
      out.textContent = told(Number(box.value));
      box.setAttribute("aria-valuetext", out.textContent);
    };
    box.addEventListener("input", () => { box.say(); changed(); });
    box.say();
    box.out = out;
    return box;
  };
  const number = (label, low, high, value) => {
    const box = element("input", { type: "number", min: low, max: high, step: 1,
      "aria-label": label });
    box.value = value;
    box.addEventListener("input", changed);
    return box;
  };
  const c = {
    strategy: select("Strategy", choices.strategies, settings.strategy),
    trigger: select("Trigger", [...choices.triggers, EVERY], settings.trigger || EVERY),
    every: number("Iterations from one LB step to the next", 1, 1e6, settings.every),
    ranks: range("Number of ranks", 1, Math.max(4 * choices.n_ranks, 64), 1,
      settings.n_ranks || choices.n_ranks, (v) => String(v)),
    network: select("Network: seconds per message, bytes per second", NETWORKS.map((n) => n[0]),
      (NETWORKS.find((n) => n[1] === settings.alpha) || NETWORKS[0])[0]),
    cost: range("Cost of an LB step", COST.low, COST.high, COST.step,
      settings.cost ? Math.log10(settings.cost) : COST.low,
      (v) => (v <= COST.low ? "as measured" : seconds(10 ** v))),
    rank: number("Rank whose speed is changed", 0, choices.n_ranks - 1, settings.rank),
    speed: range("Speed of that rank", 0.1, 2, 0.05, settings.speed, (v) => `\u00d7 ${short(v)}`),
  };
  const read = () => {
    const network = NETWORKS.find((n) => n[0] === c.network.value), power = Number(c.cost.value);
    c.rank.max = Number(c.ranks.value) - 1;
    const byEvery = c.trigger.value === EVERY, n = Number(c.ranks.value);
    const idle = BASELINES.includes(c.strategy.value), speed = Number(c.speed.value);
    for (const [box, matters] of [[c.trigger, !idle], [c.every, !idle && byEvery], [c.cost, !idle],
      [c.rank, speed !== 1], [c.network, choices.edges]]) {
      box.disabled = !matters; // and grey: this control has no effect with these settings
      box.closest("label").classList.toggle("idle", !matters);
    }
    return { strategy: c.strategy.value, trigger: byEvery ? "" : c.trigger.value,
      every: Math.max(1, Math.round(Number(c.every.value)) || 1),
      n_ranks: n === choices.n_ranks ? 0 : n, alpha: network[1], beta: network[2],
      cost: power <= COST.low ? null : 10 ** power,
      rank: Math.min(Math.max(Math.round(Number(c.rank.value)) || 0, 0), n - 1),
      speed };
  };
  const row = element("div", { class: "controls" },
    element("label", {}, "Strategy", c.strategy), element("label", {}, "Trigger", c.trigger),
    element("label", {}, "iterations", c.every), element("label", {}, "Network", c.network),
    element("label", {}, "Cost", c.cost, c.cost.out),
    element("label", {}, "Ranks", c.ranks, c.ranks.out),
    element("label", {}, "Rank", c.rank), element("label", {}, "speed", c.speed, c.speed.out));
  read();
  return { row, read };
}

function render({ model, el }) {
  const status = element("p", { class: "status", ...LIVE });
  const verdict = element("p", { class: "verdict" });
  const facts = element("div"), figures = element("details", {},
    element("summary", {}, "All figures of the replay"), facts);
  let waiting = null; // the timer of `silent`
  let replaying = false, again = false, asked = 0;
  let wanted = null; // the iteration whose objects must be requested next
  let asking = false; // whether a request for objects has no answer yet

  const bad = (text) => {
    status.textContent = text;
    status.classList.add("bad");
  };
  const silent = () => {
    waiting = null;
    replaying = asking = false;
    bad("No answer from a kernel (it is gone, or busy): this is the last picture.");
  };
  const heard = () => {
    clearTimeout(waiting);
    waiting = replaying ? setTimeout(silent, PATIENCE) : null;
    status.classList.remove("bad");
  };
  const tell = (what) => {
    clearTimeout(waiting);
    waiting = setTimeout(silent, PATIENCE);
    try { model.send(what); } catch { silent(); }
  };
  const ask = () => {
    if (replaying) { again = true; return; }
    again = false;
    replaying = true;
    asked += 1;
    tell({ kind: "replay", number: asked, settings: controls.read() });
  };
  const askObjects = () => {
    asking = wanted !== null;
    if (asking) tell({ kind: "objects", iteration: wanted, base: !view.objects.base });
    wanted = null;
  };
  const controls = controlsOf(model.get("choices"), model.get("settings"), ask);
  const view = new RunView({ "aria-label": "Iteration" }, "Choose a decision to read its receipt.",
    (i) => tell({ kind: "receipt", index: i }), (i) => {
      wanted = i;
      if (!asking) askObjects();
    });

  const showAnswer = () => {
    const answer = model.get("answer");
    if (!answer || !answer.picture) return;
    const { cells, n_ranks: ranks } = answer.picture;
    if (view.picture && view.picture.n_ranks !== ranks) view.objects.base = null;
    view.show(decoded(answer.picture, cells.buffer ? cells : new Uint8Array(cells)),
      answer.timeline, answer.columns, answer.decisions);
    facts.replaceChildren(factsOf(answer.figures.facts));
    view.flows.replaceChildren(element("p", { class: "soft" }, "Choose a decision to see what moved."));
    verdict.textContent = `${answer.figures.verdict}.`;
    const { seconds: all, recorded } = answer.figures;
    status.textContent = `${seconds(all)} in all; as recorded: ${seconds(recorded)}. `
      + `Replayed in ${short(answer.milliseconds)} ms.`;
    el.firstChild.dataset.number = answer.number;
  };
  const onAnswer = () => {
    replaying = false;
    heard();
    showAnswer();
    if (again) ask();
  };
  const onMessage = (message) => {
    replaying = replaying && message.kind !== "error";
    heard();
    if (message.kind === "receipt") view.tell(message.told);
    if (message.kind === "objects") {
      if (message.base) view.objects.start(message.base);
      view.objects.show(frameOf(message.frame), message.next && frameOf(message.next));
      askObjects();
    }
    if (message.kind === "error") {
      asking = false;
      bad(message.said);
    }
    if (again) ask();
  };

  el.replaceChildren(element("div", { class: "pylb", role: "group",
    "aria-label": "Explorer of a recorded run" },
  controls.row, verdict, status, view.timeline.host, view.controls(), view.readout, figures, view.host,
  element("h2", {}, "Decisions"), view.list, view.receipt, view.side, view.objects.element));
  showAnswer();
  model.on("change:answer", onAnswer);
  model.on("msg:custom", onMessage);
  tell({ kind: "hello" });
  return () => {
    clearTimeout(waiting);
    view.gone.abort();
    model.off("change:answer", onAnswer);
    model.off("msg:custom", onMessage);
  };
}

export default { render };
