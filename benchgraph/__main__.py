"""Where the command begins, as `benchgraph` and as `python -m benchgraph`: Ctrl-C while modules are imported ends in a line too."""

from __future__ import annotations

import os
import signal
import sys
import threading


def _stop(number: int, frame: object) -> None:
    """Nothing has begun that would have to be put in order."""
    os.write(2, b"benchgraph: interrupted\n")
    os._exit(130)  # exit_codes.ExitCode.interrupted, which is not there to be imported yet


def _open_standard() -> None:
    """Have standard streams that were closed go nowhere: the next files opened would get their numbers, and what is printed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # which gets the lowest number that is free
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def main() -> None:
    _open_standard()
    is_ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, _stop)
    from benchgraph.cli import main as run

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run(prog_name="benchgraph")


if __name__ == "__main__":
    main()
