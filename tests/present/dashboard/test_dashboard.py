"""The dashboard of a history: what it says, and in a headless Chromium how it is read on a phone, in the dark, by keyboard and offline."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from benchgraph.analysis.history.database import Database
from benchgraph.analysis.history.series import SeriesFilter, load
from benchgraph.analysis.history.store import append
from benchgraph.cli import main
from benchgraph.present.dashboard.dashboard import dashboard
from benchgraph.present.dashboard.trend import HEIGHT, WIDTH, trends
from tests.analysis.history.made import MACHINE, run
from tests.present.page.browser import Browser, browser

__all__ = ["browser"]

NOISE = (1.0, 1.004, 0.997, 1.002, 0.999, 1.003, 0.996, 1.001)
MILAN, GENOA = (replace(MACHINE, cpu="AMD EPYC", identity={"cpuid": f"AuthenticAMD 25-{n}-1"}) for n in (1, 17))
LONG = "b/--in-shapes=" + "+".join(f"{n}:8x16x384x64" for n in range(12))
URL = "https://git.example/it/commit/{commit}"


def commit(number: int) -> str:
    return f"{number:02d}" + "f" * 38


def fill(where: str) -> None:
    """Sixteen runs on each of two machines, on one of which LONG is slower by a fifth from the ninth run on; its name has markup in it."""
    database = Database(where)
    for i in range(16):
        for machine in (MILAN, GENOA):
            slow = 1.2 if i >= 8 and machine is MILAN else 1.0
            times = {"<a>&.json": {"fused": NOISE[i % 8]}, LONG: {"fused": slow * NOISE[(i + 3) % 8], "post_ops": 2 * NOISE[(i + 5) % 8]}}
            made = run(i, times, commit=commit(i), machine=machine)
            assert made.origin is not None
            append(database, replace(made, origin=replace(made.origin, uid=f"{i} {machine.key}")))


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> str:
    where = str(tmp_path_factory.mktemp("history") / "h.db")
    fill(where)
    return where


@pytest.fixture
def page(history: str) -> str:
    data = load(Database(history), SeriesFilter())
    return dashboard(data, data.changes(0.05), 0.05, title="regressions", commit_url=URL)


def call(history: str, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, f"--history={history}"], prog_name="benchgraph")


# ---- what it says ----------------------------------------------------------------------------------------------------


def test_the_worst_case_of_each_machine_comes_first(history: str) -> None:
    data = load(Database(history), SeriesFilter())
    assert [(t.machine, LONG in t.case, [m.kind for m in t.marks]) for t in trends(data, data.changes(0.05))] == [
        (1, True, ["slower"]),
        (1, False, []),
        (2, False, []),
        (2, True, []),
    ]


def test_a_mark_stands_between_the_runs_around_it_and_levels_are_medians(history: str) -> None:
    data = load(Database(history), SeriesFilter())
    worst = trends(data, data.changes(0.05))[0]
    assert worst.marks[0].percent == 50.0
    (levels,) = re.findall(r'class="levels" d="M([\d.]+) ([\d.]+)H([\d.]+)M([\d.]+) ([\d.]+)H([\d.]+)"', worst.svg())
    x0, y0, x1, x2, y1, x3 = map(float, levels)
    assert [x0, x1, x2, x3] == pytest.approx([WIDTH * (i + 0.5) / 16 for i in (0, 7, 8, 15)], abs=0.1)
    milliseconds = [worst.high - y / HEIGHT * (worst.high - worst.low) for y in (y0, y1)]
    assert milliseconds == pytest.approx([1000, 1200], rel=0.01)


def test_commits_link_by_the_template_and_the_text_stays_text(page: str) -> None:
    assert f'<a href="https://git.example/it/commit/{commit(7)}"><code>07ffffffff</code></a>' in page
    assert "&lt;a&gt;&amp;.json" in page
    assert "<a>&" not in page
    assert "{commit}" not in page


def test_nothing_but_commits_is_elsewhere(page: str) -> None:
    assert not re.findall(r'(?:src|href)="(?!#|https://git\.example/it/commit/\d\df{38}")', page)
    assert "url(" not in page
    assert "@import" not in page


def test_a_large_history_leaves_rows_out(history: str) -> None:
    data = load(Database(history), SeriesFilter())
    whole, large = (dashboard(data, data.changes(0.05), 0.05, many=many) for many in (4, 3))
    assert ("<table" in whole, "<table" in large) == (True, False)
    assert whole.count("<article") == large.count("<article") == 4


@pytest.mark.parametrize(("command", "code"), [("history", 0), ("regressions", 1)])
def test_both_commands_write_it(history: str, command: str, code: int, tmp_path: Path) -> None:
    done = call(history, command, f"--report=html:{tmp_path / 'd.html'}", f"--commit-url={URL}")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (code, f"html report: {tmp_path / 'd.html'}")
    assert f"<h1>benchgraph {command}</h1>" in (tmp_path / "d.html").read_text()


def test_a_case_alone_is_a_page_too(history: str) -> None:
    assert call(history, "history", "--case=a&gt|<a>", "--report=html").stdout.count("<article") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--commit-url=https://git.example/it", "--report=html"), "bad value 'https://git.example/it'; write https://… with {commit} in"),
        (("--commit-url=javascript:{commit}", "--report=html"), "bad value 'javascript:{commit}'; write https://… with {commit} in"),
        ((f"--commit-url={URL}", "--report=markdown"), "only a page has links; add --report=html:FILE"),
    ],
)
def test_a_template_without_use_is_refused(history: str, words: tuple[str, ...], message: str) -> None:
    done = call(history, "regressions", *words)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"benchgraph: regressions: --commit-url: {message}")


def test_a_history_without_times_has_a_page(tmp_path: Path) -> None:
    append(Database(str(tmp_path / "h.db")), run(0, {}))
    done = call(str(tmp_path / "h.db"), "history", "--report=html")
    assert "<p>No change.</p>" in done.stdout


# ---- how it is read --------------------------------------------------------------------------------------------------

Open = Callable[..., Browser]
SIZES = {"phone": (390, 844), "desk": (1440, 900)}
OUTSIDE = """
    const seen = [...document.querySelectorAll("main *")].filter(e => !e.closest("svg, .unseen, .scroll, [hidden]"));
    const boxes = seen.map(e => [e.className || e.tagName, e.getBoundingClientRect()]);
    return boxes.filter(([, r]) => r.width && (r.left < -1 || r.right > innerWidth + 1)).map(([name]) => name)"""
CONTRAST = """
    const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    const luminance = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(v => linear(v / 255))
        .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], .05);
    const ground = luminance(getComputedStyle(document.body).backgroundColor);
    const texts = document.querySelectorAll(".size, .iv, .where, .where a, .plot span:not(.mark), .legend, h1, h2, summary");
    const inks = [...texts].map(e => luminance(getComputedStyle(e).color));
    return Math.min(...inks.map(ink => Math.max(ink, ground) / Math.min(ink, ground)))"""
VISIBLE = "return [...document.querySelectorAll('.trend')].filter(t => t.offsetParent).map(t => t.id)"


@pytest.fixture
def show(browser: Browser, page: str, tmp_path: Path) -> Open:
    """Opens the page; afterwards nothing may have gone wrong in it, nor been asked for."""
    file = tmp_path / "dashboard.html"
    file.write_text(page, encoding="utf-8")

    def opened(**how: Any) -> Browser:
        browser.open(file, **how)
        return browser

    yield opened
    assert browser.complaints() == []
    assert browser.requests() in ([], [file.as_uri()])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_the_screen_and_can_be_read(show: Open, size: str, dark: bool) -> None:
    width, height = SIZES[size]
    seen = show(width=width, height=height, dark=dark)
    assert seen.js("return document.documentElement.scrollWidth") == width
    assert seen.js(OUTSIDE) == []
    assert seen.js(CONTRAST) >= 4.5
    plots = seen.js("return [...document.querySelectorAll('.area svg')].map(s => [s.clientWidth, s.clientHeight])")
    assert all(wide > 200 and high > 100 for wide, high in plots)


def test_the_filter_leaves_what_was_asked_for(show: Open) -> None:
    seen = show()
    assert seen.js(VISIBLE) == ["t0", "t1", "t2", "t3"]
    box, only = seen.driver.find_elements("css selector", "form.filter input")
    only.click()
    assert seen.js(VISIBLE) == ["t0"]
    assert seen.js("return document.querySelector('form.filter output').value") == "1 of 4 trends"
    only.click()
    box.send_keys("A>&")
    assert seen.js(VISIBLE) == ["t1", "t2"]


def test_the_keyboard_leads_from_a_change_to_its_chart_and_its_runs(show: Open) -> None:
    from selenium.webdriver import ActionChains, Keys

    seen = show(width=390, height=844)
    for _ in range(20):
        ActionChains(seen.driver, duration=0).send_keys(Keys.TAB).perform()
        if seen.js("return document.activeElement.className") == "case":
            break
    ActionChains(seen.driver, duration=0).send_keys(Keys.ENTER).perform()
    assert seen.js("return location.hash") == "#t0"
    assert seen.js("return Math.abs(document.querySelector('#t0').getBoundingClientRect().top) < 40")
    for _ in range(8):
        ActionChains(seen.driver, duration=0).send_keys(Keys.TAB).perform()
        if seen.js("return document.activeElement.tagName") == "SUMMARY":
            break
    ActionChains(seen.driver, duration=0).send_keys(Keys.ENTER).perform()
    assert seen.js("return document.querySelector('#t0 tbody').rows.length") == 16
    assert seen.js("return document.querySelector('#t0 details').open")


def test_a_screen_reader_is_told_what_a_drawing_shows(show: Open) -> None:
    seen = show()
    assert re.fullmatch(
        r"fused, post_ops in 16 runs from 2026-09-2\d [\d:]+ to 2026-10-0\d [\d:]+: [\d.]+ to [\d.]+ milliseconds; 1 change\.",
        seen.js("return document.querySelector('#t0 [role=img]').ariaLabel"),
    )
    unnamed = """return [...document.querySelectorAll("a, button, input, summary, section, article, nav, [role=region]")].filter(
        e => !(e.ariaLabel || e.textContent.trim() || e.labels?.length || e.getAttribute("aria-labelledby"))).length"""
    assert seen.js(unnamed) == 0
