"""The roofline model: arithmetic intensity, and shares of the measured peaks. Free of numpy, which `benchgraph --help` must not import."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Roofline:
    """One execution. flops: operations; bytes: those that must be read and written at least; seconds: its time.

    peak, bandwidth: measured limits in FLOP/s and bytes/s; 0 if not measured. Properties that cannot be computed are None.
    """

    flops: int
    bytes: int
    seconds: float
    peak: float = 0.0
    bandwidth: float = 0.0

    @property
    def intensity(self) -> float | None:
        """FLOP per byte."""
        return self.flops / self.bytes if self.bytes and self.flops else None

    @property
    def flops_per_s(self) -> float | None:
        return self.flops / self.seconds if self.flops and self.seconds else None

    @property
    def bytes_per_s(self) -> float | None:
        return self.bytes / self.seconds if self.bytes and self.seconds else None

    @property
    def peak_share(self) -> float | None:
        return None if self.flops_per_s is None or not self.peak else self.flops_per_s / self.peak

    @property
    def bandwidth_share(self) -> float | None:
        return None if self.bytes_per_s is None or not self.bandwidth else self.bytes_per_s / self.bandwidth

    @property
    def bound(self) -> str:
        """The limit that dominates at this intensity: peak or bandwidth; '' where one of them is unknown.

        The share of that limit, rate / min(peak, intensity * bandwidth), is the larger of the two shares.
        """
        if not self.bytes or not self.peak or not self.bandwidth:
            return ""
        return "peak" if self.flops / self.peak > self.bytes / self.bandwidth else "bandwidth"
