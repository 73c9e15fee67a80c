"""The page as text; test_browser.py tests it in a browser."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchgraph.cli import main
from benchgraph.options.plugins import load_report
from benchgraph.present.page.page import page
from benchgraph.present.page.view import accuracy
from benchgraph.present.time_table import machine
from benchgraph.results.json_report import render
from benchgraph.results.mode import Mode
from benchgraph.results.result import ResultSet, Status
from tests.present.page.runs import CHECKED, EMPTY, GRAPH, MACHINE, STRANGE, TIMED, checked, far, made, timed
from tests.support.result_sets import LAYERED, LAYERED_RESULTS, LAYERS

ROOT = Path(__file__).parents[3]
CSS = (ROOT / "benchgraph/present/page/page.css").read_text()


def store(text: str) -> list[str]:
    """What the page holds packed."""
    packed = re.search(r'id="store">([^<]*)<', text)
    return json.loads(zlib.decompress(base64.b64decode(packed[1]))) if packed else []


class Tags(HTMLParser):
    """Every tag with its attributes, and the text outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.open, self.words = list[tuple[str, dict[str, str | None]]](), list[str](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)


@pytest.mark.parametrize("results", [TIMED, CHECKED, EMPTY, STRANGE], ids=["timed", "checked", "empty", "hostile"])
@pytest.mark.parametrize("many", [0, 300])
def test_the_page_is_whole_and_names_nothing_outside(results: ResultSet, many: int) -> None:
    text = made(results, many)
    found = Tags(text)
    assert found.open == []
    ids = [attrs["id"] for _, attrs in found.tags if "id" in attrs]
    assert len(set(ids)) == len(ids)
    references = [value for _, attrs in found.tags for name, value in attrs.items() if name in ("href", "src", "aria-labelledby")]
    assert {r.removeprefix("#") for r in references if r} <= set(ids)
    assert not {"link", "img", "iframe", "base", "object"} & {tag for tag, _ in found.tags}
    assert not re.search(r"@import|url\((?!#)", text)
    assert set(re.findall(r"https?://[^\s\"'<)]*", text)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "default-src 'none'" in text


@pytest.mark.parametrize("results", [TIMED, CHECKED, EMPTY, STRANGE], ids=["timed", "checked", "empty", "hostile"])
def test_the_same_results_give_the_same_page(results: ResultSet) -> None:
    assert load_report("html")(results) == made(results)


def test_another_process_gives_the_same_page(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(render(TIMED))
    code = "import sys; from benchgraph.cli import main; main(['render', sys.argv[1], '--report=html:-'])"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "a.json"], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.removesuffix("\n") == made(TIMED)


@pytest.mark.parametrize("many", [0, 300])
def test_hostile_texts_are_text(many: int) -> None:
    text = made(STRANGE, many)
    found = Tags("".join([text, *store(text)]))
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert not [attrs for _, attrs in found.tags if any(name.startswith("on") for name in attrs)]
    words = "".join(found.words)
    for shown in (
        "</script><script>document.title='broken'</script>",
        "'\"&amp;<b>",
        "{{ 7 * 7 }}{% endraw %}",
        r"\x00\x1b[31mred\r\n\t\x7f\x9f",
    ):
        assert shown in words
    assert r"\u202egnp.exe\u2066 \ud800 \ufffe" in words
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800]", text)
    text.encode()


def test_pictures_of_hostile_graphs_are_xml() -> None:
    for picture in (text for text in store(made(STRANGE)) if text.startswith("<svg")):
        ET.fromstring(picture)


def test_pictures_are_kept_once_and_show_every_op() -> None:
    pictures = store(made(TIMED))
    assert len(pictures) == 3  # three cases with one graph, three policies
    groups = {g.get("id") for g in ET.fromstring(pictures[0]).iter("{http://www.w3.org/2000/svg}g")}
    assert {f"op{op.id}" for op in GRAPH.ops} | {f"t{id}" for id in GRAPH.tensors} <= groups
    assert "not executed" in pictures[0]


def test_a_result_without_its_graph_lists_its_partitions() -> None:
    case = TIMED.cases[0]
    text = made(replace(TIMED, cases=(replace(case, result=replace(case.result, graph=None)),)))
    assert store(text) == []
    assert "<li>single: op 7</li>" in text


def test_a_long_page_holds_details_packed() -> None:
    long, short = page([("", CHECKED)], many=4), page([("", CHECKED)], many=5)
    assert "Copy</button>" not in long
    assert sum("Copy</button>" in text for text in store(long)) == short.count("Copy</button>") == 5


def test_wrong_nan_or_infinity_is_reported_beside_distances() -> None:
    wrong = replace(far("whole graph", 1.0, 5), nonfinite=2)
    assert accuracy(wrong)[0] == "5 of 16 (2 in NaN or infinity)"
    case = checked(0, Status.FAILED, "wrong", 1.0)
    case = replace(case, result=replace(case.result, accuracy=(wrong,)))
    text = page([("", ResultSet(Mode.correctness, None, (case,), 1.0))])
    assert "5 (2 in NaN or infinity)" in text + "".join(store(text))


