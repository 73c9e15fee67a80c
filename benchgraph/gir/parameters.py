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
    nb        NB        columns of one microkernel call, and the width of a packed weight panel
    kb        KB        k of one block of src, where the product before has left it in column blocks; all of k, or of a part,
                        where src is row-major
    split_n             whether each panel of columns, or piece of wei, is a task of its own
    panels_first        whether tasks of one panel follow each other, of all batch entries, instead of tasks of one row block
    mpn       MPN       tasks along the rows of a batch entry; they may be more than cores, so a task is a row block, and MSN is 1
    npn       NPN       tasks along the columns
    nsn       NSN       panels of one task
    bs        BS        blocks of k that one microkernel call sums over: all of them, since the sums then never leave the registers
    ksn       KSN       steps of the ks loop: KSN = K / (KB BS) = 1, so there is no such loop but where wei is made or held in pieces

    ks, ns              rows and columns of a piece of wei, where pieces are packed on the fly (gir/on_the_fly_packing.py); ns is
                        whole panels. With panels_first, ns is the columns of a task, and ks 0. 0: there are none, and a task has one panel
    parts, groups       with panels_first: parts of a panel, along the last reduced axis, of which L2 holds one while the batch entries of a
                        task go past it; groups of entries that are such tasks. 1, 0: whole panels, and each entry is a task
    ahead               whether the next panel of packed weights, or what the next piece is packed from, is fetched while one is multiplied
    abreast             columns whose sums run along k side by side, where weights lie by columns and meet few rows; 0: microkernels do it
    step                columns of dst that a nest of flash attention holds at a time (gir/flash_attention.py); 0: all

    The register tile (6 x 64 and the like) is the microkernel's own affair.
    """

    batch: int
    m: int
    n: int
    k: int
    mb: int
    nb: int
    kb: int
    cores: int
    split_n: bool = False
    panels_first: bool = False
    step: int = 0
    ks: int = 0
    ns: int = 0
    parts: int = 1
    groups: int = 0
    ahead: bool = False
    abreast: int = 0
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
    def bs(self) -> int:
        return ceil((self.ks or self.k) / (self.kb * self.parts)) if self.kb else 0

    @property
    def ksn(self) -> int:
        return ceil(self.k / self.ks) if self.ks else self.parts

    @property
    def row_tasks(self) -> int:
        """Tasks of the same columns."""
        return self.groups or self.batch * self.mpn

    @property
    def tasks(self) -> int:
        """Iterations of the parallel loop."""
        return self.row_tasks * self.npn
