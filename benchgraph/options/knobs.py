"""Knob sets: frozen dataclasses of options. A field is an option, its default and a word of the repro line.

This module and its imports stay free of numpy, so that `benchgraph --help` is quick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, partial
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
    needs_value: an empty value is an error on the command line, where it stands for a variable that is not set; a batch file, which has no
    variables, restores the default by it. config: the field of core.config.Config that it sets while a case runs. fixed_by: modes that
    determine the value themselves. lacks: why only the default is supported; a case with another value is skipped.
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
    needs_value: bool = False
    config: str = ""
    fixed_by: tuple[Mode, ...] = ()
    lacks: str = ""


def knob(default: object, parse: Parse, value: str, help: str, **more: object) -> Any:
    """A dataclass field that is a knob (typed Any, as dataclasses.field itself claims to return the default)."""
    return field(default=default, metadata={"parse": parse, "value": value, "help": help, **more})


@cache
def knobs_of(knobs: type) -> dict[str, Knob]:
    """Option -> knob, in order of declaration: those of a base class behind the class's own, bare ones last.

    mb_size becomes --mb-size unless the field names its option.
    """
    shared = {f.name for base in knobs.__mro__[1:] if is_dataclass(base) for f in fields(base)}
    all_knobs = [Knob(f.name, default=f.default, **{"option": "--" + f.name.replace("_", "-"), **f.metadata}) for f in fields(knobs)]
    return {k.option: k for k in sorted(all_knobs, key=lambda k: (k.bare, k.name in shared))}


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

# One function for each group of options; those that do not change what a case is are not in its repro line.
_run = partial(knob, group="What is done")
_measure = partial(knob, group="How long it is measured")
_choose = partial(knob, group="Which cases run", repro=False, needs_value=True)
_say = partial(knob, group="What is said", repro=False)
_write = partial(_say, needs_value=True)
_machine = partial(knob, group="On what", needs_value=True)
_fleet = partial(_machine, repro=False)


@dataclass(frozen=True)
class ContenderSpec:
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

    mode: Mode = _run(  # noqa: RUF009 - knob() is dataclasses.field()
        Mode.correctness,
        _mode,
        "{L,I,R,C,B,P,F,S}",
        "list, initialise (compile), run once, check (default), run twice and compare bit by bit, measure performance, measure it fast "
        "(as P with 10 ms), execute once, unprepared, and time that (S, for simulators)",
    )
    mode_modifier: str = _run(
        "",
        letters("P", "M"),
        "{P,M}",
        "M: no reference, inputs hold one constant (not in mode C); P: creating cases in parallel changes nothing here",
        merge=lambda old, new: "".join(sorted({*old, *new})),
    )
    policy: tuple[str, ...] = _run(
        (),
        global_parsers.policies,
        "P[:no-PASS][,P...]",
        "partition policies, measured together: fused, post_ops, one_op_each (default fused; in mode P all), each perhaps without some "
        "passes of the compiler, as in fused:no-coarse+no-shrink: attach, cancel, channels-last, coarse, defer, fold-batch, hoist, "
        "inplace, jam, low-precision, merge-quantisation, non-temporal, pack-on-the-fly, pad, prefetch, round, "
        "shrink, sink, split-heads, split-reductions, transpose, unroll, vectorise, whole-groups, widen",
    )
    seed: int = _run(0, natural, "N[,N...]", "seed of the input data", product=True)
    fill: str = _run(
        "",
        one_of("integers", "reals"),
        "{integers,reals}",
        "data of mode C: benchdnn's, small integers whose sums are exact, with its masks and statistics (the default of every driver but "
        "fuzz), or reals with full mantissas",
        product=True,
    )
    data: str = _run(
        "",
        str,
        "FILE",
        "data of the inputs, from FILE.npz, FILE.safetensors, or a folder of .npy; arrays are named by an input's id, or OP:PORT, as in "
        "fc1:weights",
        needs_value=True,
    )
    save_failures: str = _write(
        "", str, "DIR", "write graph, inputs, outputs, expected values and repro line of every failed case to a folder under DIR"
    )
    repeats_per_prb: int = _run(1, positive, "N", "run every case N times; its status is the first that is not a pass")
    memory_kind: str = _machine(
        USM,
        one_of(USM, "buffer", "usm_device", "usm_shared"),
        "KIND",
        "usm (default): the process's own memory; the others are those of devices, and their cases are skipped",
    )
    engine: str = _machine("cpu", engine, "cpu[:0]", "the engine; there is the one")
    library: tuple[str, ...] = _machine(
        ("benchgraph",),
        global_parsers.libraries,
        "[LABEL=]NAME[:PLACE][,...]",
        "the library under test: benchgraph (default), or another checkout or commit of it, PLACE; or onednn, or its primitives, "
        "onednn:primitives: PLACE is its file (a comma in it is \\,), else BENCHGRAPH_ONEDNN, an installed wheel, the system's; or, "
        "for models, onnxruntime, openvino, torch (eager) or inductor: PLACE is a Python environment, else this one. "
        "Others after it run on the same data: mode C says who is right where they differ, mode P measures them interleaved",
    )
    threads: int = _machine(0, natural, "N[,N...]", "threads; 0 = BENCHGRAPH_THREADS, else one per core", product=True, config="threads")
    isa: str = _machine(
        "auto",
        one_of(*ISA_CHOICES),
        "NAME[,...]",
        f"instruction set: auto (default, the CPU's highest), {', '.join(ISAS)}; oneDNN's names",
        product=True,
        config="isa",
    )
    tuning: str = _machine("", str, "FILE", "schedules that `benchgraph tune --store=FILE` found", config="tuning")
    cluster: str = _fleet(
        "",
        global_parsers.cluster,
        "ADDRESS",
        "run the cases on the workers of a Dask scheduler: tcp://HOST:PORT, or its scheduler file; local:N: on N processes started here",
    )
    where: tuple[tuple[str, str], ...] = _fleet(
        (),
        global_parsers.where,
        "NAME=VALUE[,...]",
        "only on workers with this isa (or a higher one), cpu (a part of its name), host, library version as numpy=2.1, and at least so "
        "many cores and GiB of memory",
        merge=lambda old, new: (*old, *new),
    )
    max_ms_per_prb: float = _measure(
        3000.0,
        real_between(10.0, 60000.0, clamps=True),
        "MS",
        "time for the samples of one case, all policies together (10 to 60000, default 3000): two thirds for the whole graph, one third "
        "for single partitions; at least 5 samples are taken whatever they cost",
        fixed_by=(Mode.fast_performance,),
    )
    fix_times_per_prb: int = _measure(0, natural, "N", "take exactly N samples instead", fixed_by=(Mode.simulation,))
    cold_cache: str = _measure(
        "none",
        global_parsers.cold_cache,
        "{none,wei,all}[+tlb[:SIZE]]",
        "what is flushed from the caches before every execution, each of which is then a sample: nothing (default), constants and what was "
        "computed from them, all inputs and outputs of partitions too; tlb touches other pages, SIZE in M or G (default 1G)",
    )
    num_streams: int = _measure(
        1,
        positive,
        "N",
        "executions in flight, each with an N-th of the threads and data of its own; times are per execution finished (default 1)",
    )
    layers: str = _measure(
        "auto",
        global_parsers.layers,
        "[auto|BOOL]",
        "where the time goes, layer by layer: of every library the first policy, or those of --policy; auto (default): for --model in mode "
        "P. It compiles once more, into code that reads the clock between layers",
        flag=True,
    )
    check_ref_impl: bool = _run(
        False,
        boolean,
        "[BOOL]",
        "a case fails where the library under test runs a reference implementation, one whose name contains ref",
        flag=True,
    )
    start: int = _choose(0, natural, "N", "skip the cases before the N-th")
    match: str = _choose("", pattern, "REGEX", "leave out cases whose repro line REGEX is not found in")
    shard: tuple[int, int] = _choose((1, 1), shard, "I/N", "every N-th case, from the I-th on: one of N parts that make all")
    fail_fast: bool = _choose(False, boolean, "", "stop after the first failure", flag=True)
    fail_on: tuple[str, ...] = _say(
        (),
        some_of("skipped", "mistrusted"),
        "STATUS[,...]",
        "exit with 1 when cases are skipped or mistrusted too, not only when they fail: {skipped,mistrusted}",
    )
    verbose: int = _say(
        0,
        natural,
        "N",
        "or -vN. 1: which case starts, tracebacks, how far every output is from right, and at the end where the time went; 2: warnings; "
        "3: the ops of every partition, and which inputs a displacement rule fills; 6: what every input holds, and what every output is "
        "held to; 7: the graph after all overrides",
    )
    perf_template: str = _say("def", global_parsers.template, "{def,csv,TEXT}", "what a perf line says: benchdnn's %tokens%, and %policy%")
    jobs: int = _choose(
        0, natural, "N", "run the cases in N processes: a crash costs one case. 0 (default): in this process; mode P: at most 1"
    )
    timeout: float | None = _choose(
        None,
        real_between(0.0, 1e6),
        "SECONDS",
        "give a case up after so long; 0 = never. Default 300 with --jobs, else none; implies --jobs=1",
    )
    report: tuple[tuple[str, str], ...] = _write(
        (),
        global_parsers.report,
        "NAME[:FILE]",
        "write a report at the end, to FILE if given (its folder is made), - for standard output alone; json:FILE grows while cases "
        "finish; may be repeated",
        merge=lambda old, new: (*old, *new),
    )
    resume: str = _choose(
        "",
        global_parsers.file,
        "FILE",
        "as --report=json:FILE, and run only the cases that FILE lacks; it may be of another machine, if it has no times",
    )
    history: str = _write(
        "",
        global_parsers.history,
        "[URL]",
        "append the run to a history: a SQLite file, or postgresql://USER@HOST/DATABASE; without a value BENCHGRAPH_HISTORY",
        flag=True,
    )
    commit: str = _write("", str, "REF", "what the run measures, for its history; default: the checkout of benchgraph")
    summary: str = _say(
        "",
        global_parsers.summary,
        "[no-]failures[+...]",
        "list the failed cases at the end (default) or not; [no-]impl and [no-]impl-csv are tables that benchdnn leaves empty for graphs",
    )
    canonical: bool = _say(False, boolean, "[BOOL]", "repro lines say every shared option", flag=True)
    dump_dir: str = _write("", str, "DIR", "write every stage of every partition as text under DIR", config="dump_dir")

    @property
    def reports(self) -> tuple[tuple[str, str], ...]:
        """The reports to write, including that of --resume."""
        own = ("json", self.resume)
        return (*self.report, own) if self.resume and own not in self.report else self.report

    @property
    def policies(self) -> tuple[str, ...]:
        return self._policies_of(self.library[0])

    @property
    def contender_specs(self) -> tuple[ContenderSpec, ...]:
        """The contenders: libraries under their policies. With several libraries, policies that one of them lacks are left out."""
        if len(self.library) == 1 and len(KINDS[LibraryName.read(self.library[0]).kind].policies) > 1:
            return tuple(ContenderSpec(self.library[0], policy, policy) for policy in self.policies)
        named, specs = labels(self.library), list[ContenderSpec]()
        for library in self.library:
            kind = KINDS[LibraryName.read(library).kind]
            for policy in self._policies_of(library):
                if kind.has_policy(policy):
                    label = named[library] if len(kind.policies) == 1 else f"{named[library]}:{policy}"
                    specs.append(ContenderSpec(library, policy, label, library != self.library[0]))
        return tuple(specs)

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
