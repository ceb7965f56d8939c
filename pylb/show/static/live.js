// The page of a run in progress: asks for the run again and again, and shows what is new.

const INTERVAL = 1000; // milliseconds from an answer to the next request

function follow(host) {
  const status = element("p", { class: "status", "aria-live": "off" }, "Waiting for the run ...");
  const page = element("div");
  host.replaceChildren(status, page);
  let report = null, seen = "";

  const bad = (why) => {
    status.textContent = `${why} This is the last picture.`;
    status.classList.add("bad");
  };
  const ask = async () => {
    try {
      const answer = await fetch(`run.json?seen=${encodeURIComponent(seen)}`);
      if (!answer.ok) throw new Error(`answer ${answer.status}`);
      const run = await answer.json();
      status.classList.remove("bad");
      if (run.said) status.textContent = run.said;
      if (run.seen !== seen && run.picture) {
        document.title = `pylb: ${run.title}`;
        report = report || new Report(page, { id: "iteration" });
        report.view.goesOn = true;
        report.show(run);
      }
      seen = run.seen;
    } catch (why) {
      bad(`pylb watch does not answer (${why.message}).`);
    }
    setTimeout(ask, INTERVAL);
  };
  ask();
}

follow(document.getElementById("report"));
