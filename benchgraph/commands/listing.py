"""`benchgraph list`: batch files with their contents, drivers, reports, policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from textwrap import wrap

from benchgraph.commands.help_page import page_width
from benchgraph.core.errors import UsageError, did_you_mean
from benchgraph.core.files import data_dir
from benchgraph.core.passes import OFF
from benchgraph.options.argv import parse
from benchgraph.options.library_name import KINDS
from benchgraph.options.plugins import about, load_driver, names

POLICIES = {
    "fused": "all ops that can share loops become one partition",
    "post_ops": "one product with what follows element by element",
    "one_op_each": "every op by itself",
}


def listing(given: Sequence[str]) -> str:
    """The requested list, or all. Raises UsageError for an unknown one."""
    parts: dict[str, Callable[[], str]] = {"batches": batches, "drivers": drivers, "reports": reports, "policies": policies}
    if not given:
        return "\n\n".join(part() for part in parts.values())
    word = given[0]
    if word in names("drivers") and len(given) == 1:
        return _batches_of(word) or f"{word} has no batch files of its own"
    if word not in parts or len(given) > 1:
        near = did_you_mean(word, [*parts, *names("drivers")]) if len(given) == 1 else ""
        fix = near or f"write one of {', '.join(parts)}, or a driver's name"
        raise UsageError(f"no list of '{' '.join(given)}'", where="list", fix=fix)
    return f"{policies()}\n\n{switches()}" if word == "policies" else parts[word]()


def batches() -> str:
    return "\n\n".join(filter(None, map(_batches_of, names("drivers"))))


def drivers() -> str:
    return _table("Drivers: benchgraph --NAME --help", [(name, load_driver(name).about) for name in names("drivers")])


def reports() -> str:
    return _table("Reports: --report=NAME[:FILE]", [(name, about("reports", name)) for name in names("reports")])


def policies() -> str:
    return _table("Policies: --policy=NAME[:no-PASS+...][,...]", [(name, f"{text}{_only(name)}") for name, text in POLICIES.items()])


def switches() -> str:
    from benchgraph.library.own_library import SWITCHES  # imports LLVM

    return _table("Passes to leave out: --policy=NAME:no-PASS", [(f"{OFF}{switch}", passes) for switch, passes in SWITCHES.items()])


def _only(policy: str) -> str:
    """The libraries that have it, unless all do of those that have a choice."""
    choosing = {library: kind for library, kind in KINDS.items() if len(kind.policies) > 1}
    having = [library for library, kind in choosing.items() if policy in kind.policies]
    return "" if len(having) == len(choosing) else f" ({', '.join(having)} only)"


def _batches_of(driver: str) -> str:
    """The packaged batch files of a driver: lines with words, cases, and their initial comment."""
    folder = data_dir("inputs") / load_driver(driver).folder
    if load_driver(driver).inputs or not folder.is_dir():  # another driver's, which lists them
        return ""
    rows = [_row(driver, path) for path in sorted(folder.iterdir()) if path.is_file() and not path.suffix]
    width = max(len(name) for name, *_ in rows)
    lines = [(f"{name:{width}} {lines:>5} {cases:>5}", remark) for name, lines, cases, remark in rows]
    return _table(f"Batches of {driver}: --{driver} --batch=NAME", lines, f"{'NAME':{width}} LINES CASES")


def _row(driver: str, path: Path) -> tuple[str, int, int, str]:
    content = path.read_text(encoding="utf-8").splitlines()
    lines = sum(1 for line in content if line.split("#")[0].strip())
    remark = " ".join(line.lstrip("# ") for line in takewhile(lambda line: line.startswith("#"), content))
    return path.name, lines, parse([f"--{driver}", f"--batch={path.name}"]).planned, remark


def _table(title: str, rows: Sequence[tuple[str, str]], heads: str = "") -> str:
    """Descriptions are wrapped; in a table with heads they are cut."""
    left = max(len(form) for form, _ in rows)
    lines = [title, *([f"  {heads}"] if heads else []), *_lines(rows, left, page_width(), is_cut=bool(heads))]
    return "\n".join(line.rstrip() for line in lines)


def _lines(rows: Sequence[tuple[str, str]], left: int, width: int, *, is_cut: bool) -> Iterator[str]:
    room = width - left - 4
    for form, text in rows:
        first, *more = wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
        if more and is_cut:
            first, more = text[: room - 3].rpartition(" ")[0] + "...", []
        yield f"  {form:{left}}  {first}"
        yield from (f"  {'':{left}}  {line}" for line in more)
