"""Processes that tests start."""

from __future__ import annotations

from pathlib import Path

# The first statements of a program that must receive Ctrl-C. A shell without job control ignores SIGINT in what it starts in the
# background, and every process started from there inherits this.
LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"


def is_gone(pid: int) -> bool:
    """Whether a process has ended; its adopter may be slow to reap it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
