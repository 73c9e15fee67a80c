"""All environment variables, in one table. No other file reads os.environ (ruff TID251 forbids it)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from benchgraph.core.errors import InvalidArguments, did_you_mean, nearest
from benchgraph.core.isa import ISA_CHOICES

PREFIX = "BENCHGRAPH_"


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("give a non-negative integer")
    return int(text)


def _megabytes(text: str) -> int:
    """A number, or oneDNN's list of numbers by engine kind, of which the CPU's counts: cpu:1024;gpu:2048."""
    if ":" not in text:
        return _natural(text)
    by_kind = [part.partition(":") for part in text.split(";") if part.strip()]
    found = {kind.strip(): number.strip() for kind, _, number in by_kind}
    if not set(found) <= {"cpu", "gpu"} or not all(number.isdecimal() for number in found.values()):
        raise ValueError("give a number of MB, or cpu:N;gpu:M")
    return int(found.get("cpu", 0))


def _directory(text: str) -> str:
    """An absolute path, '' or 'off': a relative one would be another cache in every working directory."""
    if text not in ("", "off") and not Path(text).is_absolute():
        raise ValueError("give an absolute path, or off")
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _flag(default: object, parse: Callable[[str], object], help: str, *also: str) -> Any:
    """A field of Config. also: names that oneDNN gives the variable; read, in this order, where BENCHGRAPH_<FIELD> is not set."""
    help = f"{help} (also {', '.join(also)})" if also else help
    return field(default=default, metadata={"parse": parse, "help": help, "also": also})


def _both(name: str) -> tuple[str, str]:
    """oneDNN's present and former name of a variable."""
    return f"ONEDNN_{name}", f"DNNL_{name}"


_VERBOSE = {"profile_exec": ("exec",), "profile_create": ("create",), "profile": ("create", "exec"), "all": ("create", "exec")}
_LEVELS = {"0": "none", "1": "profile_exec", "2": "profile"}
_QUIET = frozenset({"none", "error", "warn", "check", "dispatch"})  # oneDNN's flags for what is raised here, not printed


def _events(text: str) -> tuple[str, ...]:
    """ONEDNN_VERBOSE's grammar: 0, 1, 2, or a comma list of flags; `filter=REGEX` must match the word `graph`."""
    found, shown = set[str](), True
    for word in _names(text):
        flag, _, value = _LEVELS.get(word, word).partition("=")
        if flag == "filter":
            shown = _matches(value, "graph")
        elif flag not in _QUIET and flag != "debuginfo":
            if flag not in _VERBOSE:
                raise ValueError(_one_of(flag, ("none", *_VERBOSE)))
            found.update(_VERBOSE[flag])
    return tuple(sorted(found)) if shown else ()


def _matches(pattern: str, word: str) -> bool:
    try:
        return re.search(pattern, word) is not None
    except (re.error, RecursionError, OverflowError) as bad:
        raise ValueError(f"give a regular expression behind filter=: {bad}") from bad


def _one_of(text: str, choices: tuple[str, ...]) -> str:
    return did_you_mean(text, choices) or f"choose one of {', '.join(choices)}"


def _subset(*choices: str) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        found = _names(text)
        if other := next((name for name in found if name not in choices), ""):
            raise ValueError(_one_of(other, choices))
        return found

    return parse


def _choice(default: str, help: str, *choices: str, also: tuple[str, ...] = ()) -> Any:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(_one_of(text, choices))
        return text

    return _flag(default, parse, f"{help}: {', '.join(choices)}", *also)


@dataclass(frozen=True)
class Config:
    """Each field is a variable BENCHGRAPH_<FIELD>; its metadata has a parser, the text of --help, and oneDNN's names for it."""

    debug: int = _flag(0, _natural, "1 partitions, 2 times per pass, 3 scheduled Graph IR, 4 Tensor IR, 5 LLVM IR and assembly")
    print_after: tuple[str, ...] = _flag((), _names, "print the IR after these passes (comma list, or 'all')")
    dump_dir: str = _flag("", str, "write every stage of every partition as text files under this directory")
    verify: int = _flag(1, _natural, "0 never verify IR, 1 between stages, 2 after every pass")
    threads: int = _flag(0, _natural, "worker threads; 0 = one per core")
    runtime: str = _choice("auto", "thread runtime", "auto", "omp", "threadpool", "seq")
    parallel: str = _choice("auto", "whether threads share loops too short for that to pay", "auto", "always")
    isa: str = _choice("auto", "instruction set", *ISA_CHOICES)
    compile_jobs: int = _flag(
        0,
        _natural,
        "processes that compile the partitions of a graph, this one among them; 1 = this one alone, 0 = one per thread of compiled "
        "code, as soon as there is enough to compile to be worth their start, and CPUs are idle",
    )
    compiled_partition_cache_capacity: int = _flag(
        1024, _natural, "compiled partitions kept for reuse; 0 keeps none", *_both("GRAPH_COMPILED_PARTITION_CACHE_CAPACITY")
    )
    constant_tensor_cache_capacity: int = _flag(
        0,
        _megabytes,
        "MB of packed weights and the like that partitions share; 0 shares none; cpu:N and cpu:N;gpu:M will do",
        *_both("GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY"),
    )
    disk_cache_capacity: int = _flag(
        256, _natural, "MB of compiled code kept on disk, for later processes to start warm; 0 keeps and reads none"
    )
    cache_dir: str = _flag(
        "",
        _directory,
        "where compiled code is kept, an absolute path to a directory of yours alone; '' is $XDG_CACHE_HOME/benchgraph or "
        "~/.cache/benchgraph, off is nowhere",
    )
    verbose: tuple[str, ...] = _flag(
        (),
        _events,
        "log compilations and executions of partitions: none (0), profile_exec (1), profile (2), profile_create, all; filter=REGEX",
        *_both("VERBOSE"),
    )
    tuning: str = _flag("", str, "file of schedules that `benchgraph tune` has found")
    machine_table: str = _flag(
        "", str, "rates and thresholds of the machine: a file that `benchgraph calibrate` has written, or a built-in table, as zen4"
    )
    onednn: str = _flag("", str, "libdnnl.so.3 for --library=onednn, or the folder it is in")
    history: str = _flag(
        "benchgraph-history.db",
        str,
        "the history that --history, `benchgraph history` and `benchgraph regressions` mean when they name none",
    )
    host_lock: str = _flag(
        "/tmp/benchgraph-host.lock",
        str,
        "the file by which the workers of a fleet on one machine agree who times; containers on a machine share it",
    )
    dump: tuple[str, ...] = _flag(
        (), _subset("graph", "subgraph"), "write JSON to the current directory: graph, subgraph, or both", "ONEDNN_GRAPH_DUMP"
    )
    default_fpmath_mode: str = _choice(
        "strict",
        "floating-point math mode of graphs that name none",
        *("strict", "bf16", "f16", "tf32", "any"),
        also=_both("DEFAULT_FPMATH_MODE"),
    )

    @property
    def shows_stages(self) -> bool:
        """Whether stages of compilations are printed or dumped."""
        return bool(self.print_after or self.dump_dir or self.debug)


