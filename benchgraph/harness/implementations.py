"""What each contender ran on, in the case's result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchgraph.core.implementation import Implementation, names
from benchgraph.harness.contenders import Contender
from benchgraph.options.knobs import Globals
from benchgraph.results.result import Result, Status


def with_implementations(result: Result, label: str, ran: Sequence[tuple[Implementation, ...]]) -> Result:
    """ran: by partition."""
    return replace(result, implementations={**result.implementations, label: tuple(ran)})


def judged(result: Result, under_test: Contender, settings: Globals) -> Result:
    """The result with a note on every reference implementation; FAILED if --check-ref-impl forbids those of the library under test."""
    notes = dict[str, list[str]]()
    for label, text in _references(result):
        notes.setdefault(label, []).append(text)
    if not notes:
        return result
    result = replace(result, notes=(*result.notes, *(f"{label}: {text}" for label, texts in notes.items() for text in texts)))
    own = [text for label, texts in notes.items() if label == under_test.label for text in texts]
    if settings.check_ref_impl and own and result.status.is_pass:
        return replace(result, status=Status.FAILED, reason=f"Reference implementation used: {own[0]} (--check-ref-impl)")
    return result


def _references(result: Result) -> Iterator[tuple[str, str]]:
    for label, ran in result.implementations.items():
        for position, each in enumerate(ran):
            if references := [i for i in each if i.is_reference]:
                why = "; ".join(f" ({i.why})" for i in references if i.why)
                yield label, f"partition {position} runs on a reference implementation: {names(references)}{why}"
