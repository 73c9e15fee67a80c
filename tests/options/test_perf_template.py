"""Perf lines: every token of benchdnn's."""

from __future__ import annotations

import pytest

from benchgraph.options.argv import parse
from benchgraph.options.perf_template import COUNTED, CREATION, EMPTY, KNOWN, SAMPLED, check
from benchgraph.options.problem import Problem
from benchgraph.present.perf_line import header, lines
from benchgraph.results.result import CaseResult, PartitionTiming, PolicyTiming, Result, Status, Timing

# the fields of benchdnn's --perf-template (oneDNN, tests/benchdnn/doc/knobs_common.md)
BENCHDNN = (
    "time clocks freq bw flops ops ibytes obytes iobytes ctime cptime cpdtime prb desc driver engine idx impl name mb attr axis cfg alg "
    "dir dt sdt ddt bia_dt tag stag dtag wtag stat_tag group flags prop activation direction ctx-init ctx-exe"
)


def problem() -> Problem:
    return parse(["--mode=P", "--graph", "--mb=4", "--case=a.json"]).problems[0]


def timing(policy: str, *samples_s: float) -> PolicyTiming:
    whole = Timing(samples_s, 10)
    return PolicyTiming(policy, whole, (PartitionTiming(0, "k", (0,), 0, 0, 0.25, whole),))


def case(*timings: PolicyTiming) -> CaseResult:
    result = Result(Status.EXECUTED, flops=6_000_000, bytes=3000, input_bytes=1000, timings=timings)
    return CaseResult(7, problem().repro, 1.0, result)


def said(template: str, *timings: PolicyTiming) -> list[str]:
    check(template)
    return lines(template, problem(), case(*(timings or (timing("fused", 0.003, 0.001, 0.002),))))


def test_all_of_benchdnns_tokens_are_known() -> None:
    assert set(BENCHDNN.split()) | {"policy"} == KNOWN
    for name in KNOWN:
        assert len(said(f"%{name}%")) == 1


def test_the_default_is_benchdnns_line() -> None:
    assert header("def") == "Template entries: perf,%engine%,%prb%,%-time%,%0time%\nperf,engine,prb,min_time,avg_time"
    assert said("def") == ["perf,cpu,--mode=P --graph --mb=4 --case=a.json,1,2"]
    assert said("csv") == ["perf,cpu,--graph --mb=4 --case=a.json,1,2"]


def test_signs_pick_a_statistic_and_letters_a_unit() -> None:
    assert said("%time% %-time% %0time% %+time% %-Ktime%") == ["1 1 2 3 0.001"]
    assert said("%-Mflops% %-Gflops% %0Mflops% %+Mflops%") == ["6000 6 3000 2000"]
    assert said("%-Kbw%") == ["3000"]
    assert (
        header("%-Gflops%,%0time%,%+Kbw%,%ctime%")
        == "Template entries: %-Gflops%,%0time%,%+Kbw%,%ctime%\nmin_Gflops,avg_time,max_Kbw,max_ctime"
    )


def test_counts_creation_and_names() -> None:
    assert said("%Kops% %ibytes% %obytes% %Kiobytes%") == ["6000 1000 2000 3"]
    assert said("%ctime% %cptime% %cpdtime%") == ["250 250 0"]
    assert said("%driver%|%engine%|%idx%|%impl%|%mb%|%name%|%attr%") == ["graph|cpu|7|benchgraph|4||"]
    assert said("".join(f"%{name}%" for name in EMPTY)) == [""]


def test_a_line_per_policy_where_the_template_names_it() -> None:
    two = (timing("fused", 0.001), timing("post_ops", 0.002))
    assert said("%-time%", *two) == ["1"]
    assert said("%policy%:%-time%", *two) == ["fused:1", "post_ops:2"]


def test_a_case_that_was_not_timed_has_a_line_of_zeros() -> None:
    assert lines("def", problem(), case()) == ["perf,cpu,--mode=P --graph --mb=4 --case=a.json,0,0"]
    assert lines("%policy%,%-Gflops%,%ctime%", problem(), case()) == [",0,0"]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("%tim%", "unknown token %tim%; did you mean 'time'?"),
        ("%qqqqqq%", "unknown token %qqqqqq%; there are activation, alg, attr, "),
        ("50%", "'%' is no token; write %NAME%, as in %-time%"),
        ("%time", "'%time' is no token"),
        ("%*time%", "'%*time%' is no token"),
    ],
)
def test_invalid_templates_are_refused(template: str, message: str) -> None:
    with pytest.raises(ValueError) as bad:
        check(template)
    assert str(bad.value).startswith(message)


def test_every_name_is_in_one_group() -> None:
    assert not set(SAMPLED) & set(COUNTED) & set(CREATION) & set(EMPTY)
