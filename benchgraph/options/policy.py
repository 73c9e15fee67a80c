"""A policy as it is written, `fused` or `fused:no-coarse+no-shrink`: how the graph is partitioned, and which passes are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchgraph.core.errors import UsageError, did_you_mean
from benchgraph.core.options import DEFAULT_OPTIONS, Options
from benchgraph.core.passes import OFF, TEXTS
from benchgraph.core.remarks import remark
from benchgraph.partition.ir import Policy


@dataclass(frozen=True)
class PolicyChoice:
    """A policy with compiler options. `str()` gives its canonical form: switches sorted, each once."""

    policy: Policy
    options: Options = DEFAULT_OPTIONS

    @staticmethod
    def read(text: str) -> PolicyChoice:
        """NAME, or NAME:no-SWITCH[+no-SWITCH...]. Raises ValueError, whose text lists the choices."""
        name, colon, switches = text.partition(":")
        known = [p.value for p in Policy]
        if name not in known:
            raise ValueError(did_you_mean(name, known) or f"choose among {', '.join(known)}")
        return PolicyChoice(
            Policy(name), Options(tuple(sorted({_switch(word) for word in switches.split("+")}))) if colon else DEFAULT_OPTIONS
        )

    def __str__(self) -> str:
        return ":".join(part for part in (self.policy.value, "+".join(f"{OFF}{s}" for s in self.options.off)) if part)


def _switch(word: str) -> str:
    """The switch of `no-SWITCH`. Remarks that a former name has a new one. Raises ValueError, whose text is the remedy."""
    from benchgraph.library.own_library import FORMER_SWITCHES, SWITCHES  # imports LLVM, so only when an option is named

    if word.startswith(OFF) and (now := FORMER_SWITCHES.get(word.removeprefix(OFF))):
        remark(f"{word} is now {OFF}{now}")
        return now
    known: dict[str, str] = {f"{OFF}{switch}": switch for switch in SWITCHES}
    if word not in known:
        near = did_you_mean(word, known)
        raise ValueError(f"'{word}' is no option of a policy; " + (near or "'benchgraph list policies' shows them"))
    return known[word]


def need_stages(names: Sequence[str]) -> None:
    """Raises UsageError for the first name (of BENCHGRAPH_PRINT_AFTER) that is not a stage of a compilation."""
    from benchgraph.library.own_library import FORMER_STAGES, stages  # imports LLVM, so only when a stage is named

    known = {*stages(), "all"}
    for name in names:
        if name not in known.union(*FORMER_STAGES.values()):
            every = f"'benchgraph opt --list' shows the passes; other stages are {', '.join(TEXTS)} and all"
            raise UsageError("no such pass or stage", where=f"BENCHGRAPH_PRINT_AFTER={name}", fix=did_you_mean(name, known) or every)
