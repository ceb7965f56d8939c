// The widget of a run in progress: shows what the kernel sends.

function render({ model, el }) {
  const status = element("p", { class: "status", "aria-live": "off" }), page = element("div");
  let report = null;
  const show = () => {
    const run = model.get("run");
    status.textContent = run.said;
    if (!run.picture) return;
    report = report || new Report(page, { "aria-label": "Iteration" });
    report.view.goesOn = !run.ended;
    report.show(run);
  };
  el.replaceChildren(element("div", { class: "pylb", role: "group", "aria-label": "A recorded run" },
    status, page));
  show();
  model.on("change:run", show);
  return () => {
    model.off("change:run", show);
    if (report) report.view.gone.abort();
  };
}

export default { render };
