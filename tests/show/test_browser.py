"""The report and the explorer in a real browser: headless Chromium, driven by playwright.

With PYLB_SCREENSHOTS=folder the pictures of the documentation are written there.
"""

import dataclasses
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import pylb
from pylb import console
from pylb.errors import DomainError
from pylb.io import record_file
from pylb.show import course, page, served

sync_api = pytest.importorskip("playwright.sync_api")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install -y chromium")


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tab(browser):
    """Open a page; errors of its console, and dialogs, are collected in `tab.said`."""
    tab = browser.new_page(viewport={"width": 1120, "height": 1000})
    tab.said = []
    tab.on("console", lambda m: m.type in ("error", "warning") and tab.said.append(m.text))
    tab.on("pageerror", lambda error: tab.said.append(str(error)))
    tab.on("dialog", lambda dialog: (tab.said.append(dialog.message), dialog.dismiss()))
    tab.on("request", lambda r: r.url.startswith("http") and tab.said.append(r.url))
    yield tab
    tab.close()


def keep(tab, name, **options):
    """Store a screenshot for the documentation."""
    folder = os.environ.get("PYLB_SCREENSHOTS")
    if not folder:
        return
    from PIL import Image

    path = Path(folder, f"{name}.png")
    tab.screenshot(path=path, **options)
    Image.open(path).convert("RGB").save(path, optimize=True)


SLIDER = "[aria-label=Iteration]"
GROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 25, 29)"}
GROUND = "getComputedStyle(document.querySelector('.pylb, main')).backgroundColor"


