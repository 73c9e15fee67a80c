"""One random op: a sample of its row, which is legal, adapted to a given tensor and varied within its schema.

What the schema does not say (axes, kernels, orders, targets) is guessed from the relation of the sample's values to its shapes; `infer` and
`check` reject wrong guesses, and the next one is tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from math import prod
from random import Random

from benchgraph.core.attrs import Attrs, AttrValue
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import call_of, check_op, spec, with_defaults
from benchgraph.ops.spec import Attr, Call, OpSpec, Port, port_of

TRIES = 12  # variations that are tried per row
SIZES = (1, 1, 2, 2, 3, 4, 5, 7, 8, 13, 15, 16, 17, 31, 32, 33, 64, 65)  # lane counts and their neighbours, primes, ones
EMPTY = 0.01  # share of dims that are 0
MAX_RANK = 6
MAX_ELEMENTS = 4096  # of a tensor
MAX_FLOPS = 1 << 20  # of an op


@dataclass
class Tally:
    """How many ops were proposed, and how many of these were legal and small enough."""

    tried: int = 0
    legal: int = 0


@dataclass(frozen=True)
class Fit:
    """What an op must match: the type of the tensor at one input port, and its output's dtype if that is fixed."""

    port: int = 0
    type: TensorType | None = None
    out_dtype: DType | None = None


ANYTHING = Fit()


def draw(rng: Random, row: OpSpec, fit: Fit, tally: Tally) -> Call | None:
    """A legal call with attributes as in a graph (without defaults); None if no try is legal."""
    for _ in range(TRIES):
        tally.tried += 1
        call = _proposed(rng, row, fit)
        if call is not None:
            tally.legal += 1
            return call
    return None


def _proposed(rng: Random, row: OpSpec, fit: Fit) -> Call | None:
    """One try; None if it is illegal, or too large."""
    sample = _sample(rng, row, fit)
    if fit.port >= len(sample.ins):
        return None
    ins_dtypes, out_dtypes = _dtypes(rng, row, sample, fit)
    sizes = _Sizes(rng, rng.choice((1.0, 0.7, 0.3)))
    shapes = _shapes(rng, sample, fit, sizes)
    types = tuple(TensorType(dtype, shape) for dtype, shape in zip(ins_dtypes, shapes, strict=True))
    attrs = _Guess(rng, row, sample, types, sizes).attrs()
    try:
        if row.schema.refit is not None:
            named = frozenset({port_of(row.schema.inputs, fit.port).name})
            full, shapes = row.schema.refit(with_defaults(row.kind, attrs), sample.ins, types, named)
            attrs = Attrs({name: value for name, value in full.items() if name in attrs or value != row.schema.attrs[name].default})
            types = tuple(TensorType(t.dtype, shape) for t, shape in zip(types, shapes, strict=True))
        check_op(row.kind, attrs, tuple((t.dtype, t.shape) for t in types), out_dtypes)
        made = row.semantics.infer(with_defaults(row.kind, attrs), types)
    except BenchgraphError:
        return None
    outs = tuple(TensorType(dtype, shape) for dtype, shape in zip(out_dtypes, made, strict=False))
    call = Call(row.kind, attrs, types, outs)
    return call if len(outs) == len(out_dtypes) and _is_small(row, call) else None


def _is_small(row: OpSpec, call: Call) -> bool:
    tensors = (*call.ins, *call.outs)
    if any(t.elements > MAX_ELEMENTS or len(t.shape) > MAX_RANK for t in tensors):
        return False
    full = Call(call.kind, with_defaults(call.kind, call.attrs), call.ins, call.outs)
    return row.semantics.flops(full) <= MAX_FLOPS


def _sample(rng: Random, row: OpSpec, fit: Fit) -> Call:
    """One of the row's samples; mostly with the rank of the given tensor, if there is one."""
    calls = [Call(c.kind, s.attrs, c.ins, c.outs) for s, c in ((s, call_of(row.kind, s)) for s in row.testing.samples)]
    if fit.type is not None and rng.random() < 0.9:
        rank = len(fit.type.shape)
        calls = [c for c in calls if fit.port < len(c.ins) and len(c.ins[fit.port].shape) == rank] or calls
    return rng.choices(calls, [1 / (1 + len(c.ins)) for c in calls])[0]


