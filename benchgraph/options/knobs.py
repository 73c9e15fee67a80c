"""Knob sets: frozen dataclasses of options. A field is an option, its default, a product axis and a word of the repro line.

This module and its imports stay free of numpy, so that `benchgraph --help` is quick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from benchgraph.core.isa import ISA_CHOICES, ISAS
from benchgraph.options import global_parsers
from benchgraph.options.library_name import KINDS, LibraryName, labels
from benchgraph.options.parsers import (
    Parse,
    boolean,
    engine,
    letters,
    natural,
    one_of,
    pattern,
    positive,
    real_between,
    shard,
    some_of,
    text,
)
from benchgraph.results.mode import Mode


@dataclass(frozen=True)
class Knob:
    """How one field is set. parse raises ValueError, whose text (if any) is the remedy.

    value: the grammar, for --help; group: the section there. product: a comma list runs the case once per alternative; an empty alternative
    is the default. merge: combines the value with that of a repeated option. flag: the value may be omitted, and is then true. bare: the
    value may stand without its option, as problem descriptors do, and does so in the repro line. repro: whether the repro line includes it.
    config: the field of core.config.Config that it sets while a case runs. fixed_by: modes that determine the value themselves. lacks: why
    only the default is supported; a case with another value is skipped.
    """

    name: str
    option: str
    default: object
    parse: Parse
    value: str
    help: str
    group: str = ""
    product: bool = False
    merge: Callable[[Any, Any], object] | None = None
    flag: bool = False
    bare: bool = False
    repro: bool = True
    config: str = ""
    fixed_by: tuple[Mode, ...] = ()
    lacks: str = ""


def knob(default: object, parse: Parse, value: str, help: str, **more: object) -> Any:
    """A dataclass field that is a knob (typed Any, as dataclasses.field itself claims to return the default)."""
    return field(default=default, metadata={"parse": parse, "value": value, "help": help, **more})


@cache
def knobs_of(knobs: type) -> dict[str, Knob]:
    """Option -> knob, in order of declaration; mb_size becomes --mb-size unless the field names its option."""
    all_knobs = [Knob(f.name, default=f.default, **{"option": "--" + f.name.replace("_", "-"), **f.metadata}) for f in fields(knobs)]
    return {k.option: k for k in all_knobs}


def words(knobs: object, *, all: bool = False) -> list[str]:
    """The repro words of a knob set: values that differ from the defaults, or, with all, every value that can be written."""
    kind: Any = type(knobs)
    shown = [k for k in knobs_of(kind).values() if k.repro and getattr(knobs, "mode", None) not in k.fixed_by]
    pairs = [(k, text(getattr(knobs, k.name)), text(k.default)) for k in shown]
    return [value if k.bare else f"{k.option}={value}" for k, value, default in pairs if value and (all or value != default)]


def _mode(word: str) -> Mode:
    try:
        return Mode(word.upper())
    except ValueError:
        raise ValueError(f"choose one of {', '.join(m.value for m in Mode)}") from None


USM = "usm"  # the only supported memory kind

# ---- the global knobs ------------------------------------------------------------------------------------------------

RUN, MEASURE, CHOOSE, SAY, MACHINE = "What is done", "How long it is measured", "Which cases run", "What is said", "On what"


@dataclass(frozen=True)
class Side:
    """A library under a policy: one of the contenders that a case compares.

    label: its name in results: the policy alone if there is one library. is_witness: of a library other than the first, which is the one
    under test; wrong results of a witness are reported but do not fail the case.
    """

    library: str
    policy: str
    label: str
    is_witness: bool = False


@dataclass(frozen=True)
class Globals:
    """The options that all drivers share. policy () is the mode's default, see `policies`."""

    mode: Mode = knob(  # noqa: RUF009 - knob() is dataclasses.field()
        Mode.correctness,
        _mode,
        "{L,I,R,C,B,P,F,S}",
        "list, initialise (compile), run once, check (default), run twice and compare bit by bit, measure performance, measure it fast "
        "(as P with 10 ms), execute once, unprepared, and time that (S, for simulators)",
        group=RUN,
    )
    mode_modifier: str = knob(
        "",
        letters("P", "M"),
        "{P,M}",
        "M: no reference, inputs hold one constant (not in mode C); P: creating cases in parallel changes nothing here",
        group=RUN,
        merge=lambda old, new: "".join(sorted({*old, *new})),
    )
    policy: tuple[str, ...] = knob(
        (),
        global_parsers.policies,
        "P[:no-PASS][,P...]",
        "partition policies, measured together: fused, post_ops, one_op_each (default fused; in mode P all), each perhaps without some "
        "passes of the compiler, as in fused:no-coarse+no-shrink: attach, coarse, defer, fold-batch, hoist, inplace, interleave, jam, "
        "low-precision, merge-quantisation, non-temporal, pack-on-the-fly, pad, prefetch, privatise, round, shrink, sink, split-heads, "
        "split-reductions, transpose, unroll, vectorise-random, vectorize, widen",
        group=RUN,
    )
    seed: int = knob(0, natural, "N[,N...]", "seed of the input data", product=True, group=RUN)
    fill: str = knob(
        "",
        one_of("integers", "reals"),
        "{integers,reals}",
        "data of mode C: benchdnn's, small integers whose sums are exact, with its masks and statistics (the default of every driver but "
        "fuzz), or reals with full mantissas",
        product=True,
        group=RUN,
    )
    data: str = knob(
        "",
        str,
        "FILE",
        "data of the inputs, from FILE.npz, FILE.safetensors, or a folder of .npy; arrays are named by an input's id, or OP:PORT, as in "
        "fc1:weights",
        group=RUN,
    )
    save_failures: str = knob(
        "",
        str,
        "DIR",
        "write graph, inputs, outputs, expected values and repro line of every failed case to a folder under DIR",
        group=SAY,
        repro=False,
    )
    repeats_per_prb: int = knob(1, positive, "N", "run every case N times; its status is the first that is not a pass", group=RUN)
    memory_kind: str = knob(
        USM,
        one_of(USM, "buffer", "usm_device", "usm_shared"),
        "KIND",
        "usm (default): the process's own memory; the others are those of devices, and their cases are skipped",
        group=MACHINE,
    )
    engine: str = knob("cpu", engine, "cpu[:0]", "the engine; there is the one", group=MACHINE)
    library: tuple[str, ...] = knob(
        ("benchgraph",),
        global_parsers.libraries,
        "[LABEL=]NAME[:PLACE][,...]",
        "the library under test: benchgraph (default), or another checkout or commit of it, PLACE; or onednn: PLACE is its file, else "
        "BENCHGRAPH_ONEDNN, an installed wheel, the system's. "
        "Others after it run on the same data: mode C says who is right where they differ, mode P measures them in turns",
        group=MACHINE,
    )
    threads: int = knob(
        0, natural, "N[,N...]", "threads; 0 = BENCHGRAPH_THREADS, else one per core", product=True, config="threads", group=MACHINE
    )
    isa: str = knob(
        "auto",
        one_of(*ISA_CHOICES),
        "NAME[,...]",
        f"instruction set: auto (default, the CPU's highest), {', '.join(ISAS)}; oneDNN's names",
        product=True,
        config="isa",
        group=MACHINE,
    )
    tuning: str = knob("", str, "FILE", "template parameters that `benchgraph tune --store=FILE` found", config="tuning", group=MACHINE)
    max_ms_per_prb: float = knob(
        3000.0,
        real_between(10.0, 60000.0),
        "MS",
        "time for the samples of one case, all policies together (10 to 60000, default 3000): two thirds for the whole graph, one third "
        "for single partitions; at least 5 samples are taken whatever they cost",
        group=MEASURE,
        fixed_by=(Mode.fast_performance,),
    )
    fix_times_per_prb: int = knob(0, natural, "N", "take exactly N samples instead", group=MEASURE, fixed_by=(Mode.simulation,))
    cold_cache: str = knob(
        "none",
        global_parsers.cold_cache,
        "{none,wei,all}[+tlb[:SIZE]]",
        "what is flushed from the caches before every execution, each of which is then a sample: nothing (default), constants and what was "
        "computed from them, all inputs and outputs of partitions too; tlb touches other pages, SIZE in M or G (default 1G)",
        group=MEASURE,
    )
    num_streams: int = knob(
        1,
        positive,
        "N",
        "executions in flight, each with an N-th of the threads and data of its own; times are per execution finished (default 1)",
        group=MEASURE,
    )
    check_ref_impl: bool = knob(
        False,
        boolean,
        "[BOOL]",
        "a case fails where the library under test runs a reference implementation, one whose name contains ref",
        group=CHOOSE,
        flag=True,
    )
    start: int = knob(0, natural, "N", "skip the cases before the N-th", group=CHOOSE, repro=False)
    match: str = knob("", pattern, "REGEX", "leave out cases whose repro line REGEX is not found in", group=CHOOSE, repro=False)
    shard: tuple[int, int] = knob(
        (1, 1), shard, "I/N", "every N-th case, from the I-th on: one of N parts that make all", group=CHOOSE, repro=False
    )
    fail_fast: bool = knob(False, boolean, "", "stop after the first failure", group=CHOOSE, repro=False, flag=True)
    fail_on: tuple[str, ...] = knob(
        (),
        some_of("skipped", "mistrusted"),
        "STATUS[,...]",
        "exit with 1 when cases are skipped or mistrusted too, not only when they fail: {skipped,mistrusted}",
        group=SAY,
        repro=False,
    )
    verbose: int = knob(
        0,
        natural,
        "N",
        "or -vN. 1: which case starts, tracebacks, how far every output is from right, and at the end where the time went; 2: warnings; "
        "3: the ops of every partition, and which inputs a displacement rule fills; 6: what every input holds, and what every output is "
        "held to; 7: the graph after all overrides",
        group=SAY,
        repro=False,
    )
    perf_template: str = knob(
        "def", global_parsers.template, "{def,csv,TEXT}", "what a perf line says: benchdnn's %tokens%, and %policy%", group=SAY, repro=False
    )
    jobs: int = knob(
        0,
        natural,
        "N",
        "run the cases in N processes: a crash costs one case. 0 (default): in this process; mode P: at most 1",
        group=CHOOSE,
        repro=False,
    )
    timeout: float | None = knob(
        None,
        real_between(0.0, 1e6),
        "SECONDS",
        "give a case up after so long; 0 = never. Default 300 with --jobs, else none; implies --jobs=1",
        group=CHOOSE,
        repro=False,
    )
    report: tuple[tuple[str, str], ...] = knob(
        (),
        global_parsers.report,
        "NAME[:FILE]",
        "write a report at the end, to FILE if given (its folder is made), - for standard output alone; json:FILE grows while cases "
        "finish; may be repeated",
        group=SAY,
        repro=False,
        merge=lambda old, new: (*old, *new),
    )
    resume: str = knob(
        "", global_parsers.file, "FILE", "as --report=json:FILE, and do not run the cases that FILE has already", group=CHOOSE, repro=False
    )
    history: str = knob(
        "",
        global_parsers.history,
        "[URL]",
        "append the run to a history: a SQLite file, or postgresql://USER@HOST/DATABASE; without a value BENCHGRAPH_HISTORY",
        group=SAY,
        repro=False,
        flag=True,
    )
    commit: str = knob(
        "", str, "REF", "what the run measures, for its history; default: the checkout of benchgraph", group=SAY, repro=False
    )
    summary: str = knob(
        "",
        global_parsers.summary,
        "[no-]failures[+...]",
        "list the failed cases at the end (default) or not; [no-]impl and [no-]impl-csv are tables that benchdnn leaves empty for graphs",
        group=SAY,
        repro=False,
    )
    canonical: bool = knob(False, boolean, "[BOOL]", "repro lines say every shared option", group=SAY, repro=False, flag=True)
    dump_dir: str = knob(
        "", str, "DIR", "write every stage of every partition as text under DIR", group=SAY, repro=False, config="dump_dir"
    )

    @property
    def reports(self) -> tuple[tuple[str, str], ...]:
        """The reports to write, including that of --resume."""
        own = ("json", self.resume)
        return (*self.report, own) if self.resume and own not in self.report else self.report

    @property
    def policies(self) -> tuple[str, ...]:
        return self._policies_of(self.library[0])

    @property
    def sides(self) -> tuple[Side, ...]:
        """The contenders: libraries under their policies. With several libraries, policies that one of them lacks are left out."""
        if len(self.library) == 1 and len(KINDS[LibraryName.read(self.library[0]).kind].policies) > 1:
            return tuple(Side(self.library[0], policy, policy) for policy in self.policies)
        named, sides = labels(self.library), list[Side]()
        for library in self.library:
            kind = KINDS[LibraryName.read(library).kind]
            for policy in self._policies_of(library):
                if kind.has_policy(policy):
                    label = named[library] if len(kind.policies) == 1 else f"{named[library]}:{policy}"
                    sides.append(Side(library, policy, label, library != self.library[0]))
        return tuple(sides)

    def _policies_of(self, library: str) -> tuple[str, ...]:
        policies = KINDS[LibraryName.read(library).kind].policies
        if self.policy and len(policies) > 1:
            return self.policy
        return policies if self.mode.is_timed else policies[:1]

    @property
    def has_no_reference(self) -> bool:
        """Whether inputs hold one constant and nothing is compared with a reference."""
        return "M" in self.mode_modifier or self.mode in (Mode.run, Mode.fast_performance, Mode.simulation)

    @property
    def budget_ms(self) -> float:
        return FAST_MS if self.mode is Mode.fast_performance else self.max_ms_per_prb

    @property
    def fixed_times(self) -> int:
        return 1 if self.mode is Mode.simulation else self.fix_times_per_prb


FAST_MS = 10.0  # benchdnn's --max-ms-per-prb in mode F

# Options of benchdnn without effect here, and why.
INERT = {
    "--cpu-isa-hints": "the vector width is part of --isa",
    "--stream-kind": "there is one stream, in order",
    "--execution-mode": "there is no device queue to record",
    "--global-impl": "the reference is numpy's, not a list of implementations",
    "--global-skip-impl": "the reference is numpy's, not a list of implementations",
    "--buffer-prefix": "inputs are made from --seed",
    "--mem-check": "whether a case fits into memory is always checked",
    "--fast-ref": "the reference is numpy's",
    "--attr-same-pd-check": "there are no primitive descriptors",
    "--allow-enum-tags-only": "tags are read as they are written",
    "--concise": "repro lines are said in full",
}
