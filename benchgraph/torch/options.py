"""Options of `torch.compile(model, backend="benchgraph", options={...})`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from benchgraph.core.errors import InvalidArguments, did_you_mean
from benchgraph.partition.ir import Policy

WHERE = "torch.compile: options"


@dataclass(frozen=True)
class Options:
    """policy: of partitioning. constants: whether weights are constant without gradients, so that results computed from them are kept.
    dump: a directory for the library's part of every graph as JSON; name: the prefix of these files.
    """

    policy: Policy = Policy.fused
    constants: bool = True
    dump: str = ""
    name: str = "torch"


def read(given: Mapping[str, Any] | None) -> Options:
    """Parse the user's options. Raises InvalidArguments for an unknown name or invalid value."""
    options = dict(given or {})
    known = {f.name: type(f.default) for f in fields(Options)}
    for name, value in options.items():
        if name not in known:
            near = did_you_mean(name, known)
            raise InvalidArguments(f"there is no option {name!r}", where=WHERE, fix=near or f"options are {', '.join(known)}")
        if name == "policy" and isinstance(value, str):
            if value not in Policy.__members__:
                raise InvalidArguments(f"the policy is {value!r}", where=WHERE, fix=f"use one of {', '.join(Policy.__members__)}")
            options[name] = Policy[value]
        elif not isinstance(value, known[name]):
            raise InvalidArguments(f"{name} is {value!r}", where=WHERE, fix=f"give a {known[name].__name__}")
    return Options(**options)
