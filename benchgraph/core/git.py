"""Questions to git."""

from __future__ import annotations

import subprocess
from pathlib import Path

PATIENCE_S = 20.0  # for one answer, on the slowest network drive


def git(where: Path, *words: str) -> str | None:
    """The output of git in a folder; None if it fails, is missing, or times out."""
    try:
        done = subprocess.run(["git", "-C", str(where), *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def resolve(ref: str, where: Path) -> str:
    """The full hash of a commit by this name in the repository at `where`; else ''."""
    return git(where, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}") or ""
