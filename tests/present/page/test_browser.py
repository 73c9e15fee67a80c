"""The page in a headless Chromium: it shows the JSON report's contents, by keyboard, in dark mode, on a phone, and offline."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from PIL import Image

from benchgraph.options.plugins import load_report
from benchgraph.results.json_report import render
from benchgraph.results.result import Origin, ResultSet
from tests.present.page.browser import Browser, browser
from tests.present.page.runs import CHECKED, EMPTY, STRANGE, TIMED, made

__all__ = ["browser"]

Open = Callable[..., Browser]
ROWS = """return [...document.querySelectorAll("table.cases > tbody")].filter(b => !b.hidden).map(b => [...b.rows[0].cells].map(
    c => ({head: c.dataset.head ?? "", text: c.childNodes[0]?.textContent.trim() ?? "", value: c.dataset.v, whole: c.textContent})))"""
SHOWN = (
    'return [...document.querySelectorAll("table.cases > tbody")].filter(b => !b.hidden).map(b => Number(b.rows[0].cells[0].textContent))'
)
FOCUS = "const e = document.activeElement; return [e.tagName, e.name || e.dataset.column || e.className || e.parentNode.className]"


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Open:
    """Opens a page about results; afterwards nothing may have gone wrong in it, nor been asked for."""

    def opened(results: ResultSet, *, many: int = 300, **how: Any) -> Browser:
        file = tmp_path / "report.html"
        file.write_text(made(results, many), encoding="utf-8")
        browser.open(file, **how)
        return browser

    yield opened
    assert browser.complaints() == []
    assert browser.requests() in ([], [(tmp_path / "report.html").as_uri()])


def keys(browser: Browser, *pressed: str) -> None:
    from selenium.webdriver import ActionChains, Keys

    actions = ActionChains(browser.driver, duration=0)
    for key in pressed:
        if key.startswith("ctrl+"):
            actions.key_down(Keys.CONTROL).send_keys(key[-1]).key_up(Keys.CONTROL)
        else:
            actions.send_keys(getattr(Keys, key, key))
    actions.perform()


def tab_to(browser: Browser, tag: str, name: str) -> None:
    """Press Tab until that is what has the focus."""
    for _ in range(80):
        if browser.js(FOCUS) == [tag, name]:
            return
        keys(browser, "TAB")
    pytest.fail(f"no Tab leads to {tag} {name}")


def until(browser: Browser, script: str) -> Any:
    """What a script returns as soon as that is true."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser.driver, 10, 0.05).until(lambda _: browser.js(script))


# ---- numbers ---------------------------------------------------------------------------------------------------------


def wanted(case: dict[str, Any], first: str, others: list[str], *, is_checked: bool) -> dict[str, float | None]:
    """What the JSON report says of a case, computed here from its raw samples."""
    found: dict[str, float | None] = {}
    timings = case["timings"]
    if first in timings:
        middle = median(timings[first]["samples_s"])
        peak = max(case["peak_samples"])
        fitting = [e for e in case["bandwidth_samples"] if e["bytes"] >= case["bytes"]] or case["bandwidth_samples"][-1:]
        bandwidth = max(min(fitting, key=lambda e: e["bytes"])["samples"])
        found |= {"min ms": min(timings[first]["samples_s"]), "median ms": middle, "GFLOP/s": case["flops"] / middle}
        found |= {"% peak": case["flops"] / middle / peak, "GB/s": case["bytes"] / middle, "% bw": case["bytes"] / middle / bandwidth}
        found |= {"FLOP/B": case["flops"] / case["bytes"]}
        found |= {name: median(timings[name]["samples_s"]) / middle for name in others}
    if is_checked and case["accuracy"]:
        found |= {"wrong": case["errors"]}
        keys = {"max abs": "max_abs", "max rel": "max_rel", "max ulp": "max_ulp", "L2": "l2"}
        found |= {head: max(a[key] for a in case["accuracy"]) for head, key in keys.items()}
    return found | {"s": case["elapsed_s"]}


