"""Waits until this process's idle threads sleep, so that they do not disturb measurements of another process."""

from __future__ import annotations

import time

_NAP_S = 1e-3
_IDLE_SHARE = 0.3  # of a nap, as CPU time of all threads; a spinning thread uses all of it
_LIMIT_S = 0.1  # for threads that never sleep (OMP_WAIT_POLICY=active)


def wait_until_idle() -> None:
    """Return when no thread of this process computes or spins, at the latest after _LIMIT_S.

    Idle threads of a thread runtime spin after a parallel region, in case another follows (find_library.SPIN). Called in both processes,
    outside of samples: in ours before oneDNN's sample begins, in oneDNN's before its end is reported.
    """
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        before = time.process_time()
        time.sleep(_NAP_S)
        if time.process_time() - before < _IDLE_SHARE * _NAP_S:
            return
