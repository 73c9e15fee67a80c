"""Knob sets: one frozen dataclass says what can be set. A field is an option, its default, a product axis and a word of the repro line.

This module and what it imports stay free of numpy, so that `benchgraph --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, TypeAlias

from benchgraph.core.errors import did_you_mean

Parse: TypeAlias = Callable[[str], object]


class Mode(Enum):
    """What is done with a case; each mode does what the ones before it do, and more."""

    list = "L"
    init = "I"
    run = "R"
    correctness = "C"
    performance = "P"


@dataclass(frozen=True)
class Knob:
    """How one field is set. parse raises ValueError, whose text (if any) is the remedy.

    value: the grammar, for --help. product: a comma list runs the case once per alternative. repeats: each use adds a value.
    bare: the value may stand without its option, as problem descriptors do; the repro line leaves the option out.
    repro: whether the repro line says it. config: the field of core.config.Config that it sets while a case runs.
    """

    name: str
    option: str
    default: object
    parse: Parse
    value: str
    help: str
    product: bool = False
    repeats: bool = False
    bare: bool = False
    repro: bool = True
    config: str = ""


def knob(default: object, parse: Parse, value: str, help: str, **more: object) -> Any:
    """A dataclass field that is a knob (Any, as dataclasses.field itself pretends to return the default)."""
    return field(default=default, metadata={"parse": parse, "value": value, "help": help, **more})


def knobs_of(knobs: type) -> dict[str, Knob]:
    """Option -> knob, in declaration order; mb_size becomes --mb-size unless the field names its option."""
    found = [Knob(f.name, f.metadata.get("option", "--" + f.name.replace("_", "-")), f.default, **_rest(f.metadata)) for f in fields(knobs)]
    return {k.option: k for k in found}


def _rest(metadata: Any) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key != "option"}


def words(knobs: Any) -> list[str]:
    """The repro words of a knob set: what differs from the defaults."""
    pairs = [(k, getattr(knobs, k.name)) for k in knobs_of(type(knobs)).values() if k.repro]
    return [text(value) if k.bare else f"{k.option}={text(value)}" for k, value in pairs if value != k.default]


def text(value: object) -> str:
    """A value as the command line spells it."""
    if isinstance(value, tuple):
        return ",".join(text(v) for v in value)
    if isinstance(value, Enum):
        return str(value.value)
    return f"{value:g}" if isinstance(value, float) else str(value)


# ---- parsers ---------------------------------------------------------------------------------------------------------


def natural(word: str) -> int:
    """A non-negative integer."""
    if not word.isdecimal():
        raise ValueError("give a non-negative integer")
    return int(word)


def real_between(least: float, most: float) -> Parse:
    """A number, clamped to the range as benchdnn does."""

    def parse(word: str) -> float:
        try:
            return min(max(float(word), least), most)
        except ValueError:
            raise ValueError("give a number") from None

    return parse


def one_of(*choices: str) -> Parse:
    def parse(word: str) -> str:
        if word not in choices:
            raise ValueError(did_you_mean(word, choices) or f"choose one of {', '.join(choices)}")
        return word

    return parse


def _mode(word: str) -> Mode:
    try:
        return Mode(word.upper())
    except ValueError:
        raise ValueError(f"choose one of {', '.join(m.value for m in Mode)}") from None


def _policies(word: str) -> tuple[str, ...]:
    from benchgraph.partition.ir import Policy  # imports numpy, so only when a policy is named

    known = [p.value for p in Policy]
    for name in (chosen := tuple(word.split(","))):
        if name not in known:
            raise ValueError(did_you_mean(name, known) or f"choose among {', '.join(known)}")
    return tuple(dict.fromkeys(chosen))


def _report(word: str) -> tuple[str, str]:
    """NAME or NAME:FILE; FILE '' means the terminal."""
    name, _, file = word.partition(":")
    if not name:
        raise ValueError("give NAME or NAME:FILE")
    return name, file


# ---- the global knobs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Globals:
    """What every driver shares. policy () means the mode's own choice, see `policies`."""

    mode: Mode = knob(  # noqa: RUF009 - knob() is dataclasses.field()
        Mode.correctness, _mode, "{L,I,R,C,P}", "list, initialise, run once, check (default), measure performance"
    )
    policy: tuple[str, ...] = knob(
        (),
        _policies,
        "P[,P...]",
        "partition policies, measured together: fused, post_ops, one_op_each (default fused; in mode P all)",
    )
    threads: int = knob(0, natural, "N[,N...]", "threads; 0 = BENCHGRAPH_THREADS, else one per core", product=True, config="threads")
    seed: int = knob(0, natural, "N[,N...]", "seed of the input data", product=True)
    max_ms_per_prb: float = knob(
        3000.0,
        real_between(10.0, 60000.0),
        "MS",
        "time for the samples of one case, all policies together (10 to 60000, default 3000): two thirds for the whole graph, one third "
        "for single partitions; at least 5 samples are taken whatever they cost",
    )
    fix_times_per_prb: int = knob(0, natural, "N", "take exactly N samples instead")
    verbose: int = knob(0, natural, "N", "-v: say which case starts, show tracebacks, and at the end where the time went", repro=False)
    library: str = knob("benchgraph", one_of("benchgraph"), "NAME", "the library under test (benchgraph)")
    report: tuple[tuple[str, str], ...] = knob(
        (), _report, "NAME[:FILE]", "write a report at the end, to FILE if given; may be repeated", repeats=True, repro=False
    )
    summary: str = knob(
        "failures", one_of("failures", "no-failures"), "[no-]failures", "list the failed cases at the end (default) or not", repro=False
    )
    dump_dir: str = knob("", str, "DIR", "write every stage of every partition as text under DIR", repro=False, config="dump_dir")

    @property
    def policies(self) -> tuple[str, ...]:
        if self.policy:
            return self.policy
        return ("fused", "post_ops", "one_op_each") if self.mode is Mode.performance else ("fused",)
