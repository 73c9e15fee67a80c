"""Runs and change points as text: the output of `benchgraph history` and `benchgraph regressions`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table

from benchgraph.analysis.history.changes import LEAST_RUNS, LEAST_SIDE, Change
from benchgraph.analysis.history.run_order import date, name, short
from benchgraph.analysis.history.series import History, Key
from benchgraph.analysis.history.store import RunRow
from benchgraph.core.formats import counted, milliseconds
from benchgraph.present.terminal import columns, grid, table_text
from benchgraph.present.word_wrap import folded

WHOLE = ("run", "date", "commit", "slower by")  # columns that are not folded
CHART = 100  # columns of a chart where there is no terminal


def uid_of(text: str) -> str:
    """A uid for a run whose report has none, derived from its text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def runs(h: History) -> str:
    t = _table("run", "date", "commit", "machine")
    for r in h.shown:
        t.add_row(str(r.id), date(r), short(r), "\n".join(h.machines[m] for m in r.machines))
    return "\n".join([_text(t), *_notes(h)])


# ---- a case over time ------------------------------------------------------------------------------------------------


def history(h: History, changes: dict[Key, list[Change]]) -> str:
    """Per case and machine: a chart of all policies, and a table of the runs."""
    parts = []
    for case, machine in dict.fromkeys((key.case, key.machine) for key in sorted(h.series)):
        keys = [key for key in sorted(h.series) if (key.case, key.machine) == (case, machine)]
        lines = {key.policy: _times(h, key) for key in keys}
        if not any(lines.values()):
            continue
        case_changes = [c for key in keys for c in changes.get(key, [])]
        width = min(CHART, columns() - BESIDE)
        is_line = len({i for line in lines.values() for i in line}) > 1
        parts += [
            f"{case}\n{folded(h.machines[machine], columns())}\n",
            *([chart(lines, [c.after for c in case_changes], width), ""] if is_line else []),
            _case_tables(h, lines, keys, changes),
        ]
    return "\n".join([*parts, *_notes(h)])


def _times(h: History, key: Key) -> dict[int, float]:
    """Position -> milliseconds, starting with the run of --since."""
    s = h.series[key]
    return {i: t * 1e3 for i, t in zip(s.runs, s.times, strict=True) if i >= h.start - 1}


def _case_tables(h: History, lines: dict[str, dict[int, float]], keys: list[Key], changes: dict[Key, list[Change]]) -> str:
    """One table of all policies, or one for each policy if the terminal is too narrow."""
    whole = _case_table(h, lines, keys, changes)
    if _fits(whole) or len(keys) == 1:
        return _text(whole) + "\n"
    return "".join(_case_tables(h, {key.policy: lines[key.policy]}, [key], changes) for key in keys)


def _case_table(h: History, lines: dict[str, dict[int, float]], keys: list[Key], changes: dict[Key, list[Change]]) -> Table:
    t = _table("run", "date", "commit", *(f"{policy} ms" for policy in lines), "change")
    for i in sorted({i for line in lines.values() for i in line}):
        r = h.runs[i]
        cells = [milliseconds(line[i] * 1e-3) if i in line else "" for line in lines.values()]
        texts = [f"{key.policy} {_percent(c.ratio)}" for key in keys for c in changes.get(key, []) if c.after == i]
        t.add_row(str(r.id), date(r), short(r), *cells, ", ".join(texts))
    return t


# ---- what got slower -------------------------------------------------------------------------------------------------


def regressions(h: History, changes: dict[Key, list[Change]], threshold: float) -> str:
    slower = sorted(
        ((c, key) for key, series_changes in changes.items() for c in series_changes if c.ratio > 1),
        key=lambda row: (-row[0].ratio, row[1]),
    )
    faster = sum(c.ratio < 1 for series_changes in changes.values() for c in series_changes)
    lines = []
    if slower:
        lines += [_slower(h, slower), ""]
    left = sum(c.mended is None for c, _ in slower)
    mended = f", {len(slower) - left} mended since" if left < len(slower) else ""
    lines += _notes(h)
    closing = (
        f"{counted(left, 'regression')}{mended}, {counted(faster, 'improvement')} beyond {100 * threshold:.3g}% "
        f"in {len(h.series)} series of {counted(len(h.runs), 'run')}"
    )
    lines.append(folded(closing, columns()))
    return "\n".join(lines)


def _slower(h: History, slower: list[tuple[Change, Key]]) -> str:
    """A table; on a terminal that is too narrow for it, a line for each case and a sentence for each change."""
    several = len({key.machine for key in h.series}) > 1
    rows = []
    for c, key in slower:
        machine = [h.machines[key.machine]] if several else []
        span = f"{_percent(c.low)} to {_percent(c.high)}"
        rows.append((key.case, key.policy, _percent(c.ratio), span, _range(h, c), date(h.runs[c.after]), *machine, _note(h, c)))
    heads = ("case", "policy", "slower by", "95 % interval", "last good..first bad", "date of it", "machine", "note")
    t = _table(*(head for head in heads if several or head != "machine"))
    for row in rows:
        t.add_row(*row)
    return _text(t) if _fits(t) else "\n".join(_sentences(rows))


