"""Checks the subject of a commit message, whose file is the argument: `package: what changed`, imperative, at most 72 characters.

A package is a folder of the package, or of the project. `(NFC)` ends the subject of a change that keeps behaviour as it is.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST = 72
PLACES = ("ci", "cli", "compile", "docs", "drivers", "explain", "inputs", "reports", "tests")


def packages() -> set[str]:
    return {p.parent.name for p in (ROOT / "benchgraph").glob("*/__init__.py")} | set(PLACES)


def fault(subject: str) -> str:
    """What is wrong with a subject, and how to mend it; '' when nothing is."""
    if subject.startswith(("Merge ", "Revert ", "fixup! ", "squash! ")):
        return ""
    if len(subject) > LONGEST:
        return f"the subject has {len(subject)} characters, {LONGEST} at most; move the rest to the body"
    package, colon, what = subject.partition(": ")
    if not colon or package not in packages():
        return f"the subject must begin with one package and a colon: {', '.join(sorted(packages()))}"
    first = what.split(" ")[0]
    if what.endswith(".") or not re.fullmatch(r"[\w`'\"(-].*", what):
        return "after the package comes what changed, without a full stop"
    if re.fullmatch(r"(add|fix|remove|rename|move|change|make|use|delete|update)(s|ed|d|es|ing)", first):
        return f"write the imperative: '{re.sub('(s|ed|d|es|ing)$', '', first)}', not '{first}'"
    return ""


if __name__ == "__main__":
    wrong = fault(Path(sys.argv[1]).read_text(encoding="utf-8").split("\n")[0])
    sys.exit(f"commit message: {wrong}" if wrong else 0)
