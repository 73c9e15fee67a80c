"""The CSV report, whole."""

from __future__ import annotations

from benchgraph.options.plugins import load_report
from benchgraph.results.mode import Mode
from benchgraph.results.result import CaseResult, PolicyTiming, Result, ResultSet, Status, Timing


def policy(name: str, *samples_s: float) -> PolicyTiming:
    return PolicyTiming(name, Timing(samples_s, 1), ())


def test_a_row_per_policy_and_one_for_a_case_that_was_not_timed() -> None:
    timings = (policy("fused", 0.25, 0.5, 0.5), policy("post_ops", 1.0, 1.0, 1.5))
    roofs = {"peak_samples": (4e9,), "bandwidth_samples": {10**8: (1e9,)}}
    counts = {"fused": 1, "post_ops": 3}
    timed = Result(Status.EXECUTED, n_partitions=counts, flops=10**9, bytes=10**8, timings=timings, cold_cache="all", **roofs)
    cases = (CaseResult(0, "--case=a,b.json", 1.0, timed), CaseResult(1, "--case=c.json", 0.0, Result(Status.SKIPPED, "why")))
    assert load_report("csv")(ResultSet(Mode.performance, None, cases, 1.0)) == (
        "index,repro,status,reason,policy,n_partitions,cold_cache,num_streams,min_ms,median_ms,"
        "flops,bytes,intensity,gflops,peak_share,gbytes,bandwidth_share,compile_ms,ratio,host,machine\n"
        '0,"--case=a,b.json",EXECUTED,,fused,1,all,1,250,500,1000000000,100000000,10,2,0.5,0.2,0.2,0,1,,\n'
        '0,"--case=a,b.json",EXECUTED,,post_ops,3,all,1,1000,1000,1000000000,100000000,10,1,0.25,0.1,0.1,0,2,,\n'
        "1,--case=c.json,SKIPPED,why,,,,,,,,,,,,,,,,,\n"
    )


def test_a_run_without_cases_is_a_header() -> None:
    assert load_report("csv")(ResultSet(Mode.correctness, None, (), 0.0)).count("\n") == 1
