"""Waiting until this process's idle threads sleep, so that they take nothing from what another process measures."""

from __future__ import annotations

import time

_NAP_S = 1e-3
_IDLE_SHARE = 0.3  # of a nap, as CPU time of all threads: a spinning thread takes all of it
_LIMIT_S = 0.1  # for threads that never sleep (OMP_WAIT_POLICY=active)


def settle() -> None:
    """Return once no thread of this process computes or spins, at the latest after _LIMIT_S.

    Idle threads of a thread runtime spin after a parallel region, in case another follows (find.SPIN). Asked for on both sides, outside of
    all samples: ours before oneDNN's sample begins, oneDNN's before it is told to have ended.
    """
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        before = time.process_time()
        time.sleep(_NAP_S)
        if time.process_time() - before < _IDLE_SHARE * _NAP_S:
            return
