"""A graph as steps, each a primitive with its post-ops. Needs no oneDNN: whether it accepts a step is asked of the caller.

    %3 = Dequantize(%0); %4 = Dequantize(%1); %5 = MatMul(%3, %4); %6 = Add(%5, %2); %7 = ReLU(%6); %8 = Quantize(%7); %9 = SoftMax(%8)
    ->
    matmul: Dequantize Dequantize MatMul Add ReLU Quantize
    softmax: SoftMax

A product takes the ops behind it for as long as nothing else reads the running value. If oneDNN refuses that, or has only a reference
implementation of it, the last op is left out, then the one before, and so on; then the same without the quantisation of its operands.
Copies, casts and a quantisation in a row are one reorder. What is refused alone is executed by numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import END, Graph, Op
from benchgraph.onednn.primitives.families.binary import ALGS, bias_add, selects
from benchgraph.onednn.primitives.families.eltwise import FORWARD
from benchgraph.onednn.primitives.messages import Trial
from benchgraph.onednn.primitives.step import Step
from benchgraph.onednn.primitives.table import FAMILIES
from benchgraph.ops import spec

Try: TypeAlias = Callable[[Step], Trial]  # how oneDNN would execute a step as one


def plan(graph: Graph, trial: Try) -> tuple[Step, ...]:
    """Steps with all ops but End, in an executable order. graph: shape-inferred."""
    growing, steps, taken = _Growing(graph), list[Step](), set[int]()
    outputs = {t.id for t in graph.outputs}
    for op in graph.order:
        is_product = op.id not in taken and op.kind in FAMILIES and FAMILIES[op.kind].takes_post_ops
        if is_product and (step := _best(growing.candidates(op, outputs, taken), trial)):
            steps.append(step)
            taken |= {o.id for o in step.ops}
    for op in graph.order:
        if op.id not in taken and op.kind != END:
            step = _best(growing.copies(op, outputs, taken), trial) or Step(op).in_numpy(trial(Step(op)).refused)
            steps.append(step)
            taken |= {o.id for o in step.ops}
    return tuple(sorted(steps, key=lambda step: graph.places[step.ops[-1].id]))


def _best(steps: Iterable[Step], trial: Try) -> Step | None:
    """The first with an optimised implementation, else the first with any, None if oneDNN refuses all."""
    first = None
    for step in steps:
        tried = trial(step)
        if not tried.refused and not tried.reference:
            return step
        if not tried.refused and first is None:
            first = step
    return first


def text(steps: tuple[Step, ...]) -> str:
    """A line per step: its family, its ops, and why numpy executes it."""
    return "\n".join(
        f"{kind_of(step)}: {' '.join(op.kind for op in step.ops)}" + (f"  # {step.reason}" if step.reason else "") for step in steps
    )


def kind_of(step: Step) -> str:
    return "numpy" if step.reason else FAMILIES[step.anchor.kind].name


@dataclass(frozen=True)
class _Growing:
    """How far a product takes the ops around it."""

    graph: Graph

    def candidates(self, anchor: Op, outputs: set[int], taken: set[int]) -> Iterator[Step]:
        """The largest step first."""
        behind = tuple(self._behind(anchor, outputs, taken))
        folded = self._folded(anchor, outputs, taken)
        for operands in (folded, {}) if folded else ({},):
            for count in range(len(behind), -1, -1):
                ops = behind[:count]
                if count < len(behind) and self._splits_swish(ops, anchor):
                    continue
                step = Step(anchor, ops, operands)
                if operands and (summed := self._summed(step, outputs, taken)):
                    yield replace(step, folded={**operands, **summed})
                yield step

    def copies(self, anchor: Op, outputs: set[int], taken: set[int]) -> Iterator[Step]:
        """A reorder with the copies behind it, the largest step first; other ops alone."""
        behind, op = list[Op](), anchor
        while _is_reorder(op):
            readers = self.graph.consumers.get(op.outputs[0].id, ())
            ends = op.outputs[0].id in outputs or len(readers) != 1 or readers[0].id in taken
            if ends or not _copies(readers[0]) or sum("scales" in o.full_attrs for o in (anchor, *behind, readers[0])) > 1:
                break
            op = readers[0]
            behind.append(op)
        for count in range(len(behind), -1, -1):
            yield Step(anchor, tuple(behind[:count]))

    def _behind(self, anchor: Op, outputs: set[int], taken: set[int]) -> Iterator[Op]:
        value = anchor.outputs[0]
        while value.id not in outputs and value.dtype.is_float:
            readers = self.graph.consumers.get(value.id, ())
            if any(op.id in taken for op in readers):
                return
            if swish := self._swish(value, readers, outputs):
                yield from swish
                value = swish[-1].outputs[0]
                continue
            if len(readers) != 1 or not _follows(readers[0], value):
                return
            yield readers[0]
            value = readers[0].outputs[0]

    def _swish(self, value: LogicalTensor, readers: tuple[Op, ...], outputs: set[int]) -> tuple[Op, ...]:
        """x * sigmoid(x), as two ops; () for anything else."""
        if len(readers) != 2:
            return ()
        sigmoid, product = sorted(readers, key=lambda op: self.graph.places[op.id])
        is_swish = (
            sigmoid.kind == "Sigmoid" and product.kind == "Multiply" and self.graph.consumers.get(sigmoid.outputs[0].id) == (product,)
        )
        is_swish = is_swish and {t.id for t in product.inputs} == {value.id, sigmoid.outputs[0].id}
        return (sigmoid, product) if is_swish and sigmoid.outputs[0].id not in outputs else ()

    def _splits_swish(self, ops: tuple[Op, ...], anchor: Op) -> bool:
        """Whether the last of these is the sigmoid of a swish, whose product is left out."""
        before = ops[-2] if len(ops) > 1 else anchor
        return bool(ops) and len(self.graph.consumers[before.outputs[0].id]) > 1

    def _folded(self, anchor: Op, outputs: set[int], taken: set[int]) -> dict[int, tuple[Op, ...]]:
        """The conversions of src and weights from quantised tensors, if both are, or the weights alone."""
        chains = {t.id: self._conversions(t, outputs, taken) for t in anchor.inputs[:2]}
        found = {id: chain for id, chain in chains.items() if chain}
        return found if anchor.inputs[1].id in found else {}

    def _conversions(self, t: LogicalTensor, outputs: set[int], taken: set[int]) -> tuple[Op, ...]:
        """A Dequantize, perhaps with a cast behind it, that nothing else reads; the last one first."""
        chain = list[Op]()
        while (op := self.graph.producers.get(t.id)) is not None and spec(op.kind).semantics.is_conversion:
            if op.id in taken or t.id in outputs or len(self.graph.consumers[t.id]) > 1 or len(op.inputs) > 1:
                return ()
            chain.append(op)
            if "scales" in op.full_attrs:
                return tuple(chain)
            t = op.inputs[0]
        return ()

    def _summed(self, step: Step, outputs: set[int], taken: set[int]) -> dict[int, tuple[Op, ...]]:
        """The conversions of what is added to a quantised product."""
        others = [t for op in step.post_ops if op.kind == "Add" for t in op.inputs if t.id not in step.running]
        return {t.id: chain for t in others if (chain := self._conversions(t, outputs, taken))}


def _is_reorder(op: Op) -> bool:
    return op.kind in FAMILIES and FAMILIES[op.kind].takes_copies


def _copies(op: Op) -> bool:
    """Whether the op is a reorder that keeps its dims."""
    return _is_reorder(op) and "order" not in op.full_attrs


def _follows(op: Op, value: LogicalTensor) -> bool:
    """Whether the op works in place on the value: a function of it, a combination with another tensor, a cast, a quantisation."""
    if op.outputs[0].known_shape != value.known_shape:
        return False
    row = spec(op.kind)
    if row.semantics.is_conversion:
        return len(op.inputs) == 1 and (op.outputs[0].dtype.is_float or "scales" in op.full_attrs)
    if op.kind in FORWARD:
        return True
    if selects(op):
        return op.inputs[1].id == value.id and value.id not in (op.inputs[0].id, op.inputs[2].id)
    is_binary = op.kind in ALGS or (op.kind in FAMILIES and FAMILIES[op.kind].encode is bias_add)
    is_other = op.inputs[0].id != op.inputs[-1].id and (op.inputs[-1].id != value.id or row.semantics.is_commutative)
    return is_binary and is_other and op.outputs[0].dtype.is_float
