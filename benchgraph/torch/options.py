"""What `torch.compile(model, backend="benchgraph", options={...})` may say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from benchgraph.core.errors import InvalidArguments, did_you_mean
from benchgraph.partition.ir import Policy

WHERE = "torch.compile: options"


@dataclass(frozen=True)
class Options:
    """policy: how the library cuts. constants: whether weights count as constant where no gradients are wanted, so that what the library
    makes of them is kept. dump: a directory, for the library's part of every graph as JSON; name: how these files begin.
    """

    policy: Policy = Policy.fused
    constants: bool = True
    dump: str = ""
    name: str = "torch"


def read(given: Mapping[str, Any] | None) -> Options:
    """The options as the user wrote them. Raises InvalidArguments for a name or a value that is none."""
    found = dict(given or {})
    known = {f.name: type(f.default) for f in fields(Options)}
    for name, value in found.items():
        if name not in known:
            near = did_you_mean(name, known)
            raise InvalidArguments(f"there is no option {name!r}", where=WHERE, fix=near or f"options are {', '.join(known)}")
        if name == "policy" and isinstance(value, str):
            if value not in Policy.__members__:
                raise InvalidArguments(f"the policy is {value!r}", where=WHERE, fix=f"use one of {', '.join(Policy.__members__)}")
            found[name] = Policy[value]
        elif not isinstance(value, known[name]):
            raise InvalidArguments(f"{name} is {value!r}", where=WHERE, fix=f"give a {known[name].__name__}")
    return Options(**found)