@cache
def ranks(kind: str, port: int) -> frozenset[int]:
    return frozenset(len(s.shapes[port]) for s in spec(kind).testing.samples if port < len(s.shapes))


# ---- dtypes ----------------------------------------------------------------------------------------------------------


def _dtypes(rng: Random, row: OpSpec, sample: Call, fit: Fit) -> tuple[tuple[DType, ...], tuple[DType, ...]]:
    """A dtype per type variable: that of the given tensor if allowed, or f32, or any allowed one."""
    bound: dict[str, DType] = {}
    if fit.out_dtype is not None:
        bound[row.schema.outputs[0].type] = fit.out_dtype
    if fit.type is not None:
        bound[port_of(row.schema.inputs, fit.port).type] = fit.type.dtype

    def dtype_of(port: Port, own: DType) -> DType:
        allowed = row.schema.types.get(port.type) or (own,)
        wish = fit.type.dtype if fit.type is not None and rng.random() < 0.6 else rng.choice((DType.f32, own, rng.choice(allowed)))
        return bound.setdefault(port.type, wish if wish in allowed else rng.choice(allowed))

    ins = tuple(dtype_of(port_of(row.schema.inputs, i), t.dtype) for i, t in enumerate(sample.ins))
    return ins, tuple(dtype_of(port_of(row.schema.outputs, i), t.dtype) for i, t in enumerate(sample.outs))


# ---- shapes ----------------------------------------------------------------------------------------------------------


@dataclass
class _Sizes:
    """Maps sizes of the sample to new ones, equal ones to equal ones. keeps: the share of sizes that stay."""

    rng: Random
    keeps: float
    new: dict[int, int] = field(default_factory=dict)

    def of(self, old: int) -> int:
        if old == 1 and self.rng.random() < 0.9:
            return 1
        if old not in self.new:
            self.new[old] = old if self.rng.random() < self.keeps else size(self.rng)
        return self.new[old]


def size(rng: Random) -> int:
    """A dim; mostly small, since tensors have several."""
    return 0 if rng.random() < EMPTY else rng.choice(rng.choice((SIZES, SIZES[:9], SIZES[:9])))


def _shapes(rng: Random, sample: Call, fit: Fit, sizes: _Sizes) -> tuple[Shape, ...]:
    """The shapes of all inputs, given that of one: axes, counted from the right, that are as long as that one's stay equal to it."""
    lead = sample.ins[fit.port].shape if sample.ins else ()
    if fit.type is not None:
        shape = fit.type.shape
    else:
        more = rng.randrange(3) if rng.random() < 0.15 else 0
        shape = (*(size(rng) for _ in range(more)), *(sizes.of(d) for d in lead))
    known = {}
    for back in range(1, min(len(lead), len(shape)) + 1):
        known[back] = (lead[-back], shape[-back])
        if lead[-back] != 1:
            sizes.new.setdefault(lead[-back], shape[-back])
    prefix = shape[: max(len(shape) - len(lead), 0)]
    cut = max(len(lead) - len(shape), 0)

    def fitted(own: Shape) -> Shape:
        dims = []
        for i, d in enumerate(own):
            old, new = known.get(len(own) - i, (0, 0))
            dims.append(new if d == old else sizes.of(d))
        moves_along = len(own) == len(lead) and (len(own) > 1 or own == lead)  # else it has one element per channel
        return (*prefix, *dims[cut:]) if moves_along else tuple(dims)

    return tuple(shape if i == fit.port else fitted(t.shape) for i, t in enumerate(sample.ins))


# ---- attributes ------------------------------------------------------------------------------------------------------


