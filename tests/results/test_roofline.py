"""Arithmetic intensity, shares and the nearer roof, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.results.result import PartitionTiming, PolicyTiming, Result, Status, Timing
from benchgraph.results.roofline import Roofline

# a 256 x 128 by 128 x 64 multiplication of f32 in 0.1 ms, on a machine of 100 GFLOP/s that reads 10 GB/s
MATMUL = Roofline(flops=2 * 256 * 128 * 64, bytes=4 * (256 * 128 + 128 * 64 + 256 * 64), seconds=1e-4, peak=100e9, bandwidth=10e9)


def test_a_multiplication() -> None:
    assert MATMUL.intensity == pytest.approx(4194304 / 229376) == pytest.approx(18.2857, rel=1e-5)
    assert MATMUL.flops_per_s == pytest.approx(41.94304e9)
    assert MATMUL.bytes_per_s == pytest.approx(2.29376e9)
    assert MATMUL.peak_share == pytest.approx(0.4194304)
    assert MATMUL.bandwidth_share == pytest.approx(0.229376)
    assert MATMUL.bound == "peak"


@pytest.mark.parametrize("bandwidth", [1e9, 5e9, 5.5e9, 10e9, 1e12])
def test_the_share_of_the_nearer_roof_is_the_larger_share(bandwidth: float) -> None:
    work = replace(MATMUL, bandwidth=bandwidth)
    share = (work.flops / work.seconds) / min(work.peak, work.flops / work.bytes * work.bandwidth)
    shares = {"peak": work.peak_share, "bandwidth": work.bandwidth_share}
    assert share == pytest.approx(max(s for s in shares.values() if s is not None))
    assert shares[work.bound] == pytest.approx(share)


def test_unknown_peaks_give_no_share() -> None:
    bare = replace(MATMUL, peak=0.0, bandwidth=0.0)
    assert (bare.peak_share, bare.bandwidth_share, bare.bound) == (None, None, "")
    assert bare.intensity == MATMUL.intensity


def test_a_move_has_a_bandwidth_and_nothing_is_nothing() -> None:
    move = replace(MATMUL, flops=0)
    assert (move.intensity, move.flops_per_s, move.peak_share, move.bound) == (None, None, None, "bandwidth")
    assert move.bandwidth_share == MATMUL.bandwidth_share
    nothing = Roofline(0, 0, 1.0, 1.0, 1.0)
    assert (nothing.intensity, nothing.bytes_per_s, nothing.bandwidth_share, nothing.bound) == (None, None, None, "")


@pytest.mark.parametrize(("nbytes", "rate"), [(1, 9.0), (100, 9.0), (101, 5.0), (1000, 5.0), (5000, 5.0)])
def test_a_bandwidth_is_that_of_the_next_larger_probe(nbytes: int, rate: float) -> None:
    samples = {100: (8.0, 9.0), 1000: (5.0, 4.0)}
    assert Result(Status.EXECUTED, bandwidth_samples=samples).bandwidth(nbytes) == rate
    assert Result(Status.EXECUTED).bandwidth(nbytes) == 0.0


def test_streams_share_the_caches_of_their_data() -> None:
    part = PartitionTiming(0, "single", (0,), 10, 60, 0.0, Timing((1.0,), 1))
    policy = PolicyTiming("fused", Timing((2.0,), 1), (part,))
    result = Result(Status.EXECUTED, flops=20, bytes=50, timings=(policy,), bandwidth_samples={100: (9.0,), 1000: (5.0,)})
    assert [result.roofline(t).bandwidth for t in (policy, part)] == [9.0, 9.0]
    assert [replace(result, num_streams=2).roofline(t).bandwidth for t in (policy, part)] == [9.0, 5.0]
    assert (result.roofline(part).flops, result.roofline(policy).flops) == (10, 20)
