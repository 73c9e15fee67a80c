"""Where the command begins, as `benchgraph` and as `python -m benchgraph`: Ctrl-C during the imports also prints one line."""

from __future__ import annotations

import os
import signal
import sys
import threading


def _stop(number: int, frame: object) -> None:
    """Exit at once: nothing has been started that needs cleaning up."""
    os.write(2, b"benchgraph: interrupted\n")
    os._exit(130)  # exit_codes.ExitCode.interrupted, not imported here, as a signal may arrive during that import


def _open_standard() -> None:
    """Open /dev/null for standard streams that were closed.

    Else the next file opened would get their number, and what is printed would go into that file.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # which gets the lowest number that is free
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def main() -> None:
    _open_standard()
    handles_sigint = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handles_sigint:
        signal.signal(signal.SIGINT, _stop)
    from benchgraph.cli import main as run

    if handles_sigint:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run(prog_name="benchgraph")


if __name__ == "__main__":
    main()