# Settings that are part of a target or a partition, or never change code. All others are part of the disk cache's keys.
_IRRELEVANT_TO_CODE = frozenset(
    {"compile_jobs", "debug", "print_after", "dump_dir", "verify", "threads", "runtime", "isa", "default_fpmath_mode", "verbose", "dump"}
    | {"compiled_partition_cache_capacity", "constant_tensor_cache_capacity", "disk_cache_capacity"}
    | {"cache_dir", "onednn", "history", "tuning", "machine_table", "host_lock"}
)


def compiling(flags: Config) -> dict[str, object]:
    """The settings that may change what a partition is compiled to."""
    return {f.name: getattr(flags, f.name) for f in fields(flags) if f.name not in _IRRELEVANT_TO_CODE}


def from_environment(environ: dict[str, str] | None = None) -> Config:
    """Read the variables; an empty one counts as unset. Raises InvalidArguments, naming the variable, its value and a remedy."""
    env = os.environ if environ is None else environ
    values: dict[str, object] = {}
    for f in fields(Config):
        name = next((n for n in (PREFIX + f.name.upper(), *f.metadata["also"]) if env.get(n)), None)
        if name is None:
            continue
        try:
            values[f.name] = f.metadata["parse"](env[name])
        except ValueError as bad:
            raise InvalidArguments(f"bad value {env[name]!r}", where=name, fix=str(bad)) from bad
    return replace(Config(), **values)  # type: ignore[arg-type]


def unknown(environ: Mapping[str, str] | None = None) -> list[str]:
    """A line for each unknown variable with the prefix, with the most similar known one."""
    known = {f.name.upper() for f in fields(Config)}
    found = [n.removeprefix(PREFIX) for n in sorted(os.environ if environ is None else environ) if n.startswith(PREFIX)]
    near = {name: nearest(name, known) for name in found if name not in known}
    return [
        f"{PREFIX}{name}: no such variable; " + (f"did you mean '{PREFIX}{other}'?" if other else "'benchgraph help env' lists them")
        for name, other in near.items()
    ]


def environment(defaults: Mapping[str, str], **changes: str) -> dict[str, str]:
    """The variables of a child process: those of this one, defaults for others, and changes."""
    return {**defaults, **os.environ, **changes}


def module_path() -> str:
    """PYTHONPATH for a child process to find modules where this one does."""
    return os.pathsep.join(os.path.abspath(folder) for folder in sys.path)


def cache_home() -> Path | None:
    """The user's directory for cached files (XDG base directories); None without a home directory."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(given) if Path(given).is_absolute() else Path.home() / ".cache") / "benchgraph"
    except RuntimeError:
        return None


def provide(defaults: Mapping[str, str]) -> None:
    """Set variables of this process, and so of its children, that are not set."""
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def withhold(name: str) -> None:
    """Unset a variable, which was read when this process began, for its children."""
    os.environ.pop(name, None)


_current: Config | None = None


def config() -> Config:
    """The configuration in force: the environment, or what `override` set."""
    global _current
    if _current is None:
        _current = from_environment()
    return _current


@contextmanager
def override(**changes: object) -> Iterator[Config]:
    """Use other values inside a with block: `with override(threads=1): ...`"""
    global _current
    before = config()
    _current = replace(before, **changes)  # type: ignore[arg-type]
    try:
        yield _current
    finally:
        _current = before


def table() -> tuple[tuple[str, str, str], ...]:
    """(variable, default, help) of every flag, in order of declaration, for --help."""
    return tuple((PREFIX + f.name.upper(), str(f.default or ""), str(f.metadata["help"])) for f in fields(Config))