def test_empty_plots_are_not_drawn() -> None:
    assert "<svg" not in made(CHECKED)
    one = timed(0, ms=1.0, nbytes=10, ratios=(1.0,), names=("fused",))
    text = made(replace(TIMED, cases=(one,)))
    assert re.findall(r'<figure class="chart (\w+)"', text) == ["roofline"]
    moves = replace(one, result=replace(one.result, flops=0))
    assert "<svg" not in made(replace(TIMED, cases=(moves,)))


def test_series_may_have_any_name() -> None:
    names = ("benchgraph:fused", "onednn:fused", "torch eager")
    text = made(replace(TIMED, cases=(timed(0, ms=1.0, nbytes=10**6, names=names),)))
    assert re.search(r'scope="colgroup" colspan="8">benchgraph:fused<', text)
    assert re.search(r'data-head="torch eager" data-v="2.5">2.50 <span class="iv">', text)


def test_words_of_a_line_are_whole_and_statuses_may_be_broken() -> None:
    text = made(TIMED)
    assert "<code><span>--graph</span> <span>--case=attention_0.json</span></code>" in text
    assert ">INVALID_<wbr>ARGUMENTS<" in text


def test_remarks_are_printed_once() -> None:
    one = replace(MACHINE, threads=1, cores=1)
    assert machine(one).splitlines() == [
        "Test CPU, 1 core, avx2, 1 thread; python 3.11",
        "f32 peak 8 GFLOP/s; microkernel 256x256x256 6 GFLOP/s (75%)",
        "memory is read at 2.0 GB/s",
    ]


def test_several_runs_have_sections_of_their_own() -> None:
    text = page([("old/a.json", CHECKED), ("b.json", TIMED)])
    found = Tags(text)
    assert [attrs["id"] for tag, attrs in found.tags if tag == "section"] == ["r0", "r1"]
    assert [attrs["href"] for tag, attrs in found.tags if tag == "a" and "data-series" not in attrs] == ["#r0", "#r1"]
    assert "old/a.json: mode C, correctness" in text


# ---- colours ---------------------------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    """Relative, as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_marks_stand_out_from_their_ground(scheme: str) -> None:
    """WCAG 2, AA: 4.5:1 for text, 3:1 for what is drawn."""
    light, dark = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", light)) | (
        dict(re.findall(r"--([\w-]+): (#\w{6})", dark)) if scheme == "dark" else {}
    )
    for name, colour in colours.items():
        if name in ("ground", "raised", "line", "c14"):
            continue
        for ground in ("ground", "raised"):
            high, low = sorted((luminance(colour), luminance(colours[ground])), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= (3.0 if re.fullmatch(r"c\d\d|focus", name) else 4.5), (name, ground)


# ---- the command -----------------------------------------------------------------------------------------------------


def rendered(*words: str) -> Result:
    return CliRunner().invoke(main, ["render", *words])


def test_the_command_writes_what_the_report_renders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(render(TIMED))
    assert rendered("a.json", "--report=html:deep/a.html").output == "html report: deep/a.html\n"
    assert Path("deep/a.html").read_text() == made(TIMED)
    assert rendered("a.json").output == "html report: report.html\n"
    assert Path("report.html").read_text() == made(TIMED)


def test_the_command_joins_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(render(TIMED))
    Path("b.json").write_text(render(CHECKED))
    assert rendered("--report=html:-", "a.json", "b.json").output == page([("a.json", TIMED), ("b.json", CHECKED)]) + "\n"


def undrawn(results: ResultSet) -> ResultSet:
    """Without pictures, for graphs that are not whole."""
    return replace(results, cases=tuple(replace(c, result=replace(c.result, graph=None)) for c in results.cases))


def test_layers_are_folded_and_apart() -> None:
    text = page([("", undrawn(LAYERED_RESULTS))])
    tags = Tags(text)
    words = " ".join(" ".join(tags.words).split())
    assert "fused: 2 layers of 1 partition on fast" in words
    assert re.search(r"layer % time x ms each ms FLOP bytes % roof % busy a\.\*\.fc with ReLU 100.0% 2 337.5000", words)
    assert re.search(r"All 2 layers, in order of execution .* a\.0\.fc with act 66.7% .* a\.1\.fc with act 33.3%", words)
    assert not tags.open


def test_hostile_names_of_layers_are_text() -> None:
    layers = replace(LAYERS, layers=tuple(replace(layer, name=f"<b>{n}</b>\x1b") for n, layer in enumerate(LAYERS.layers)))
    result = replace(LAYERED, timings=(replace(LAYERED.timings[0], layers=layers),))
    results = replace(LAYERED_RESULTS, cases=(replace(LAYERED_RESULTS.cases[0], result=result),))
    text = page([("", undrawn(results))])
    assert "&lt;b&gt;0&lt;/b&gt;" in text
    assert "<b>" not in text
    assert "\x1b" not in text
