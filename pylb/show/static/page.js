// The page of a finished run: reads the run from the page and shows it.

const run = JSON.parse(document.getElementById("run").textContent);
document.title = `pylb: ${run.title}`;
new Report(document.getElementById("report")).show(run);
