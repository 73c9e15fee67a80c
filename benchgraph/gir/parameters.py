"""The GEMM template's parameters for one product, as data, with the reason of each; and what the Graph Compiler paper calls them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True)
class Reason:
    """Why a parameter is what it is, in words."""

    parameter: str
    text: str


@dataclass(frozen=True)
class Parameters:
    """For dst[batch, m, n] = src[batch, m, k] x wei[k, n]:

    ours      paper     what it is
    batch, m, n, k      the problem: batch entries of dst, and the extents of one of them
    cores     npc       threads that the tasks are for
    mb        MB        rows of one microkernel call, and of one task
    nb        NB        columns of one microkernel call, and the width of a packed B panel
    split_n             whether each panel of columns, or packed block of wei, is a task of its own
    panels_first        whether the loop over panels is around the loop over batch entries, instead of the loop over row blocks
    mpn       MPN       tasks along the rows of a batch entry; they may be more than cores, so a task is a row block, and MSN is 1
    npn       NPN       tasks along the columns
    nsn       NSN       panels of one task
    ksn       KSN       steps of the ks loop: KB = K and BS = 1, since src is row-major, so there is no such loop but for packed blocks

    ks, ns              rows and columns of a block of wei that is packed on the fly (gir/on_the_fly_packing.py); ns is whole panels. With
                        panels_first, ns is the columns of a task, and ks 0. 0: no such blocks, and a task has one panel
    prefetch            whether calls prefetch the next panel of packed weights, or the source of the next packed block
    skips_padding       whether taps that read padding are left out of the first and last rows, by further calls (gir/padding.py)
    unrolled_columns    columns of a skinny GEMM whose dot products are computed together (gir/gemv.py); 0: a microkernel computes it
    stream_bytes        how far ahead these columns are prefetched (gir/passes/prefetch.py); 0: hardware does it
    wei_ahead           how many rows of wei ahead calls load them into L1 (schedule/microkernel.py); 0: L1 keeps them, or needs no help
    score_columns       columns of dst that a nest holds at a time, with running reductions (gir/flash_attention.py); 0: all

    The register tile (6 x 64 and the like) is chosen by the microkernel.
    """

    batch: int
    m: int
    n: int
    k: int
    mb: int
    nb: int
    cores: int
    split_n: bool = False
    panels_first: bool = False
    score_columns: int = 0
    ks: int = 0
    ns: int = 0
    prefetch: bool = False
    skips_padding: bool = False
    unrolled_columns: int = 0
    stream_bytes: int = 0
    wei_ahead: int = 0
    why: tuple[Reason, ...] = ()

    @property
    def mpn(self) -> int:
        return ceil(self.m / self.mb) if self.m else 0

    @property
    def panels(self) -> int:
        """Panels of one row of dst."""
        return ceil(self.n / self.nb) if self.n else 0

    @property
    def npn(self) -> int:
        return ceil(self.n / (self.ns or self.nb)) if self.split_n else 1

    @property
    def nsn(self) -> int:
        return max(self.ns // self.nb, 1) if self.split_n else self.panels

    @property
    def msn(self) -> int:
        return 1

    @property
    def ksn(self) -> int:
        return ceil(self.k / self.ks) if self.ks else 1

    @property
    def tasks(self) -> int:
        """Iterations of the parallel loop."""
        return self.batch * self.mpn * self.npn
