"""Format tags: where the dims of a tensor lie in memory, outermost first. abcd = row-major, acdb = nhwc = channels last."""

from __future__ import annotations

from math import prod

from benchgraph.core.errors import InvalidArguments
from benchgraph.options.problem import CannotExpress

ABC = "abcdefghijkl"
PLAIN = ("any", "undef")  # the library may choose: row-major, since only tensors between partitions have opaque layouts
# what the letters of named tags stand for, in the order of the dims: activations, weights, and those of recurrent networks
NAMED = ("ncdhw", "goidhw", "tnc", "ldnc", "ldigo")


def check_tag(tag: str) -> str:
    """The tag, if it is one for some rank. Raises ValueError with the remedy."""
    if tag in (*PLAIN, "x") or any(c.isupper() or c.isdigit() for c in tag):
        return tag
    letters = set(tag)
    is_named = any(letters <= set(alphabet) for alphabet in NAMED)
    is_abc = letters <= set(ABC) and "a" in letters
    is_meta = letters <= {*ABC, "x", "y"} and "a" in letters and len(letters & {"x", "y"}) == 1
    if not tag or len(tag) != len(letters) or not (is_named or is_abc or is_meta):
        raise ValueError("give a tag such as abcd, acdb, nhwc, abx (row-major), axb (channels last) or any")
    return tag


def is_of_rank(tag: str, rank: int) -> bool:
    """Whether a tag names so many dims. One that fits every rank does not."""
    return tag not in PLAIN and not {"x", "y"} & set(tag) and len({c for c in tag.lower() if c.isalpha()}) == rank


def strides_of(tag: str, shape: tuple[int, ...], where: str) -> tuple[int, ...]:
    """Dense strides, in elements, that lay the dims out as the tag says.

    >>> strides_of("acdb", (2, 3, 4, 5), "--stag")
    (60, 1, 15, 3)

    Raises CannotExpress for blocked layouts and words that are no tag, InvalidArguments when the tag is for another rank. where: the
    option, for messages.
    """
    try:
        check_tag(tag)
    except ValueError as bad:
        raise CannotExpress("no tag of that name", where=f"{where}={tag}", fix=str(bad)) from bad
    order, rank = _order(tag, len(shape), where), len(shape)
    if sorted(order) != list(range(rank)):
        what = f"a tag of {len(order)} dims for a tensor of {rank}, {'x'.join(map(str, shape))}"
        raise InvalidArguments(what, where=f"{where}={tag}", fix=f"name {rank} dims, or use abx or axb, which fit every rank")
    return tuple(prod(max(shape[inner], 1) for inner in order[order.index(dim) + 1 :]) for dim in range(rank))


def placed(strides: tuple[int, ...], shape: tuple[int, ...], where: str) -> tuple[int, ...]:
    """Strides that were given as numbers. Raises InvalidArguments when they are not as many as the sizes."""
    if len(strides) != len(shape):
        what = f"{len(strides)} strides for a tensor of {len(shape)} dims, {'x'.join(map(str, shape))}"
        raise InvalidArguments(what, where=where, fix=f"give {len(shape)}")
    return strides


def _order(tag: str, rank: int, where: str) -> list[int]:
    """The dims, outermost first."""
    if tag in PLAIN:
        return list(range(rank))
    if any(c.isupper() or c.isdigit() for c in tag):
        raise CannotExpress("a blocked layout: oneDNN Graph's tensors have strides alone", where=f"{where}={tag}", fix="use a plain tag")
    if "x" in tag or "y" in tag:
        rest = "".join(c for c in ABC[:rank] if c not in tag)
        order = [ABC.index(c) for c in tag.replace("y", "x").replace("x", rest) if c in ABC[:rank]]
        return [*order[:-2], *reversed(order[-2:])] if "y" in tag else order
    if "a" in tag:
        return [ABC.index(c) for c in tag]
    dims = next([c for c in alphabet if c in tag] for alphabet in NAMED if set(tag) <= set(alphabet))
    return [dims.index(c) for c in tag]
