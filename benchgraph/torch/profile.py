"""Where the time of compiled models goes, layer by layer: the library's layers by the names of the model's modules, and PyTorch's own ops.

with torch.no_grad(), profiled() as profile:
    for _ in range(20):
        fast(x)
print(layer_table(profile))

Every other call of a graph is profiled, so that each stands beside one that is not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import count

from torch import fx

from benchgraph.core.layers import CALLER, Layer, Span, told_apart
from benchgraph.graph.ir import Graph
from benchgraph.measure.layers import described, profile_of
from benchgraph.results.layers import LayerProfile


@dataclass
class GraphProfile:
    """The executions of one graph. graph: the library's part, its ops called by their modules; whole_s: of calls that are not profiled;
    executions: of the others; layers: by the order in which they ran."""

    graph: Graph
    threads: int
    whole_s: list[float] = field(default_factory=list)
    executions: list[list[Span]] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)

    @property
    def is_next_profiled(self) -> bool:
        return len(self.executions) <= len(self.whole_s)

    @property
    def layer_profile(self) -> LayerProfile:
        """Without the first execution, if there are more: it computes what is computed from weights."""
        return profile_of(
            [described(self.graph, layer) for layer in self.layers], self.executions[1:] or self.executions, self.whole_s, self.threads
        )


@dataclass
class Profile:
    """Of all graphs that ran, in order of their first calls."""

    graphs: list[GraphProfile] = field(default_factory=list)
    _by_graph: dict[int, GraphProfile] = field(default_factory=dict, repr=False)

    def of(self, graph: Graph, threads: int) -> GraphProfile:
        if id(graph) not in self._by_graph:
            self._by_graph[id(graph)] = GraphProfile(graph, threads)
            self.graphs.append(self._by_graph[id(graph)])
        return self._by_graph[id(graph)]


@dataclass
class Execution:
    """An execution that is being profiled: what its steps add their layers to."""

    of: GraphProfile
    spans: list[Span] = field(default_factory=list)
    _steps: Iterator[int] = field(default_factory=count)
    _layers: list[Layer] = field(default_factory=list)

    def add(self, layers: tuple[Layer, ...], spans: list[Span]) -> None:
        """Of the next step."""
        step, first = next(self._steps), len(self._layers)
        self._layers += [replace(layer, partition=step) for layer in layers]
        self.spans += [replace(span, layer=first + span.layer) for span in spans]

    @contextmanager
    def by_pytorch(self, node: fx.Node) -> Iterator[None]:
        """The next step is an op that PyTorch runs."""
        begin = time.perf_counter()
        yield
        layer = Layer((), name=names([node])[node], kind=str(node.target), implementation="pytorch")
        self.add((layer,), [Span(0, begin, time.perf_counter(), CALLER)])

    def finish(self) -> None:
        self.of.layers = self._layers
        self.of.executions.append(self.spans)


def names(nodes: list[fx.Node]) -> Mapping[fx.Node, str]:
    """Nodes by the paths of their modules: encoder.layers.0.linear1.addmm; the second addmm of a module is addmm_1."""
    each = list(dict.fromkeys(nodes))
    return dict(zip(each, told_apart(map(_path, each)), strict=True))


def _path(node: fx.Node) -> str:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    scope = _scope(str(stack[-1][0])) if stack else ""
    kind = str(getattr(node.target, "_opname", node.name))
    return f"{scope}.{kind}" if scope else kind


def _scope(path: str) -> str:
    """Of a module: L['self'].encoder.layers.0 is encoder.layers.0."""
    words = re.sub(r"^L\['?\w+'?\]|_modules|_orig_mod", "", path)
    return ".".join(re.findall(r"\w+", words))


_profile: ContextVar[Profile | None] = ContextVar("_profile", default=None)


def running() -> Profile | None:
    """The profile of this thread's calls."""
    return _profile.get()


@contextmanager
def profiled() -> Iterator[Profile]:
    """Profile the graphs that this thread runs inside the block."""
    found = Profile()
    token = _profile.set(found)
    try:
        yield found
    finally:
        _profile.reset(token)