def _sentences(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """The same with a line per case, which is not wrapped so that it can be copied."""
    for case in dict.fromkeys(case for case, *_ in rows):
        yield case
        for policy, slower, span, *others in (cells for its_case, *cells in rows if its_case == case):
            yield folded(f"  {policy} {slower} ({span}), {', '.join(filter(None, others))}", columns(), indent=4)


def _range(h: History, c: Change) -> str:
    """The commits before and after the change, as a git range if both are known, with their number if git knows it."""
    good, bad = h.runs[c.before], h.runs[c.after]
    place = {commit: i for i, commit in enumerate(h.git.lineage)}
    count = place[bad.commit] - place[good.commit] if {good.commit, bad.commit} <= place.keys() else 0
    return f"{name(good)}..{name(bad)}" + (f" ({count} commits)" if count > 1 else "")


def _note(h: History, c: Change) -> str:
    """Versions that changed there, and whether the times recovered."""
    good, bad = h.runs[c.before], h.runs[c.after]
    libraries = sorted({*good.versions, *bad.versions})
    notes = [f"{lib} {_version(good, lib)} -> {_version(bad, lib)}" for lib in libraries if _version(good, lib) != _version(bad, lib)]
    return "; ".join([*notes, *([] if c.mended is None else [f"mended in {name(h.runs[c.mended])}"])])


def _version(run: RunRow, library: str) -> str:
    return run.versions.get(library, "none")


def notes(h: History) -> list[str]:
    """What to know about these series, a line each."""
    found = []
    if h.runs and not h.series:
        found.append("no times here: runs in the modes P and F have them; 'benchgraph compare' compares the statuses of two reports")
    if h.left_out:
        found.append(f"{h.left_out} runs left out: HEAD does not come from their commits")
    if too_short := sum(len(s.runs) < LEAST_RUNS for s in h.series.values()):
        found.append(
            f"{too_short} of {len(h.series)} series have fewer than {LEAST_RUNS} runs, too few to tell a change from noise; "
            "'benchgraph compare' judges single runs"
        )
    if h.series and h.start > len(h.runs) - LEAST_SIDE and h.start:
        rule = f"a change can be detected only with at least {LEAST_SIDE} runs before and after it"
        found.append(f"{len(h.runs) - h.start} runs since then; {rule}")
    return found


def _notes(h: History) -> list[str]:
    return [folded(f"note: {note}", columns()) for note in notes(h)]


def _percent(ratio: float) -> str:
    return f"{ratio - 1:+.1%}"


# ---- terminals -------------------------------------------------------------------------------------------------------


def _table(*heads: str) -> Table:
    t = grid()
    for column in heads:
        is_number = column.endswith(" ms") or column in ("run", "slower by")
        t.add_column(column, justify="right" if is_number else "left", overflow="fold", no_wrap=column in WHOLE)
    return t


def _fits(t: Table) -> bool:
    """Whether no line is wrapped on the terminal."""
    return max(map(len, table_text(t).splitlines())) <= columns()


def _text(t: Table) -> str:
    return table_text(t, columns())


# ---- charts -----------------------------------------------------------------------------------------------------------

HEIGHT = 12  # rows
MARKS = "o+x*#"
BESIDE = 20  # columns of the axis


def chart(lines: Mapping[str, Mapping[int, float]], changed: Sequence[int], width: int) -> str:
    """A text chart of times over runs: a letter per policy, a column per run, changes marked below.

    lines: name -> position of a run -> milliseconds; changed: positions of change points.

    If there are more runs than columns, a column is several runs and shows each line's median.
    """
    at = sorted({i for line in lines.values() for i in line})
    low, high = _scale([v for line in lines.values() for v in line.values()])
    runs_per_column = -(-len(at) // max(width, 1))
    columns = [at[i : i + runs_per_column] for i in range(0, len(at), runs_per_column)]
    rows = [[" "] * len(columns) for _ in range(HEIGHT)]
    for mark, line in zip(_marks(len(lines)), lines.values(), strict=True):
        for x, runs in enumerate(columns):
            values = sorted(line[i] for i in runs if i in line)
            if values:
                y = round((high - values[len(values) // 2]) / (high - low) * (HEIGHT - 1))
                rows[y][x] = mark
    label = len(f"{high:.4f}")
    rows_text = [f"{high - (high - low) * y / (HEIGHT - 1):{label}.4f} |{''.join(row).rstrip()}" for y, row in enumerate(rows)]
    foot = "".join("^" if any(i in changed for i in runs) else "-" for runs in columns)
    legend = [f"{mark} {name}" for mark, name in zip(_marks(len(lines)), lines, strict=True)]
    legend += ["^ another level from here on"] if "^" in foot else []
    indent = " " * (label + 2)
    legend_lines = [f"{indent}{'   '.join(legend)}"]
    if len(legend_lines[0]) > width + BESIDE:
        legend_lines = [f"{indent}{item}" for item in legend]
    return "\n".join([*rows_text, f"{'ms':>{label}} +{foot}", *legend_lines])


def _marks(count: int) -> str:
    return (MARKS * (count // len(MARKS) + 1))[:count]


def _scale(values: Sequence[float]) -> tuple[float, float]:
    """The range of values, at least 5 % of the largest, so that noise does not fill the chart."""
    low, high = min(values), max(values)
    short = max(0.0, 0.05 * high - (high - low))
    return max(0.0, low - short / 2), (high + short / 2) or 1.0
