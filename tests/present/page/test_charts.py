"""The plots: marks stand where their numbers say."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache
from math import log
from statistics import median

import pytest

from benchgraph.present.page.charts import LABELLED, Chart, _colour, _linear_limits, _log_limits, _marker, _Ratio, ceilings, charts, rate
from benchgraph.present.page.partition_bar import Segment
from benchgraph.present.page.view import view
from benchgraph.results.result import ResultSet
from tests.present.page.runs import MACHINE, TIMED, timed, timing

SVG = "{http://www.w3.org/2000/svg}"


@cache
def of_timed() -> dict[str, Chart]:
    return drawn(TIMED)


def drawn(results: ResultSet) -> dict[str, Chart]:
    return {chart.name: chart for chart in charts(view(results))}


def links(svg: str) -> list[tuple[str, int, ET.Element]]:
    """Key of the case, series, and what is drawn, in the order of drawing."""
    return [(a.attrib["href"][1:], int(a.attrib["data-series"]), a) for a in ET.fromstring(svg).iter(f"{SVG}a")]


def dots(svg: str) -> dict[tuple[str, int], tuple[float, float]]:
    """The middle of every mark, which is a path of its own where there are few."""
    found = {}
    for key, series, a in links(svg):
        use = a.find(f".//{SVG}use")
        found[key, series] = middle(a) if use is None else (float(use.attrib["x"]), float(use.attrib["y"]))
    return found


def points(a: ET.Element) -> list[tuple[float, float]]:
    (path,) = a.iter(f"{SVG}path")
    return [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)(?= *[MLCz]| *$)", path.attrib["d"])]


def middle(a: ET.Element) -> tuple[float, float]:
    x, y = ((max(values) + min(values)) / 2 for values in zip(*points(a), strict=True))
    return x, y


def width(a: ET.Element) -> float:
    """Of a bar, from left to right."""
    xs = [x for x, _ in points(a)]
    return max(xs) - min(xs)


@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_the_roofline_has_a_dot_per_policy_where_its_intensity_and_rate_are(size: str) -> None:
    found = dots(getattr(of_timed()["roofline"], size))
    want = {}
    for n, case in enumerate(TIMED.cases):
        for series, t in enumerate(case.result.timings):
            r = case.result
            want[f"r0c{n}", series] = (log(r.flops / r.bytes), log(r.flops / median(t.timing.samples_s)))
    assert found.keys() == want.keys()
    (x0, y0), (x1, y1) = found["r0c0", 0], found["r0c2", 2]
    (u0, v0), (u1, v1) = want["r0c0", 0], want["r0c2", 2]
    for key, (u, v) in want.items():
        x, y = x0 + (u - u0) * (x1 - x0) / (u1 - u0), y0 + (v - v0) * (y1 - y0) / (v1 - v0)
        assert found[key] == pytest.approx((x, y), abs=0.3), key


def test_the_peaks_are_printed_with_their_measurement() -> None:
    words = "".join(ET.fromstring(of_timed()["roofline"].wide).itertext())
    for name in ("peak 16 GFLOP/s", "memory 2 GB/s", "cache 5 GB/s"):
        assert name in words


def test_bars_are_as_long_as_ratios_are_away_from_1() -> None:
    bars = [(key, series, width(a)) for key, series, a in links(of_timed()["ratios"].wide)]
    assert [(key, series) for key, series, _ in bars] == [(f"r0c{n}", s) for n in range(3) for s in (1, 2)]
    unit = bars[0][2] / 0.25
    assert [length for *_, length in bars] == pytest.approx([unit * r for r in (0.25, 1.5, 0.25, 1.5, 0.5, 0.0)], abs=0.01)


def test_many_ratios_are_sorted_curves_of_all() -> None:
    count = LABELLED // 2 + 1
    ratios = [(1.0, 1.0 + (7 * n % count) / 10, 2.0) for n in range(count)]
    results = replace(TIMED, cases=tuple(timed(n, ms=1.0, nbytes=10**6, ratios=r) for n, r in enumerate(ratios)))
    found = dots(drawn(results)["ratios"].wide)
    assert len(found) == 2 * count
    by_place = sorted((x, y, key) for (key, series), (x, y) in found.items() if series == 1)
    assert [key for *_, key in by_place] == [f"r0c{n}" for n in sorted(range(count), key=lambda n: ratios[n][1])]
    heights = [y for _, y, _ in by_place]
    assert heights == sorted(heights, reverse=True)


def test_partitions_are_as_long_as_their_share() -> None:
    bars = [(key, series, width(a)) for key, series, a in links(of_timed()["partitions"].wide)]
    unit = bars[0][2]
    assert [(series, round(length / unit, 3)) for key, series, length in bars if key == "r0c0"] == [
        *[(0, 1.0), (1, 0.625), (1, 0.625), (2, 1.25), (2, 1.25)],
    ]


def test_wide_intervals_do_not_flatten_the_bars() -> None:
    """One policy's samples of a case go all ways: its interval is cut, and the other bars keep their length."""
    case = timed(9, ms=1.0, nbytes=10**6)
    loud = case.result.timings[1]
    wild = replace(loud, timing=replace(loud.timing, samples_s=(1e-6, 1e-3, 1.25e-3, 1.25e-3, 1.25e-3, 1.0, 9.0)))
    timings = (case.result.timings[0], wild, case.result.timings[2])
    cases = (*TIMED.cases[:3], replace(case, result=replace(case.result, timings=timings)))
    calm = [width(a) for *_, a in links(of_timed()["ratios"].wide)]
    with_wild = [width(a) for *_, a in links(drawn(replace(TIMED, cases=cases))["ratios"].wide)]
    assert with_wild[1] > calm[1] / 3