SAID: dict[str, Callable[[float], str]] = {
    "min ms": lambda s: f"{s * 1e3:.4f}",
    "median ms": lambda s: f"{s * 1e3:.4f}",
    "GFLOP/s": lambda r: f"{r / 1e9:.1f}",
    "GB/s": lambda r: f"{r / 1e9:.1f}",
    "% peak": lambda r: f"{r:.1%}",
    "% bw": lambda r: f"{r:.1%}",
    "FLOP/B": lambda r: f"{r:.1f}",
    "wrong": lambda n: f"{n:.0f}",
    "s": lambda s: f"{s:.2f}",
    **dict.fromkeys(("max abs", "max rel", "max ulp", "L2"), lambda v: f"{v:.3g}"),
}


@pytest.mark.parametrize("results", [TIMED, CHECKED], ids=["timed", "checked"])
def test_every_number_of_the_table_is_the_jsons(show: Open, results: ResultSet) -> None:
    document = json.loads(render(results))
    browser = show(results)
    is_checked = results is CHECKED
    rows = browser.js(ROWS)
    assert len(rows) == len(document["cases"])
    for row, case in zip(rows, document["cases"], strict=True):
        assert [c["whole"] for c in row[:2]] == [str(case["index"]), case["status"]]
        want = wanted(case, "fused", ["post_ops", "one_op_each"], is_checked=is_checked)
        got = {c["head"]: float(c["value"]) for c in row[3:] if c["value"] is not None}
        assert got == pytest.approx(want, rel=1e-12), case["repro"]
        texts = {c["head"]: c["text"] for c in row[3:] if c["text"] and c["head"] != "roof"}
        assert texts == {head: SAID.get(head, lambda r: f"{r:.2f}")(value) for head, value in want.items()}
    counts = browser.js(
        'return Object.fromEntries([...document.querySelectorAll("[data-sum]")].map(d => [d.dataset.sum, d.lastElementChild.textContent]))'
    )
    passed = sum(c["status"] in ("PASSED", "EXECUTED") for c in document["cases"])
    failed = sum(c["status"] in ("FAILED", "UNIMPLEMENTED", "INVALID_ARGUMENTS") for c in document["cases"])
    assert (counts["cases"], counts["passed"], counts["failed"]) == (str(len(rows)), str(passed), str(failed))


@pytest.mark.parametrize("many", [0, 300])
def test_the_details_agree_with_the_console(show: Open, many: int) -> None:
    """Every row of every table of times, digit by digit, also when they are packed."""
    browser = show(TIMED, many=many)
    browser.js('document.querySelectorAll("tbody > .more details").forEach(d => d.open = true)')
    until(browser, 'return document.querySelectorAll(".copy").length == 5')
    rows = browser.js(
        'return [...document.querySelectorAll(".times tbody tr")].map(r => [...r.cells].slice(0, -1).map(c => c.textContent))'
    )
    lines = load_report("console")(TIMED).splitlines()
    console = [[cell.strip() for cell in line.split("|")] for line in lines if "|" in line and not line.startswith("policy")]
    assert rows == console
    assert len(rows) == 3 * (1 + 3 + 3)


def test_intervals_hold_the_ratio(show: Open) -> None:
    intervals = show(TIMED).js('return [...document.querySelectorAll(".iv")].map(i => [i.parentNode.dataset.v, i.textContent])')
    assert len(intervals) == 6
    for value, text in intervals:
        low, high = map(float, text.split("–"))
        assert low - 0.005 <= float(value) <= high + 0.005


# ---- by keyboard -----------------------------------------------------------------------------------------------------