def check_access(tab, *schemes, part=None):
    """Check with axe-core contrast, labels, roles and keyboard in these colour schemes."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for scheme in schemes:
        tab.emulate_media(color_scheme=scheme)
        assert tab.evaluate(GROUND) == GROUNDS[scheme]
        found = axe.run(tab, part, {"resultTypes": ["violations"]}).response["violations"]
        assert [(v["id"], [n["html"] for n in v["nodes"][:3]]) for v in found] == []


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    pytest.importorskip("h5py")
    path = tmp_path_factory.mktemp("run") / "run.h5"
    pylb.demo.run(8, 128, 120, save=path, strategy="RefineLB", trigger="metabalancer")
    return pylb.RunRecord.load(path)


def opened(tab, run, path, **options):
    tab.goto(page.write(course.of(run, **options), path).as_uri())
    tab.wait_for_selector(".decisions")


# ---- the report ----


def test_the_report_says_and_shows_the_right_numbers(tab, run, tmp_path):
    opened(tab, run, tmp_path / "run.html", title="A heated ring")
    assert tab.title() == "pylb: A heated ring"
    facts = dict(
        zip(tab.locator("dt").all_inner_texts(), tab.locator("dd").all_inner_texts(), strict=True)
    )
    assert (facts["ranks"], facts["objects"], facts["iterations"]) == ("8", "128", "120")
    keep(tab, "report", clip={"x": 0, "y": 0, "width": 1120, "height": 980})

    # the heat map shows what was measured: the colour of each cell follows its load
    slowest = int(course.of(run).times[60].argmax())
    tab.locator(".picture canvas").scroll_into_view_if_needed()
    box = tab.locator(".picture canvas").bounding_box()
    x = box["x"] + box["width"] * 60.5 / 120
    tab.mouse.move(x, box["y"] + box["height"] * (1 - (slowest + 0.5) / 8))
    said = tab.locator(".readout").inner_text()
    assert said.startswith(f"Rank {slowest} in iteration 60: ")
    milliseconds = float(re.findall(r": ([\d.]+) ms", said)[0])
    assert milliseconds == pytest.approx(1e3 * run.max[60], rel=2e-3)

    # the pointer and the slider move together in all charts
    assert tab.locator(".picture svg > line[visibility=visible]").count() == 1
    assert tab.locator(".picture svg > g[pointer-events=none] rect").count() == 3

    # a decision and its receipt
    receipts = list(run.history)
    i = next(i for i, r in enumerate(receipts) if r.migrations)
    tab.locator(".decisions button").nth(i).focus()
    tab.keyboard.press("Enter")
    assert tab.locator(".receipt .headline").inner_text() == f"{receipts[i].headline}."
    tab.locator(".receipt summary").click()
    assert tab.locator(".receipt details p").inner_text() == receipts[i].explain()
    assert tab.locator("tr[aria-current=true]").count() == 1
    titles = tab.locator(".flows path title").all_text_contents()
    assert sum(int(re.findall(r": (\d+) obj", t)[0]) for t in titles) == receipts[i].migrations

    # the keyboard moves the slider
    tab.locator(SLIDER).focus()
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowRight")
    assert tab.locator("output").inner_text() == "1"
    assert tab.locator(".readout").inner_text().startswith("Iteration 1: rank ")
    assert tab.locator(".bars rect").count() == 8

    # zoom in and out
    tab.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 20)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 20)
    tab.mouse.up()
    ticks = [t for t in tab.locator(".picture svg text").all_text_contents() if t.isdigit()]
    assert "60" not in ticks[-3:] or "30" in ticks
    assert "100" not in ticks
    tab.get_by_role("button", name="All iterations").click()
    assert "time of the rank / mean" in tab.locator(".picture svg").text_content()
    tab.get_by_label("heat map in seconds").check()
    assert "seconds of the rank" in tab.locator(".picture svg").text_content()
    assert tab.said == []


def test_the_page_says_first_whether_it_helped(tab, run, tmp_path):
    opened(tab, run, tmp_path / "run.html")
    shown = course.of(run)
    assert tab.locator(".verdict").inner_text() == f"{shown.verdict}."
    without, using = re.findall(r"saved: (.*) without LB steps, (.*) with;", shown.verdict)[0]
    label = tab.locator(".timeline svg").get_attribute("aria-label")
    assert label.endswith(f": without LB steps {without}, with LB steps {using}")

    # a click goes to the iteration at the pointer; the timeline of one iteration begins at 0 s
    box = tab.locator(".timeline canvas").bounding_box()
    wide = box["width"] - 58 - 16  # the axis, see timeline.js
    whole = run.trace.replay("unbalanced")
    x = (whole.iteration_time[:60].sum() + 0.5 * whole.iteration_time[60]) / whole.time
    tab.mouse.click(box["x"] + 58 + x * wide, box["y"] + 60)
    assert tab.locator("output").inner_text() == "60"
    tab.get_by_label("timeline of this iteration").check()
    label = tab.locator(".timeline svg").get_attribute("aria-label")
    assert f": without LB steps {console.seconds(whole.iteration_time[60])}, with" in label
    assert tab.locator(".timeline rect.chosen").count() == 2
    assert tab.said == []


@pytest.mark.parametrize("p", [20, 100])
def test_many_ranks_are_a_matrix_of_net_load_and_quantiles(tab, p, tmp_path):
    trace = pylb.replaying.hotspot(n_ranks=p, n_objects=12 * p, n_phases=20, turns=1.0, seed=2)
    run = trace.replay("GreedyLB", every=6, cost=0.001)
    opened(tab, run, tmp_path / "run.html")
    tab.locator(".decisions button").nth(1).click()
    shown = course.of(run)
    moves = next(m for m in shown.moves if m.iteration == run.lb_steps[1].iteration)
    sent = np.zeros((p, p))
    sent[moves.source, moves.target] = moves.load
    titles = tab.locator(".flows rect title").all_text_contents()
    assert titles
    for title in titles[:20] if len(moves.source) <= page.MOST_FLOWS else []:
        i, j = map(int, re.findall(r"rank (\d+)", title))
        said = re.findall(r": ([\d.]+ .?s) net", title)[0]
        assert said == console.seconds(sent[i, j] - sent[j, i])
    left_out = len(moves.source) > page.MOST_FLOWS
    assert ("pairs of ranks, those with" in tab.locator(".flows").inner_text()) == left_out
    assert "after it, " in tab.locator(".bars").inner_text()  # both are drawn side by side
    labels = tab.locator(".timeline svg text").all_text_contents()
    assert ("slowest" in labels) == (p > 64)
    assert tab.said == []


def test_the_objects_are_where_they_are_and_move_where_they_move(tab, run, tmp_path):
    coords = {k: (k % 16, k // 16) for k in range(128)}
    tab.emulate_media(reduced_motion="reduce")  # objects do not glide
    opened(tab, run, tmp_path / "run.html", coords=coords)
    best = max(run.history.lb_steps, key=lambda r: r.migrations)
    i = list(run.history).index(best)
    tab.locator(".objectview summary").click()
    tab.locator(".decisions button").nth(i).click()
    said = tab.locator(".held p").first
    expected = f"128 objects on 8 ranks in iteration {best.iteration}; {best.migrations} move"
    assert said.inner_text().startswith(expected)
    tab.locator("canvas.objects").scroll_into_view_if_needed()
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")  # draws
    keep(tab, "objects", clip=tab.locator(".objectview").bounding_box())
    box = tab.locator("canvas.objects").bounding_box()
    scale = min(box["width"] - 28, 340 / (7 / 15))

    def point(key):
        x, y = (key % 16) / 15 * scale, (7 - key // 16) / 15 * scale
        at = box["x"] + (box["width"] - scale) / 2 + x, box["y"] + 14 + y
        tab.mouse.move(*at)
        pointed = tab.locator(".pointed").inner_text()
        return pointed, tab.evaluate(COLOUR, [at[0] - box["x"] - 4, at[1] - box["y"] - 4])

    old, new = run.at(best.iteration), run.at(best.iteration + 1)
    moved = {int(k): int(r) for k, r in zip(new.key, new.rank, strict=True)}
    tab.get_by_label("Before or after").select_option("after")  # has no arrows
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    for key in (0, 17, 127):
        text, _ = point(key)
        rank = int(old.rank[list(old.key).index(key)])
        there = f", moves to rank {moved[key]}" if moved[key] != rank else ""
        assert re.fullmatch(rf"Object {key}: about [\d.]+ .?s on rank {rank}{there}\.", text)
    load = old.load[best.iteration - old.first]
    heavy, light = (point(int(old.key[at(load)]))[1] for at in (np.argmax, np.argmin))
    assert heavy[0] > light[0] + 60  # the colours go from blue to yellow
    tab.get_by_label("coloured by").select_option("rank")
    sync_api.expect(tab.locator(".legend span")).to_have_count(8)
    tab.locator(".held select").first.select_option("ranks")
    check_access(tab, "light", part=".objectview")
    assert [text for text in tab.said if "getImageData" not in text] == []  # of COLOUR


WATCH = """(side) => {  // remember each value that the page sets, and in which iteration
  const value = Object.getOwnPropertyDescriptor(HTMLSelectElement.prototype, "value");
  window.watched = [];
  Object.defineProperty(side, "value", { get() { return value.get.call(this); }, set(to) {
    watched.push(`${document.querySelector("output").textContent} ${to}`);
    value.set.call(this, to); } }); }"""


def test_lb_steps_are_played_one_after_the_other(tab, run, tmp_path):
    opened(tab, run, tmp_path / "run.html")
    last = [r.iteration for r in run.history.lb_steps if r.iteration < run.n_iterations - 1][-2:]
    tab.locator(".objectview summary").click()
    tab.locator(SLIDER).fill(str(last[0] - 1))
    side = tab.get_by_label("Before or after")
    side.evaluate(WATCH)
    tab.get_by_role("button", name="Play").click()
    # the boxes are filled to the load; then the objects glide
    tab.wait_for_function("() => watched.length >= 4")
    tab.get_by_role("button", name="Play").wait_for()  # the last one was played
    played = [f"{i} {when}" for i in last for when in ("before", "after")]
    assert list(dict.fromkeys(tab.evaluate("watched"))) == played
    drawn = "document.querySelector('canvas.objects').toDataURL()"
    after = tab.evaluate(drawn)
    side.select_option("before")
    tab.wait_for_function(f"(after) => {drawn} !== after", arg=after)
    assert tab.said == []


COLOUR = """async ([x, y]) => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const canvas = document.querySelector("canvas.objects");
  const ratio = canvas.width / canvas.clientWidth;
  return [...canvas.getContext("2d").getImageData(x * ratio, y * ratio, 1, 1).data];
}"""


@pytest.fixture
def live(run, tmp_path):
    """Serve the page of a run of which only some iterations are written yet."""
    record_file.write(pylb.RunRecord.of(run.trace[:40]), tmp_path / "live.h5")
    with served.Server(tmp_path / "live.h5", interval=0.1, share=1.0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_page_follows_a_run_that_goes_on(tab, live, run, tmp_path):
    tab.goto(live.address)
    tab.get_by_text("40 iterations of 128 objects on 8 ranks").wait_for()
    tab.locator(SLIDER).focus()
    tab.keyboard.press("End")
    record_file.write(run, tmp_path / "live.h5")
    tab.get_by_text("120 iterations of 128 objects on 8 ranks").wait_for()
    assert tab.locator("output").inner_text() == "119"  # the slider follows the last iteration
    assert tab.evaluate("document.activeElement.ariaLabel") == "Iteration"
    assert tab.locator(".decisions button").count() == len(run.history)
    assert "without LB steps, " in tab.locator(".verdict").inner_text()
    assert {url.rsplit("/", 1)[0] + "/" for url in tab.said} == {live.address}


def test_the_page_of_a_run_is_for_this_host_and_who_knows_its_address(live):
    def status(url, **headers):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    assert live.server_address[0] == "127.0.0.1"
    assert [status(live.address), status(f"{live.address}run.json")] == [200, 200]
    root = live.address.replace(live.token, "")
    wrong = [root, f"{root}x", f"{live.address}../run.h5", f"{live.address}run.h5"]
    assert [status(url) for url in wrong] == [404] * 4
    assert status(live.address, Host="evil.example:80") == 404


def test_the_report_prints_on_three_sheets_with_the_decisions_that_matter_most(tab, run, tmp_path):
    hard = pylb.replaying.hotspot(n_ranks=64, n_objects=2000, n_phases=200, seed=1)
    for one in (run, hard.replay("GreedyLB", every=5)):
        tab.emulate_media(media="screen")
        opened(tab, one, tmp_path / "run.html")
        tab.emulate_media(media="print")
        lines = tab.locator(".printed li").all_inner_texts()
        told = [r.headline for r in course.of(one).history]
        shown = [told.index(line.removesuffix(".")) for line in lines[:24]]
        assert shown == sorted(shown)
        assert lines[24:] == [f"{len(told) - 24} decisions that cost and saved less."]
        largest = max(course.of(one).history, key=lambda r: r.gain if r.gain == r.gain else 0.0)
        assert f"{largest.headline}." in lines
        assert not tab.locator(SLIDER).is_visible()
        sheets = re.findall(rb"/Type\s*/Page\b", tab.pdf(format="A4"))
        assert 1 <= len(sheets) <= 3
    assert tab.said == []


def test_one_iteration_on_a_narrow_screen(tab, tmp_path):
    pytest.importorskip("h5py")
    pylb.demo.run(4, 16, 1, save=tmp_path / "run.h5")
    tab.set_viewport_size({"width": 400, "height": 800})
    path = page.write(course.of(tmp_path / "run.h5"), tmp_path / "run.html")
    tab.goto(path.as_uri())
    tab.wait_for_selector(".picture svg text")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
    lines = tab.locator(".picture svg path").all()
    assert any(line.bounding_box()["width"] > 100 for line in lines)  # the line is visible
    texts = tab.locator(".picture svg text").all()
    assert all(box["x"] + box["width"] <= 400 for t in texts if (box := t.bounding_box()))
    assert tab.said == []


def test_hostile_names_stay_inert(tab, run, tmp_path):
    hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e\N{SNOWMAN}"
    key = int(run.stretches[0].key[0])
    names = {key + i: f"{hostile}{i}" if i else "y" * 10_000 for i in range(200)}
    opened(tab, run, tmp_path / "run.html", title=hostile, names=names)
    assert tab.locator("h1").inner_text() == hostile
    assert tab.locator("img").count() == 0
    assert tab.evaluate("document.scripts.length") == 2
    assert tab.evaluate("document.documentElement.scrollWidth") <= 1120
    assert tab.said == []


# ---- the explorer, in a page of its own ----
# All that anywidget needs from a host (JupyterLab, Notebook 7, VS Code, ...): a module whose
# render() gets a model with get, on, off and send, and an element.

HOST = """<!DOCTYPE html><html lang="en"><title>host</title><style>{style}</style>
<div id="host"></div>
<script type="module">
  import widget from "./explorer.mjs";
  const state = {state}, heard = {{}};
  const tell = (event, what) => (heard[event] || []).forEach((f) => f(what));
  const model = {{
    get: (name) => state[name],
    on: (event, f) => {{ (heard[event] = heard[event] || []).push(f); }},
    off: (event, f) => {{ heard[event] = heard[event].filter((g) => g !== f); }},
    send: async (message) => {{
      const said = await window.kernel(message);
      said.messages.forEach((m) => tell("msg:custom", m));
      await new Promise((go) => setTimeout(go));
      if (said.answer) {{ state.answer = said.answer; tell("change:answer"); }}
    }},
  }};
  window.leave = widget.render({{ model, el: document.getElementById("host") }});
