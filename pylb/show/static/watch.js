// The widget of a run in progress: shows what the kernel sends.

function render({ model, el }) {
  const host = element("div", { class: "pylb", role: "group", "aria-label": "A recorded run" });
  const following = new Following(host), show = () => following.show(model.get("run"));
  el.replaceChildren(host);
  show();
  model.on("change:run", show);
  return () => {
    model.off("change:run", show);
    following.report.view.gone.abort();
  };
}

export default { render };
