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

// The row of controls, and a function that returns the settings.  A control changes only its own
// setting, and only when it is used: the others stay as they were given, to the last digit.
function controlsOf(choices, given, changed) {
  const asked = { ...given }, row = element("div", { class: "controls" });
  // Adds a control; `name` describes it to screen readers.
  const add = (label, name, box, event, taken) => {
    box.setAttribute("aria-label", name);
    box.addEventListener(event, () => { taken(); changed(); });
    row.append(element("label", {}, label, box));
    return box;
  };
  const select = (label, name, options, value, set) => {
    const box = element("select", {}, ...options.map(([v, text, missing]) => element("option",
      { value: v, disabled: missing ? "" : null }, missing ? `${text} (not installed)` : text)));
    box.value = value;
    return add(label, name, box, "change", () => set(box.value));
  };
  const number = (label, name, low, high, value, set) => {
    const box = element("input", { type: "number", min: low, max: high, step: 1, value });
    return add(label, name, box, "input", () =>
      set(Math.max(low, Math.round(Number(box.value)) || low)));
  };
  const range = (label, name, low, high, step, value, set, said) => {
    const box = element("input", { type: "range", min: low, max: high, step, value });
    const out = element("output", { "aria-live": "off" });
    const say = () => {
      out.textContent = said();
      box.setAttribute("aria-valuetext", said());
    };
    add(label, name, box, "input", () => { set(Number(box.value)); say(); });
    box.after(out);
    say();
    return box;
  };
  const ranks = () => asked.n_ranks || choices.n_ranks, own = [asked.alpha, asked.beta];
  const networks = NETWORKS.some((n) => n[1] === own[0] && n[2] === own[1]) ? NETWORKS
    : [["as given", ...own], ...NETWORKS];
  select("Strategy", "Strategy", choices.strategies, asked.strategy, (v) => { asked.strategy = v; });
  const trigger = select("Trigger", "Trigger", [...choices.triggers, EVERY].map((v) => [v, v]),
    asked.trigger || EVERY, (v) => { asked.trigger = v === EVERY ? "" : v; });
  const every = number("iterations", "Iterations from one LB step to the next", 1, 1e6, asked.every,
    (v) => { asked.every = v; });
  const network = select("Network", "Network: seconds per message, bytes per second",
    networks.map(([v]) => [v, v]), networks.find((n) => n[1] === own[0] && n[2] === own[1])[0],
    (v) => { [, asked.alpha, asked.beta] = networks.find((n) => n[0] === v); });
  const cost = range("Cost", "Cost of an LB step", COST.low, COST.high, COST.step,
    asked.cost ? Math.log10(asked.cost) : COST.low, (v) => { asked.cost = v <= COST.low ? null : 10 ** v; },
    () => (asked.cost === null ? "as measured" : seconds(asked.cost)));
  range("Ranks", "Number of ranks", 1, Math.max(4 * choices.n_ranks, 64, ranks()), 1, ranks(),
    (v) => { asked.n_ranks = v === choices.n_ranks ? 0 : v; }, () => String(ranks()));
  const rank = number("Speed of rank", "Rank whose speed is changed", 0, ranks() - 1, asked.rank,
    (v) => { asked.rank = v; });
  range("factor", "Speed of that rank", 0.1, 2, 0.05, asked.speed, (v) => { asked.speed = v; },
    () => `\u00d7 ${short(asked.speed)}`);
  const read = () => {
    rank.max = ranks() - 1;
    const idle = BASELINES.includes(asked.strategy);
    for (const [box, matters] of [[trigger, !idle], [every, !idle && !asked.trigger], [cost, !idle],
      [rank, asked.speed !== 1], [network, choices.edges]]) {
      box.disabled = !matters; // and grey: this control has no effect with these settings
      box.closest("label").classList.toggle("idle", !matters);
    }
    return { ...asked, rank: Math.min(asked.rank, ranks() - 1) };
  };
  read();
  return { row, read };
}

function render({ model, el }) {
  const status = element("p", { class: "status", ...LIVE });
  const verdict = element("p", { class: "verdict" });
  const facts = element("div"), figures = element("details", {},
    element("summary", {}, "All figures of the replay"), facts);
  const shown = element("div"); // what an answer shows; hidden after an error
  let waiting = null; // the timer of `silent`
  let replaying = false, again = false, asked = 0;
  let wanted = null; // the iteration whose objects must be requested next
  let asking = false; // whether a request for objects has no answer yet

  const bad = (text) => {
    status.textContent = text;
    status.classList.add("bad");
  };
  const silent = () => {
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
  const view = new RunView((i) => tell({ kind: "receipt", index: i }), (i) => {
    wanted = i;
    if (!asking) askObjects();
  });

  const showAnswer = () => {
    const answer = model.get("answer");
    if (!answer || !answer.picture) return;
    if (view.picture && view.picture.n_ranks !== answer.picture.n_ranks) view.objects.base = null;
    view.show(answer.picture, answer.timeline, answer.columns, answer.decisions);
    shown.hidden = false;
    facts.replaceChildren(factsOf(answer.figures.facts));
    view.flows.replaceChildren(element("p", { class: "soft" }, answer.decisions.length
      ? "Choose a decision to see what moved." : "No LB step, so no object moved."));
    verdict.textContent = `${answer.figures.verdict}.`;
    const { seconds: all, recorded, unbalanced } = answer.figures;
    status.textContent = `${seconds(all)} in all; as recorded: ${seconds(recorded)}; unbalanced: `
      + `${seconds(unbalanced)}. Replayed in ${short(answer.milliseconds)} ms.`;
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
    if (message.kind === "computing") status.textContent = "computing \u2026";
    if (message.kind === "receipt") view.tell(message.told);
    if (message.kind === "objects") {
      if (message.base) view.objects.start(message.base);
      view.objects.show(frameOf(message.frame), message.next && frameOf(message.next));
      askObjects();
    }
    if (message.kind === "error") {
      asking = false;
      shown.hidden = message.replay; // the old picture does not belong to these settings
      bad(message.said);
    }
    if (again) ask();
  };

  el.replaceChildren(element("div", { class: "pylb", role: "group",
    "aria-label": "Explorer of a recorded run" },
  controls.row, status, shown));
  shown.append(verdict, view.timeline.host, view.controls(), view.readout, figures, view.host,
    element("h2", {}, "Decisions"), view.list, view.receipt, view.side, view.objects.element);
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
