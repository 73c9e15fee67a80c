"""What the drivers of graphs and of models share: how many partitions are expected, knobs of values as overrides, and the graph with all of
them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchgraph.core.remarks import announce
from benchgraph.options.knobs import knob
from benchgraph.options.parsers import PerId, natural
from benchgraph.options.problem import CannotOverride

if TYPE_CHECKING:
    from benchgraph.graph import Graph
    from benchgraph.graph.override import Overrides


def expected_partitions(default: int) -> Any:
    about = f"how many partitions the fused policy must make (default {default}); 0 = do not check"
    return knob(default, natural, "N[,N...]", about, product=True)


def expected(knobs: Any) -> int:
    return int(knobs.expected_n_partitions)


def of_values(knobs: Any) -> dict[str, Any]:
    """Fields of Overrides by the knobs attr_fpmath, tensor_property and dt, which change values and no shapes."""
    mode, _, apply_to_int = knobs.attr_fpmath.partition(":")
    return {
        "attr_fpmath": (mode, apply_to_int == "true") if mode else None,
        "tensor_property": knobs.tensor_property.by_id,
        **({"dts": knobs.dt.by_id} if isinstance(knobs.dt, PerId) else {"dt": knobs.dt}),
    }


def rewritten(graph: Graph, changes: Overrides, file: Path) -> Graph:
    """The graph of this file with all overrides, for the CPU. Raises CannotOverride for one that does not fit it, and the graph's own
    errors."""
    from benchgraph.core.errors import BenchgraphError
    from benchgraph.graph.override import BadOverride, rewrite

    if graph.engine_kind == "gpu":
        announce("engine_kind gpu of files is ignored, as in benchdnn: they run on the CPU")
    try:
        return replace(rewrite(graph, changes), engine_kind="cpu")
    except BadOverride as bad:
        raise CannotOverride(bad.what, where=f"{file}: {bad.where}", fix=bad.fix) from bad
    except BenchgraphError as bad:
        raise bad.inside(str(file)) from bad
