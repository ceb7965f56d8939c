// The page of a run in progress: asks for the run again and again, and shows what is new.

const INTERVAL = 1000; // milliseconds from an answer to the next request
const following = new Following(document.getElementById("report"));
let seen = "";

async function ask() {
  const { status } = following;
  try {
    const answer = await fetch(`run.json?seen=${encodeURIComponent(seen)}`);
    if (!answer.ok) throw new Error(`answer ${answer.status}`);
    const run = await answer.json();
    status.classList.remove("bad");
    following.show(run);
    if (run.title) document.title = `pylb: ${run.title}`;
    seen = run.seen;
  } catch (why) {
    status.textContent = `pylb watch does not answer (${why.message}). This is the last picture.`;
    status.classList.add("bad");
  }
  setTimeout(ask, INTERVAL);
}

ask();
