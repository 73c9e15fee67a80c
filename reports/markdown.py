"""for pull requests: what failed, a row of policies per timed case, everything else folded away"""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.analysis.mean_ratios import mean_ratio, ratio_of
from benchgraph.core.formats import counted, milliseconds
from benchgraph.options.repro import split
from benchgraph.present.layer_table import HEADS, SHOWN_LAYERS, heading, layer_rows, left_out
from benchgraph.present.markup import bullets, code, folded, machine, section, table
from benchgraph.results.layers import LayerProfile
from benchgraph.results.result import CaseResult, PolicyTiming, Result, ResultSet, Status, passed

TITLES = {Status.MISTRUSTED: "Mistrusted", Status.SKIPPED: "Skipped", Status.LISTED: "Listed"}

SUFFIXES = (".md", ".markdown")


def render(results: ResultSet) -> str:
    """GitHub's Markdown: the summary, failures, timings, what else there is to say, and the machine last.

    Timings of different kinds of machines are different sections.
    """
    failures, timed = results.failures, [c for c in results.cases if c.result.timings]
    kinds = results.by_kind
    parts = [_summary(results)]
    if failures:
        parts.append(section("Failed", _reasons(failures), len(failures)))
    for kind in kinds:
        if cases := [c for c in kind.cases if c.result.timings]:
            title = "Timings" if len(kinds) == 1 or kind.machine is None else f"Timings on {code(kind.machine.full_name)}"
            parts.append(section(title, _timings(cases), len(cases)))
    parts += [_layers(c, t, t.layers) for c in timed for t in c.result.timings if t.layers is not None]
    if warnings := [f"{code(c.repro)}: {code(w)}" for c in timed for w in c.result.warnings]:
        parts.append(folded(f"Reasons not to believe a timing ({len(warnings)})", bullets(warnings)))
    for status, title in TITLES.items():
        if found := [c for c in results.cases if c.result.status is status]:
            body = _reasons(found) if any(c.result.reason for c in found) else bullets([code(c.repro) for c in found])
            parts.append(folded(f"{title} ({len(found)})", body))
    if passed := [c for c in results.cases if c.result.status.is_pass and not c.result.timings]:
        parts.append(folded(f"Passed ({len(passed)})", bullets([code(c.repro) for c in passed])))
    parts += [machine(kind.machine, is_one_of_several=len(kinds) > 1) for kind in kinds if kind.machine is not None]
    return "\n\n".join(parts) + "\n"


def _summary(results: ResultSet) -> str:
    """As: **benchgraph**, mode C: 3 tests, 1 passed, **2 failed** (1 unimplemented), in 2.5 s."""
    n = results.counts
    kinds = [(n[s], s.value.lower().replace("_", " ")) for s in Status if s.is_failure and s is not Status.FAILED]
    why = ", ".join(f"{count} {name}" for count, name in kinds if count)
    counts = [(passed(n), "passed"), *((n[s], title.lower()) for s, title in TITLES.items())]
    said = [f"{count} {name}" for count, name in counts if count]
    if results.failures:
        said.insert(0, f"**{len(results.failures)} failed**" + (f" ({why})" if why else ""))
    return (
        f"**benchgraph**, mode {results.mode.value}: "
        + ", ".join([counted(n.total(), "test"), *said])
        + f", in {results.elapsed_s:.1f} s"
        + (f"; **{results.cut}**" if results.cut else "")
    )


def _reasons(cases: Sequence[CaseResult]) -> str:
    rows = [(c.result.status.value, code(c.repro), code(c.result.reason)) for c in cases]
    return table(("status", "case", "why"), rows, left=3)


def _timings(cases: list[CaseResult]) -> str:
    """A row per case. Per policy its median, and beside it the first one's shares of the peak, the others' ratio to the first."""
    first, *others = list(dict.fromkeys(t.policy for c in cases for t in c.result.timings))
    policies = [first, *others]
    header = ["case", f"{first} ms", f"{first} % of peak", "at best", *(f"{name} {what}" for name in others for what in ("ms", "ratio"))]
    rows = [[code(split(c.repro).identity), *(cell for name in policies for cell in _cells(c.result, first, name))] for c in cases]
    means = [cell for name in others for cell in ("", f"**{_mean(cases, first, name)}**")]
    return table(header, rows, foot=[["**geometric mean**", "", "", "", *means]] if len(cases) > 1 and means else [])


def _layers(case: CaseResult, t: PolicyTiming, profile: LayerProfile) -> str:
    """Where the time of one policy goes: alike layers of repeated blocks as one, those first that take longest."""
    rows = layer_rows(case.result, profile, is_folded=True, most=SHOWN_LAYERS)
    columns = [i for i in range(len(HEADS)) if i not in left_out(rows)]
    texts = [[code(row.cells[0]), *(row.cells[i] for i in columns[1:])] for row in rows]
    body = f"{code(split(case.repro).identity)}\n{code(heading(t, profile))}\n\n{table([HEADS[i] for i in columns], texts)}"
    return folded("Where the time goes", body)


def _cells(r: Result, first: str, policy: str) -> tuple[str, ...]:
    """The median in milliseconds; for the first policy its share of the peak and that of the minimum, for others the ratio to the first."""
    found = {t.policy: t for t in r.timings}
    if policy not in found:
        return ("", "", "") if policy == first else ("", "")
    timing = found[policy].timing
    if policy == first:
        shares = (f"{r.flops / s / r.peak:.0%}" if r.flops and r.peak else "" for s in (timing.median_s, timing.min_s))
        return milliseconds(timing.median_s), *shares
    return milliseconds(timing.median_s), f"{ratio_of(found[policy], found[first]):.2f}" if first in found else ""


def _mean(cases: list[CaseResult], first: str, policy: str) -> str:
    mean = mean_ratio(cases, first, policy)
    return "-" if mean is None else f"{mean:.2f}"