@pytest.mark.parametrize("value", [0.6, 1.0, 1.49])
def test_a_ratio_without_an_interval_is_drawn_from_1(value: float) -> None:
    found = [_Ratio(None, 1, value, value, value)]  # type: ignore[arg-type]
    for low, high in (_linear_limits(found), _log_limits(found)):
        assert low < min(value, 1.0)
        assert high > max(value, 1.0)


def test_the_roofline_has_the_ceiling_of_every_dtype() -> None:
    machine = replace(MACHINE, peak_flops={"f32": 16e9, "bf16": 32e9, "int8": 64e9})
    words = "".join(ET.fromstring(drawn(replace(TIMED, machine=machine))["roofline"].wide).itertext())
    for name in ("f32 peak 16 GFLOP/s", "bf16 peak 32 GFLOP/s", "int8 peak 64 GOP/s"):
        assert name in words


def test_every_ceiling_is_a_line_that_ends_within_the_picture() -> None:
    """Also those that cases of low intensity are far from: the picture reaches beyond the corner of each."""
    machine = replace(MACHINE, peak_flops={"f32": 16e9, "bf16": 3200e9, "int8": 6400e9})
    low = tuple(timed(n, ms=1.0, nbytes=100_000_000) for n in range(2))
    svg = ET.fromstring(drawn(replace(TIMED, cases=low, machine=machine))["roofline"].wide)
    lines = [re.findall(r"-?[\d.]+", p.attrib["d"]) for p in svg.iter(f"{SVG}path") if p.attrib["d"].count("L") == 1]
    level = {(float(y1), float(x2) - float(x1)) for x1, y1, x2, y2 in (found for found in lines if len(found) == 4) if y1 == y2}
    assert len({y for y, length in level if 30 < length < 500}) >= 3
    words = "".join(svg.itertext())
    assert "int8 peak 6400 GOP/s" in words
    assert "e+0" not in words


def test_close_ceilings_share_one_label() -> None:
    peaks = {"f32": 16e9, "int8": 900e9, "bf16": 17e9}
    assert ceilings(peaks, 1.3) == [("f32 peak 16 GFLOP/s, bf16 peak 17 GFLOP/s", 17e9), ("int8 peak 900 GOP/s", 900e9)]
    assert [rate(v) for v in (2.345e9, 345.6e9, 999.4e9, 999.5e9, 999.7e9, 5470e9)] == ["2.35", "346", "999", "1000", "1000", "5470"]


def test_series_of_one_colour_have_marks_of_different_shapes() -> None:
    marks = [(_colour(s), _marker(s)) for s in range(12)]
    assert len(set(marks)) == 12


def in_parts(count: int) -> ResultSet:
    """A case whose last policy has so many partitions, of which every third takes ten times as long."""
    case = TIMED.cases[0]
    *others, last = case.result.timings
    parts = tuple(replace(last.partitions[0], id=i, timing=timing(1.0 if i % 3 == 0 else 0.1)) for i in range(count))
    return replace(TIMED, cases=(replace(case, result=replace(case.result, timings=(*others, replace(last, partitions=parts)))),))


@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_small_partitions_are_one_piece_of_their_bar(size: str) -> None:
    svg = getattr(drawn(in_parts(30))["partitions"], size)
    widths = [width(a) for key, series, a in links(svg) if series == 2]
    assert len(widths) == 13
    unit = widths[0]
    assert sum(widths) == pytest.approx(unit * (10 * 1.0 + 20 * 0.1), rel=0.01)
    assert widths[-1] == pytest.approx(unit * 1.8, rel=0.02)
    assert "others (18)" in "".join(ET.fromstring(svg).itertext()) or "(18)" in "".join(ET.fromstring(svg).itertext())


@pytest.mark.parametrize(
    ("piece", "room", "said"),
    [
        (Segment(1.0, 7), 2.0, "7"),
        (Segment(1.0, 7), 1.9, ""),
        (Segment(1.0, 17), 2.9, ""),
        (Segment(1.0, None, 18), 12.0, "others (18)"),
        (Segment(1.0, None, 18), 11.0, "(18)"),
        (Segment(1.0, None, 18), 4.0, ""),
    ],
)
def test_a_name_stands_only_on_a_piece_that_holds_it(piece: Segment, room: float, said: str) -> None:
    assert piece.name(at_most=room) == said
