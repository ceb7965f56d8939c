// The page of a finished run: reads the run from the page and shows it.

new Report(document.getElementById("report")).show(
  JSON.parse(document.getElementById("run").textContent));
