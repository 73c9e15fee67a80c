"""Where several libraries differ on the same data, and which of them are right."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Difference:
    """An output of the graph for which some library differs from the reference, where several were run on the same data.

    errors: wrong points of total; max_abs: the largest difference; values: at one wrong point, `index`, where the reference is `want`;
    nonfinite: wrong points with a NaN or an infinity on one side; each by contender.
    """

    tensor: int
    dtype: str
    total: int
    errors: dict[str, int]
    max_abs: dict[str, float]
    index: tuple[int, ...]
    want: float
    values: dict[str, float]
    nonfinite: dict[str, int] = field(default_factory=dict)

    @property
    def right(self) -> tuple[str, ...]:
        """The contenders within tolerance at all points."""
        return tuple(label for label, errors in self.errors.items() if not errors)

    def __str__(self) -> str:
        wrong = [self._wrong(n) for n, e in self.errors.items() if e]
        verdicts = ", ".join([*(f"{name} is right" for name in self.right), *wrong])
        values = ", ".join(f"{name} {value:.9g}" for name, value in self.values.items())
        return f"tensor {self.tensor} {self.dtype}: {verdicts}; at {list(self.index)} reference {self.want:.9g}, {values}"

    def _wrong(self, label: str) -> str:
        nonfinite = self.nonfinite.get(label, 0)
        kind = f" ({nonfinite} in NaN or infinity)" if nonfinite else ""
        return f"{label} off at {self.errors[label]} of {self.total}{kind} by up to {self.max_abs[label]:.3g}"
