"""Attributes of ops as an immutable, hashable mapping, since all fields of IRs are immutable and hashable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias, cast

AttrValue: TypeAlias = bool | int | float | str | tuple[int, ...] | tuple[float, ...]


class Attrs(Mapping[str, AttrValue]):
    """Attributes of an op, sorted by name. `Attrs(axis=1) == Attrs({"axis": 1})`; lists become tuples."""

    __slots__ = ("_items", "_key")

    def __init__(self, values: Mapping[str, object] | None = None, **more: object) -> None:
        merged = {**(values or {}), **more}
        frozen = {k: tuple(v) if isinstance(v, list) else v for k, v in merged.items()}
        self._items = {k: cast(AttrValue, frozen[k]) for k in sorted(frozen)}
        self._key = tuple((k, type(v).__name__, v) for k, v in self._items.items())

    def __getitem__(self, name: str) -> AttrValue:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        """Whether names, types and values are equal: 1, 1.0 and True are three different values."""
        return isinstance(other, Attrs) and self._key == other._key

    def __repr__(self) -> str:
        return f"Attrs({', '.join(f'{k}={v!r}' for k, v in self._items.items())})"

    def updated(self, **more: object) -> Attrs:
        """A copy with these values set."""
        return Attrs(self._items, **more)

    def without(self, *names: str) -> Attrs:
        """A copy without these names."""
        return Attrs({k: v for k, v in self._items.items() if k not in names})

    def integer(self, name: str) -> int:
        return int(cast(int, self._items[name]))

    def real(self, name: str) -> float:
        return float(cast(float, self._items[name]))

    def flag(self, name: str) -> bool:
        return bool(self._items[name])

    def string(self, name: str) -> str:
        return str(self._items[name])

    def integers(self, name: str) -> tuple[int, ...]:
        return tuple(int(v) for v in cast(tuple[int, ...], self._items.get(name, ())))

    def reals(self, name: str) -> tuple[float, ...]:
        return tuple(float(v) for v in cast(tuple[float, ...], self._items.get(name, ())))


NO_ATTRS = Attrs()
