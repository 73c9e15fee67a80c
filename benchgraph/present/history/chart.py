"""A text chart of times over runs: a letter per policy, a column per run, changes marked below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

HEIGHT = 12  # rows
MARKS = "o+x*#"
BESIDE = 20  # columns of the axis


def chart(lines: Mapping[str, Mapping[int, float]], changed: Sequence[int], width: int) -> str:
    """lines: name -> position of a run -> milliseconds; changed: positions of change points.

    If there are more runs than columns, a column is several runs and shows each line's median.
    """
    at = sorted({i for line in lines.values() for i in line})
    low, high = _range([v for line in lines.values() for v in line.values()])
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


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The range of values, at least 5 % of the largest, so that noise does not fill the chart."""
    low, high = min(values), max(values)
    short = max(0.0, 0.05 * high - (high - low))
    return max(0.0, low - short / 2), (high + short / 2) or 1.0