</script>"""


@pytest.fixture
def explorer(tab):
    """Return the widget of this process, shown in a page without Jupyter."""
    pytest.importorskip("anywidget")
    trace = pylb.replaying.hotspot(n_ranks=8, n_objects=128, n_phases=100, seed=1)
    return hosted(tab, pylb.explore(trace, strategy="GreedyLB", every=10, cost=0.01))


def hosted(tab, widget):

    def kernel(message):
        messages, before = [], widget.answer
        widget.send = messages.append
        widget._answer_message(widget, message, [])
        answer = None if widget.answer is before else widget.answer
        return {"answer": answer, "messages": messages}

    tab.expose_function("kernel", kernel)
    state = {name: getattr(widget, name) for name in ("choices", "settings", "answer")}
    site = "http://host.test"
    pages = {
        f"{site}/": (HOST.format(style=widget._css, state=json.dumps(state)), "text/html"),
        f"{site}/explorer.mjs": (str(widget._esm), "text/javascript"),
    }

    def serve(route):
        body, kind = pages[route.request.url]
        route.fulfill(body=body, content_type=kind)

    tab.route(f"{site}/**", serve)
    tab.goto(f"{site}/")
    tab.wait_for_selector(".pylb[data-number='0']")
    tab.said[:] = [x for x in tab.said if not x.startswith(site)]
    return widget


def read_out(tab, selector):
    """Return what a screen reader gets for an element: (role, name, properties), by Chromium."""
    client = tab.context.new_cdp_session(tab)
    expression = f"document.querySelector({selector!r})"
    found = client.send("Runtime.evaluate", {"expression": expression})["result"]
    nodes = client.send("Accessibility.queryAXTree", {"objectId": found["objectId"]})["nodes"]
    return [
        (
            node["role"]["value"],
            node.get("name", {}).get("value", ""),
            {p["name"]: p["value"].get("value") for p in node.get("properties", [])},
        )
        for node in nodes
        if not node["ignored"]
    ]


def test_a_screen_reader_is_told_everything(tab, explorer):
    told = read_out(tab, ".pylb")
    assert ("group", "Explorer of a recorded run") in [t[:2] for t in told]
    asked = ("combobox", "slider", "spinbutton", "checkbox", "button", "image", "region")
    assert all(name for role, name, _ in told if role in asked)
    names = {role: [name for r, name, _ in told if r == role] for role in asked}
    assert names["combobox"][:2] == ["Strategy", "Trigger"]
    assert {"Number of ranks", "Cost of an LB step", "Speed of that rank", "Iteration"} == set(
        names["slider"]
    )
    assert names["button"] == [
        f"Receipt of the decision after iteration {r.iteration}" for r in explorer.replay.decisions
    ]
    assert any(name.startswith("Loads of 8 ranks over 100 iterations") for name in names["image"])
    for name, value in (("Speed of that rank", "× 1"), ("Cost of an LB step", "10 ms")):
        assert tab.get_by_label(name).get_attribute("aria-valuetext") == value
    lively = [p for role, _, p in told if role == "status" and p.get("live") == "polite"]
    assert len(lively) == 3  # announced: figures, pointed item, receipt
    check_access(tab, "dark", part=".pylb")
    for light, scheme in (("true", "light"), ("false", "dark")):
        tab.evaluate("(light) => { document.body.dataset.jpThemeLight = light; }", light)
        assert tab.evaluate(GROUND) == GROUNDS[scheme]  # whatever the browser's scheme
    heads = [name for role, name, _ in told if role == "columnheader"]
    assert heads[:2] == ["iteration", "choice"]
    assert tab.said == []


def test_what_is_not_touched_does_not_change(tab):
    """Settings that no slider can show to the last digit stay as they were given."""
    pytest.importorskip("anywidget")
    trace = pylb.replaying.hotspot(n_ranks=100, n_objects=400, n_phases=60, seed=2)
    given = {"n_ranks": 90, "alpha": 3e-6, "beta": 1e-11, "cost": 0.0051, "rank": 3, "speed": 0.77}
    widget = hosted(tab, pylb.explore(trace, strategy="auto", trigger="auto", **given))
    run, settings = widget.replay, dict(widget.settings)
    said = tab.locator(".status").inner_text()
    assert tab.get_by_label("Cost of an LB step").get_attribute("aria-valuetext") == "5.1 ms"
    assert tab.get_by_label("Speed of that rank").get_attribute("aria-valuetext") == "× 0.77"
    assert tab.get_by_label("Network").input_value() == "as given"
    for number, strategy in enumerate(("none", "auto"), 1):
        tab.get_by_label("Strategy").select_option(strategy)
        tab.wait_for_selector(f".pylb[data-number='{number}']")
    assert widget.settings == settings
    assert (widget.replay.time, len(widget.replay.lb_steps)) == (run.time, len(run.lb_steps))
    assert tab.locator(".status").inner_text().split(" Replayed")[0] == said.split(" Replayed")[0]
    tab.get_by_label("Cost of an LB step").focus()
    tab.keyboard.press("ArrowRight")  # a slider that is used goes to its own places
    tab.wait_for_selector(".pylb[data-number='3']")
    assert widget.settings["cost"] == pytest.approx(10**-2)
    assert tab.said == []


def test_an_error_hides_the_old_picture(tab, explorer, monkeypatch):
    answered = type(explorer)._answered

    def failing(self, asked):
        if asked.strategy == "RefineLB":
            raise DomainError("this replay fails")
        time.sleep(0.3 * (asked.strategy == "none"))
        return answered(self, asked)

    monkeypatch.setattr(type(explorer), "_answered", failing)
    monkeypatch.setattr(sys.modules[type(explorer).__module__], "HEARTBEAT", 0.05)
    tab.evaluate(
        "new MutationObserver((all) => { window.heard = (window.heard || '') + "
        "all[0].target.textContent; }).observe(document.querySelector('.status'), "
        "{ childList: true })"
    )
    tab.get_by_label("Strategy").select_option("RefineLB")
    tab.get_by_text("this replay fails").wait_for()
    assert not tab.locator(".verdict").is_visible()
    assert not tab.locator(".timeline").is_visible()
    tab.get_by_label("Strategy").select_option("none")
    tab.locator(".verdict").wait_for()
    assert "computing …" in tab.evaluate("window.heard")
    assert "in all; as recorded: " in tab.locator(".status").inner_text()
    assert tab.locator(".flows").inner_text() == "No LB step, so no object moved."
    tab.get_by_label("Strategy").select_option("GreedyLB")
    tab.get_by_text("Choose a decision to see what moved.").wait_for()
    missing = tab.locator("option[disabled]").all_inner_texts()
    assert all(name.endswith(" (not installed)") for name in missing)


def test_the_explorer_shows_objects_and_what_does_not_matter(tab, explorer):
    tab.locator(".objectview summary").click()
    said = tab.locator(".held p").first
    tab.get_by_text("128 objects on 8 ranks in iteration 0; none moves after it").wait_for()
    tab.locator(".decisions button").first.click()
    r = explorer.replay.decisions[0]
    tab.get_by_text(f"in iteration {r.iteration}; {r.migrations} move after it").wait_for()
    assert "communicate" in said.inner_text()
    assert "as recorded" in tab.locator(".picture svg").text_content()
    off = "select:disabled, input:disabled"
    names = f"(all) => [...document.querySelectorAll('{off}')].map((e) => e.ariaLabel)"
    assert tab.evaluate(names) == ["Rank whose speed is changed"]
    tab.get_by_label("Strategy").select_option("none")
    tab.wait_for_selector(".pylb[data-number='1']")
    assert tab.evaluate(names)[:3] == [
        "Trigger",
        "Iterations from one LB step to the next",
        "Cost of an LB step",
    ]
    assert tab.said == []


def test_the_keyboard_reaches_everything(tab, explorer):
    tab.get_by_label("Strategy").focus()
    reached = []
    for _ in range(30):
        reached.append(
            tab.evaluate(
                "document.activeElement.getAttribute('aria-label')"
                " || document.activeElement.labels?.[0]?.innerText"
            )
        )
        if (reached[-1] or "").startswith("Receipt of"):
            break
        tab.keyboard.press("Tab")
    assert [name for name in reached if name][:4] == [
        "Strategy",
        "Trigger",
        "Iterations from one LB step to the next",
        "Network: seconds per message, bytes per second",
    ]
    assert {"Number of ranks", "Speed of that rank", "Iteration", "Decisions"} < set(reached)
    tab.keyboard.press("Enter")
    tab.wait_for_function("document.querySelector('.receipt').innerText.startsWith('After')")
    receipt = explorer.replay.decisions[0]
    assert tab.locator(".receipt .headline").inner_text() == f"{receipt.headline}."
    assert tab.locator(".receipt details p").text_content() == receipt.explain()
    tab.get_by_label("Number of ranks").focus()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_selector(".pylb[data-number='1']")
    assert explorer.replay.trace.n_ranks == 9
    assert tab.get_by_label("Rank whose speed is changed").get_attribute("max") == "8"
    assert tab.evaluate("leave(), true")
    assert tab.said == []


def test_a_screen_reader_reads_the_report(tab, run, tmp_path):
    few = dataclasses.replace(course.of(run), title="A heated ring", history=run.history[:4])
    opened(tab, few, tmp_path / "run.html")
    told = read_out(tab, "main")
    asked = ("slider", "checkbox", "button", "image", "region")
    assert all(name for role, name, _ in told if role in asked)
    assert ("heading", "A heated ring") in [t[:2] for t in told]
    assert any(p.get("live") == "polite" for role, _, p in told if role == "status")
    check_access(tab, "light", "dark")


# ---- the explorer in JupyterLab and Notebook 7 ----


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Start JupyterLab with this Python; yield its address with token, and its folder."""
    jupyterlab = pytest.importorskip("jupyterlab")
    pytest.importorskip("anywidget")
    pytest.importorskip("ipykernel")
    folder = tmp_path_factory.mktemp("lab")
    prefix = Path(jupyterlab.__file__).parents[4]
    share = prefix / "share" / "jupyter"
    package = Path(pylb.__file__).parents[1]
    environment = {
        **os.environ,
        "JUPYTERLAB_DIR": str(share / "lab"),
        "JUPYTER_PATH": str(share),
        "JUPYTER_CONFIG_PATH": str(prefix / "etc" / "jupyter"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTHONPATH": f"{package}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    settings = folder / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    token = secrets.token_hex(16)
    words = [
        "--no-browser",
        "--allow-root",
        "--ServerApp.ip=127.0.0.1",
        f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={folder}",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *words],
            env=environment,
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield wait_for(server, token, folder), token, folder
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_for(server, token, folder):
    """Wait until the server answers; return its address, with the port that it has chosen."""
    said = folder / "runtime" / f"jpserver-{server.pid}.json"
    for _ in range(600):
        try:
            address = f"http://127.0.0.1:{json.loads(said.read_text())['port']}"
            with urllib.request.urlopen(f"{address}/api?token={token}", timeout=2):
                return address
        except (OSError, ValueError):
            if server.poll() is not None:
                break
            time.sleep(0.2)
    pytest.fail(f"JupyterLab does not answer:\n{(folder / 'log').read_text()[-3000:]}")


CELL = """\
import pylb
trace = pylb.replaying.hotspot(n_ranks=8, n_objects=128, n_phases=100, seed=1)
pylb.explore(trace, strategy="GreedyLB", every=10, cost=0.01)
"""


def notebook(folder, name):
    nbformat = pytest.importorskip("nbformat")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(book, folder / name)


def execute(tab):
    """Run the cell; the request is ignored, and repeated here, until the kernel is there."""
    cell = tab.locator(".jp-Notebook .jp-CodeCell .cm-content").first
    cell.wait_for(timeout=60_000)
    began = tab.locator(".jp-InputPrompt").filter(has_text=re.compile(r"\[[*\d]")).first
    for _ in range(12):
        cell.click()
        tab.keyboard.press("Control+Enter")
        try:
            return began.wait_for(timeout=5_000)
        except sync_api.TimeoutError:
            continue
    pytest.fail("the cell does not run")


def time_of(**asked):
    from pylb.show.widget import ExplorerSettings

    trace = pylb.replaying.hotspot(n_ranks=8, n_objects=128, n_phases=100, seed=1)
    given = {"strategy": "GreedyLB", "trigger": "", "every": 10, "cost": 0.01}
    return ExplorerSettings.of({**given, **asked}).replay(trace)


def status(tab, number):
    """Return the line of figures that the explorer shows for its answer `number`."""
    try:
        tab.wait_for_selector(f".pylb[data-number='{number}']", timeout=60_000)
    except sync_api.TimeoutError:
        keep(tab, "failed")
        pytest.fail(f"no answer {number}: {tab.said} {tab.locator('body').inner_text()[-2000:]}")
    return tab.locator(".pylb .status").inner_text()


def shows(said, run):
    found = re.match(r"([\d.]+) (s|ms) in all", said)
    seconds = float(found[1]) * {"s": 1.0, "ms": 1e-3}[found[2]]
    return seconds == pytest.approx(run.time, rel=6e-3)


def check_console(tab):
    """Check that the explorer prints nothing on the console (JupyterLab itself may print times)."""
    ours = [text for text in tab.said if not text.startswith(("http", "ws"))]
    ours = [text for text in ours if not text.endswith("to activate.")]
    assert [text for text in ours if "pylb" in text or "anywidget" in text] == []


def test_the_explorer_in_jupyterlab(tab, lab):
    address, token, folder = lab
    notebook(folder, "explore.ipynb")
    tab.set_viewport_size({"width": 1280, "height": 1180})
    tab.goto(f"{address}/lab/tree/explore.ipynb?token={token}")
    tab.get_by_text("| Idle").wait_for(timeout=60_000)
    execute(tab)
    said = status(tab, 0)
    assert shows(said, time_of())
    assert "; 9 LB steps cost " in tab.locator(".pylb .verdict").inner_text()
    tab.get_by_text("All figures of the replay").click()
    facts = tab.locator(".pylb .facts").inner_text().split("\n")
    assert facts[facts.index("number of LB steps") + 1] == "9"
    tab.get_by_text("All figures of the replay").click()
    tab.locator(".pylb").scroll_into_view_if_needed()
    keep(tab, "explorer_before")

    # another strategy, at once
    tab.get_by_label("Strategy").select_option("none")
    assert shows(status(tab, 1), time_of(strategy="none"))
    tab.get_by_label("Strategy").select_option("RefineLB")
    assert shows(status(tab, 2), time_of(strategy="RefineLB"))

    # a slider by keyboard: a tenth of the speed for rank 0
    tab.get_by_label("Speed of that rank").focus()
    tab.keyboard.press("Home")
    assert shows(status(tab, 3), time_of(strategy="RefineLB", speed=0.1))
    assert tab.get_by_label("Speed of that rank").get_attribute("aria-valuetext") == "× 0.1"

    # a decision and its receipt
    tab.locator(".decisions button").nth(2).click()
    expected = time_of(strategy="RefineLB", speed=0.1).decisions[2]
    tab.wait_for_function(
        "document.querySelector('.pylb .receipt').innerText.startsWith('After iteration')"
    )
    receipt = tab.locator(".pylb .receipt").inner_text()
    assert receipt.startswith(f"{expected.headline}.")

    # moving the slider needs no kernel
    slider = tab.get_by_label("Iteration", exact=True)
    slider.focus()
    tab.keyboard.press("End")
    assert tab.locator(".pylb .readout").inner_text().startswith("Iteration 99: rank ")
    tab.locator(".pylb .receipt").scroll_into_view_if_needed()
    keep(tab, "explorer_after")
    listened = {"polite"} == set(
        tab.eval_on_selector_all(
            ".pylb [role=status]", "all => all.map((e) => e.getAttribute('aria-live'))"
        )
    )
    assert listened
    unnamed = tab.eval_on_selector_all(
        ".pylb input, .pylb select, .pylb button",
        "all => all.filter((e) => !e.labels?.length && !e.getAttribute('aria-label')"
        " && !e.textContent).length",
    )
    assert unnamed == 0
    check_console(tab)

    # without its kernel the widget keeps its last picture, and says so
    kernels, who = f"{address}/api/kernels", {"Authorization": f"token {token}"}
    with urllib.request.urlopen(urllib.request.Request(kernels, headers=who)) as answer:
        (kernel,) = json.load(answer)
    url = f"{kernels}/{kernel['id']}"
    urllib.request.urlopen(urllib.request.Request(url, headers=who, method="DELETE")).close()
    tab.get_by_label("Speed of that rank").focus()
    tab.keyboard.press("End")
    tab.wait_for_function(
        "document.querySelector('.pylb .status').innerText.includes('this is the last picture')",
        timeout=15_000,
    )
    assert tab.locator(".pylb .bars rect").count() == 8


def test_the_explorer_in_notebook_7(tab, lab):
    pytest.importorskip("notebook")
    address, token, folder = lab
    notebook(folder, "seven.ipynb")
    tab.set_viewport_size({"width": 1280, "height": 1000})
    # on a busy machine, Notebook may ask for a kernel, or say that there is none yet
    accept = tab.locator(".jp-Dialog button.jp-mod-accept")
    tab.add_locator_handler(accept, lambda button: button.click())
    tab.goto(f"{address}/notebooks/seven.ipynb?token={token}")
    execute(tab)
    assert shows(status(tab, 0), time_of())
    tab.get_by_label("Strategy").select_option("RefineLB")
    assert shows(status(tab, 1), time_of(strategy="RefineLB"))
    tab.locator(".decisions button").nth(1).click()
    tab.wait_for_function(
        "document.querySelector('.pylb .receipt').innerText.startsWith('After iteration')"
    )
    keep(tab, "notebook7")
    check_console(tab)