def test_filter_and_sort_by_keyboard_alone(show: Open) -> None:
    browser = show(TIMED)
    tab_to(browser, "INPUT", "text")
    assert browser.js("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    keys(browser, *"mlp")
    assert browser.js(SHOWN) == [1]
    assert browser.js('return document.querySelector(".shown").textContent') == "1 of 5 cases"
    kept = """return [...document.querySelectorAll(".chart a[data-series]")].filter(a => a.style.display != "none")
        .map(a => a.getAttribute("href"))"""
    assert set(browser.js(kept)) == {"#r0c1"}
    keys(browser, *["BACKSPACE"] * 3)
    assert browser.js(SHOWN) == [0, 1, 2, 3, 4]
    keys(browser, *"NO such")  # in any case, of the reason
    assert browser.js(SHOWN) == [3]
    keys(browser, *["BACKSPACE"] * 7)
    tab_to(browser, "INPUT", "status")
    keys(browser, "SPACE")
    assert browser.js(SHOWN) == [3, 4]
    keys(browser, "SPACE")
    tab_to(browser, "BUTTON", "4")  # the median
    keys(browser, "ENTER")
    assert browser.js(SHOWN) == [1, 0, 2, 3, 4]
    assert browser.js('return document.activeElement.parentNode.getAttribute("aria-sort")') == "ascending"
    keys(browser, "ENTER")
    assert browser.js(SHOWN) == [2, 0, 1, 3, 4]
    tab_to(browser, "BUTTON", "11")  # a ratio: 1.25 1.25 0.5
    keys(browser, "ENTER")
    assert browser.js(SHOWN) == [2, 0, 1, 3, 4]
    assert browser.js('return document.getElementById("said").textContent') == "Sorted by post_ops, ascending"


@pytest.mark.parametrize("many", [0, 300])
def test_a_case_is_opened_and_its_repro_copied_by_keyboard(show: Open, many: int) -> None:
    browser = show(TIMED, many=many)
    tab_to(browser, "SUMMARY", "")
    keys(browser, "ENTER")
    until(browser, 'return document.querySelector(".copy") && document.querySelectorAll("details[open] .graph svg").length == 1')
    tab_to(browser, "BUTTON", "copy")
    keys(browser, "ENTER")
    until(browser, 'return document.getElementById("said").textContent == "Copied"')
    browser.js('document.querySelector("[name=text]").focus()')
    keys(browser, "ctrl+v")
    repro = json.loads(render(TIMED))["cases"][0]["repro"]
    assert browser.js('return document.querySelector("[name=text]").value') == f"benchgraph {repro}"


def test_the_picture_of_each_case_and_policy_is_drawn(show: Open) -> None:
    browser = show(TIMED)
    browser.js('document.querySelectorAll("details").forEach(d => d.open = true)')
    until(browser, 'return document.querySelectorAll(".graph svg").length == 9')
    texts = browser.js('return [...document.querySelectorAll(".graph svg")].map(s => s.textContent)')
    for policies in (texts[0:3], texts[3:6], texts[6:9]):
        assert all("7: MatMul" in text and "9: ReLU" in text and "%0 f32 4x8 ab" in text for text in policies)
        assert ["p1: single, 1 op" in text for text in policies] == [False, True, True]


def test_a_mark_leads_to_its_case(show: Open) -> None:
    browser = show(TIMED)
    place = browser.js("""const m = document.querySelector(".roofline .wide a[href='#r0c2']").getBoundingClientRect();
        return [m.x + m.width / 2, m.y + m.height / 2]""")
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        event = {"type": kind, "x": place[0], "y": place[1], "button": "none" if kind == "mouseMoved" else "left", "clickCount": 1}
        browser.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)
        if kind == "mouseMoved":
            tip = until(browser, 'const t = document.getElementById("tip"); return t.hidden ? null : t.textContent')
            assert "attention_2.json" in tip
            assert "median ms 10.3000" in tip
    until(browser, 'return document.getElementById("r0c2").querySelector("details").open')
    assert len(browser.driver.window_handles) == 1


def test_marks_are_reached_and_followed_by_keyboard(show: Open) -> None:
    browser = show(TIMED)
    focus = "const e = document.activeElement; return e.closest('.roofline') && e.dataset.series ? e.getAttribute('href') : ''"
    for _ in range(20):
        if browser.js(focus):
            break
        keys(browser, "TAB")
    first = browser.js(focus)
    assert "json" in until(browser, 'const t = document.getElementById("tip"); return t.hidden ? null : t.textContent')
    stops = "return document.querySelectorAll(\".roofline .wide a[data-series][tabindex='0']\").length"
    assert browser.js(stops) == 1
    seen = {first}
    for _ in range(9):
        keys(browser, "ARROW_RIGHT")
        seen.add(browser.js(focus))
    assert seen == {"#r0c0", "#r0c1", "#r0c2"}
    assert browser.js(focus) == first  # nine marks, round and round
    assert browser.js(stops) == 1
    keys(browser, "ENTER")
    until(browser, f'return document.querySelector("{first}").querySelector("details").open')


