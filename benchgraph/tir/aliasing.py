"""Which tensors may share memory: in-place pairs of parameters, and temporaries at overlapping offsets of an arena."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from benchgraph.core.memoise import memoised
from benchgraph.tir.ir import Func, Scope, Tensor


def may_alias(f: Func, a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of a function may share memory."""
    return any_alias(f, (a,), (b,))


def any_alias(f: Func, some: Iterable[Tensor], others: Iterable[Tensor]) -> bool:
    """Whether one of these tensors of a function and one of those may share memory."""
    first, second = ({t.name: t for t in ts} for ts in (some, others))
    pairs = _inplace_partners(f)
    if not first.keys().isdisjoint(second) or any(not pairs[name].isdisjoint(second) for name in first if name in pairs):
        return True
    return any_share_bytes(first.values(), second.values())


def any_share_bytes(some: Iterable[Tensor], others: Iterable[Tensor]) -> bool:
    """Whether one of these tensors shares bytes of an arena with another one of those, by a sweep over their offsets."""
    first, second = ({t.name: t for t in ts if t.offset is not None} for ts in (some, others))
    end = defaultdict[tuple[Scope, bool], int](int)  # of tensors that begin earlier, by arena and side
    for t in sorted({**first, **second}.values(), key=lambda t: t.offset or 0):
        begin, sides = t.offset or 0, [is_second for is_second, ts in ((False, first), (True, second)) if t.name in ts]
        if t.nbytes and any(begin < end[t.scope, not side] for side in sides):
            return True
        for side in sides:
            end[t.scope, side] = max(end[t.scope, side], begin + t.nbytes)
    return False


@memoised
def _inplace_partners(f: Func) -> Mapping[str, frozenset[str]]:
    """Parameter -> those that the caller may bind to its memory."""
    partners = defaultdict[str, set[str]](set)
    for pair in f.inplace:
        partners[pair.dst].add(pair.src)
        partners[pair.src].add(pair.dst)
    return {name: frozenset(names) for name, names in partners.items()}
