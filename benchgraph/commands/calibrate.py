"""`benchgraph calibrate`: measures the rates of this machine, beside those of its built-in table, and writes them as a table of its own.

BENCHGRAPH_THREADS and BENCHGRAPH_ISA say of how many threads and of which ISA level.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from math import exp, log
from pathlib import Path
from textwrap import wrap

from benchgraph.core.errors import UsageError
from benchgraph.core.progress import begin_item
from benchgraph.core.version import __version__
from benchgraph.harness.command_words import own_options, parsed_value
from benchgraph.harness.outputs import STDOUT, need_file
from benchgraph.machine.cpu_affinity import apart
from benchgraph.machine.rates import Rates, values
from benchgraph.machine.table import rates
from benchgraph.machine.table_file import is_file
from benchgraph.machine.table_text import table_text
from benchgraph.machine.target import Target, cpu_name, current, host
from benchgraph.measure.calibration.calibrate import Calibrated, calibrated, loops
from benchgraph.options.parsers import positive
from benchgraph.present.progress import progress_line
from benchgraph.results.json_report import write

BUDGET_S = 60  # of measuring, after loops are compiled and memory is written
_APART = 1.25  # times another rate: marked
_COLUMNS = 80
_OPTIONS = {"-o": "output", "--output": "output", "--seconds": "seconds"}


def run(given: list[str]) -> str:
    """The rates beside the built-in ones; or, with -o -, the table. Raises UsageError, OutOfMemory."""
    words, own = list[str](), {"output": "", "seconds": f"{BUDGET_S:.0f}"}
    own |= {_OPTIONS[option]: value for option, value in own_options("calibrate", _OPTIONS, given, words)}
    if words:
        raise UsageError(f"'{words[0]}' is none of its words", where="calibrate", fix="write 'benchgraph calibrate [-o FILE]'")
    budget_s, output = parsed_value("calibrate", "--seconds", own["seconds"], positive), own["output"]
    if output not in ("", STDOUT):
        need_file(Path(output), f"calibrate: --output={output}")
    target = replace(current(), machine=host().machine)
    found = _measured(target, budget_s)
    text = _table(found, target)
    if output == STDOUT:
        return text.rstrip()
    shown = report(found, rates(target), target)
    if not output:
        return shown
    write(output, text)
    name = output if is_file(output) else f"./{output}"  # not a built-in table
    return f"{shown}\n\nBENCHGRAPH_MACHINE_TABLE={name} makes the compiler use the new table."


def _measured(target: Target, budget_s: float) -> Calibrated:
    with progress_line("", 0, is_measuring=True):
        begin_item("this machine's rates")
        sources = dict(loops(target))  # starts the threads that are kept apart
        with apart(target.cores):
            return calibrated(target, sources, budget_s, time.perf_counter)


def _table(found: Calibrated, target: Target) -> str:
    """The text of a table's file, based on the built-in one."""
    threads = f"{target.cores} thread{'s' * (target.cores > 1)}"
    source = f"benchgraph {__version__} calibrate, {date.today()}: least of {found.rounds} samples, {threads}"
    told: dict[str, str | int] = {
        "title": cpu_name(),
        "provenance": f"measured by `benchgraph calibrate` on {date.today()}, {threads}",
        "base": target.machine or target.isa.name,
        "level": target.isa.name,
        "datapath_bits": found.datapath_bits,
    }
    return table_text(told | ({"cores": target.cores} if target.cores > 1 else {}), source, found.rates)


def report(found: Calibrated, table: Rates, target: Target) -> str:
    """Lines of 80 columns: each rate as measured and as the table has it, their ratio; how far the table is off. table: at the level."""
    built_in, measured = values(table.at_cores(target.cores)), found.rates
    ratios = {name: rate / built_in[name] for name, rate in measured.items() if name in built_in}
    lines = [
        f"{cpu_name()}, {target.isa.name}, {target.cores} thread{'s' * (target.cores > 1)}",
        f"{'least of ' + str(found.rounds) + ' samples':<38}{'measured':>12}{'built in':>12}{'ratio':>9}",
        *(f"{name:<38}{measured[name]:>12.4g}{built_in[name]:>12.4g}{ratio:>9.2f}{_mark(ratio)}" for name, ratio in ratios.items()),
    ]
    lacking = [name for name in built_in if name not in measured]
    if lacking:
        lines += ["", "Not measured, as in the built-in table:", *(f"  {name}" for name in lacking)]
    return "\n".join([*lines, "", *_verdict(ratios, table)])


def _mark(ratio: float) -> str:
    return " *" if max(ratio, 1 / ratio) >= _APART else ""


def _verdict(ratios: Mapping[str, float], table: Rates) -> list[str]:
    """How far the table is off: on average, and at most."""
    off = {name: max(ratio, 1 / ratio) for name, ratio in ratios.items()}
    worst = max(off, key=lambda name: off[name])
    mean, many = exp(sum(map(log, off.values())) / len(off)), sum(o >= _APART for o in off.values())
    said = f"The built-in table, {table.name}, is off by a factor of {mean:.2f} in geometric mean, of {_APART} or more (*) in {many} of "
    return wrap(f"{said}{len(off)} rates, at most {off[worst]:.2f} ({worst}).", _COLUMNS, break_long_words=False, break_on_hyphens=False)