@dataclass
class _Guess:
    """Attributes for new shapes, by the relation of the sample's to its shapes."""

    rng: Random
    row: OpSpec
    sample: Call
    ins: tuple[TensorType, ...]
    sizes: _Sizes

    def attrs(self) -> Attrs:
        wild = self.rng.random() < 0.5  # half of the tries keep what need not change
        chosen: dict[str, AttrValue] = {}
        for name, attr in self.row.schema.attrs.items():
            if name in self.sample.attrs:
                fitted = self._fitted(self.sample.attrs[name])
                chosen[name] = self._changed(name, attr, fitted) if wild and self.rng.random() < 0.5 else fitted
            elif wild and self.rng.random() < 0.2 and (more := self._anything(attr)) is not None:
                chosen[name] = more
        return Attrs(chosen)

    @property
    def _old(self) -> Shape:
        return self.sample.ins[0].shape if self.sample.ins else ()

    @property
    def _new(self) -> Shape:
        return self.ins[0].shape if self.ins else ()

    def _fitted(self, value: AttrValue) -> AttrValue:
        """The sample's value, changed only if it depends on the first input's shape."""
        if not isinstance(value, tuple) or not value:
            return value
        if all(isinstance(v, int) for v in value):
            numbers = tuple(int(v) for v in value)
            if sorted(v % len(numbers) for v in numbers) == list(range(len(self._old))) and self._new != self._old:
                return tuple(self.rng.sample(range(len(self._new)), len(self._new)))
            if prod(numbers) == prod(self._old) and self._new != self._old:
                return regrouped(self.rng, self._new)
            if all(v in self._old for v in numbers):
                return tuple(self.sizes.new.get(v, v) for v in numbers)
        return value

    def _changed(self, name: str, attr: Attr, value: AttrValue) -> AttrValue:
        """Another value of the attribute's type, which may be legal."""
        others = [c.attrs[name] for c in self.row.testing.samples if name in c.attrs]
        rank = len(self._new)
        if attr.choices or attr.type == "bool":
            other = self._anything(attr)
            return value if other is None else other
        if attr.type == "s64" and rank:
            return self.rng.choice([self.rng.randrange(-rank, rank), *others[:3]])
        if attr.type == "s64[]":
            return self._changed_list(tuple(int(v) for v in value) if isinstance(value, tuple) else ())
        return self.rng.choice(others)

    def _changed_list(self, value: Shape) -> Shape:
        rank = len(self._new)
        if value and prod(value) == prod(self._new) and self.rng.random() < 0.8:
            target = list(regrouped(self.rng, self._new))
            if target and self.rng.random() < 0.3:
                target[self.rng.randrange(len(target))] = -1
            return tuple(target)
        if sorted(v % max(rank, 1) for v in value) == list(range(rank)):
            return tuple(a - rank * (self.rng.random() < 0.2) for a in self.rng.sample(range(rank), rank))
        if rank and self.rng.random() < 0.3:
            return tuple(self.rng.sample(range(rank), self.rng.randint(1, rank)))
        return tuple(max(v + self.rng.choice((-1, 0, 0, 1)), 0) for v in value)

    def _anything(self, attr: Attr) -> AttrValue | None:
        if attr.choices:
            return self.rng.choice(attr.choices)
        return self.rng.random() < 0.5 if attr.type == "bool" else None


def regrouped(rng: Random, shape: Shape) -> Shape:
    """A shape with the same number of elements: neighbouring dims merged, dims split, ones inserted."""
    if 0 in shape:
        return shape
    factors = [f for d in shape for f in _split(rng, d)]
    dims: list[int] = []
    for f in factors:
        if dims and rng.random() < 0.4:
            dims[-1] *= f
        else:
            dims.append(f)
    while len(dims) > MAX_RANK:
        dims[-2:] = [dims[-2] * dims[-1]]
    if len(dims) < MAX_RANK and rng.random() < 0.15:
        dims.insert(rng.randint(0, len(dims)), 1)
    return tuple(dims)


def _split(rng: Random, d: int) -> Iterator[int]:
    divisors = [n for n in range(2, d) if d % n == 0]
    if divisors and rng.random() < 0.5:
        n = rng.choice(divisors)
        yield n
        yield d // n
    else:
        yield d