def test_the_head_has_host_date_and_commit(show: Open) -> None:
    origin = Origin("u", 1.7e9, "0123456789abcdef", is_dirty=True)
    browser = show(replace(TIMED, origin=origin, machine=replace(TIMED.machine, host="bench-7")))
    assert browser.js('return document.querySelector(".origin").textContent') == (
        "host bench-7 · commit 0123456789ab with changes · 2023-11-14 22:13 UTC"
    )
    means = browser.js('return document.querySelector(".means:last-of-type, .means").textContent')
    assert "geometric means of times over those of fused: fused 1.00, post_ops 0.92, one_op_each 1.84" in means


def test_without_scripts_everything_but_the_pictures_is_there(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(made(TIMED), encoding="utf-8")
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(file)
        text = browser.driver.execute_cdp_cmd("DOMSnapshot.captureSnapshot", {"computedStyles": []})["strings"]
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    for said in (
        "2.0600",
        "nope.json: no such file",
        "Filter, sorting and the pictures of the graphs need scripts; everything else is here.",
    ):
        assert any(said in s for s in text), said


# ---- looks -----------------------------------------------------------------------------------------------------------


@pytest.mark.covering(2)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("results", [TIMED, CHECKED], ids=["timed", "checked"])
def test_a_screenshot(show: Open, tmp_path: Path, results: ResultSet, width: int, dark: bool) -> None:
    """The page fits its width, its ground is the scheme's, and there is something on it."""
    browser = show(results, width=width, height=1500, dark=dark)
    browser.js('document.querySelectorAll("details").forEach(d => d.open = true)')
    until(browser, 'return [...document.querySelectorAll("[data-picture]")].every(f => f.querySelector("svg"))')
    assert browser.js("return [document.documentElement.scrollWidth, innerWidth]") == [width, width]
    assert browser.js("return getComputedStyle(document.querySelector('.main')).display") == ("flex" if width == 390 else "table-row")
    png = browser.driver.get_screenshot_as_png()
    (tmp_path / "screenshot.png").write_bytes(png)
    image = Image.open(io.BytesIO(png)).convert("RGB")
    assert image.size == (width, 1500)
    colours = sorted(image.getcolors(maxcolors=image.width * image.height), reverse=True)
    assert image.getpixel((2, 2)) == ((0x14, 0x17, 0x1B) if dark else (255, 255, 255))
    inked = sum(count for count, _ in colours[1:]) / (image.width * image.height)
    assert inked > 0.03
    assert len(colours) > 100


@pytest.mark.parametrize("width", [1270, 1200, 900, 561])
def test_the_table_of_cases_is_as_wide_as_the_page_at_most(show: Open, width: int) -> None:
    """With long statuses, several ratios, and a wide picture open: columns that do not fit become blocks."""
    browser = show(TIMED, width=width)
    browser.js('document.querySelectorAll("details").forEach(d => d.open = true)')
    until(browser, 'return [...document.querySelectorAll("[data-picture]")].every(f => f.querySelector("svg"))')
    wide, room = browser.js('const e = document.querySelector("table.cases").parentNode; return [e.scrollWidth, e.clientWidth]')
    assert wide <= room
    assert browser.js("return document.documentElement.scrollWidth") == width


def test_plots_take_the_schemes_colours(show: Open) -> None:
    ink = 'return getComputedStyle(document.querySelector(".ratios text")).fill'
    light, dark = (show(TIMED, dark=dark).js(ink) for dark in (False, True))
    assert {light, dark} == {"rgb(89, 99, 110)", "rgb(155, 165, 177)"}


@pytest.mark.covering(1)
@pytest.mark.parametrize("results", [EMPTY, STRANGE], ids=["empty", "hostile"])
@pytest.mark.parametrize("many", [0, 300])
def test_odd_results_break_nothing(show: Open, results: ResultSet, many: int) -> None:
    browser = show(results, many=many, width=390)
    browser.js('document.querySelectorAll("tbody > .more details").forEach(d => d.open = true)')
    until(browser, f'return document.querySelectorAll(".copy").length == {len(results.cases)}')
    browser.js('document.querySelectorAll("details").forEach(d => d.open = true)')
    until(browser, 'return [...document.querySelectorAll("[data-picture]")].every(f => f.querySelector("svg"))')
    assert browser.driver.title.startswith("benchgraph, mode ")
    assert browser.js("return [document.documentElement.scrollWidth, document.images.length, document.scripts.length]") == [
        390,
        0,
        2 if results.cases else 1,
    ]
