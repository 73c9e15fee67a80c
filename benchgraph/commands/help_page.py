"""A page of help: paragraphs and lists of options, as wide as the terminal. Free of numpy, so that help is quick."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from textwrap import fill, wrap

from click import HelpFormatter

NARROW, WIDE = 60, 120  # least and largest width in columns
Row = tuple[str, str]


def page_width() -> int:
    return min(max(shutil.get_terminal_size().columns, NARROW), WIDE)


class Page:
    """Text as wide as the terminal, or 80 columns wide without one."""

    def __init__(self) -> None:
        self._width = page_width()
        self._out = HelpFormatter(width=self._width)

    def usage(self, *forms: str) -> None:
        for i, form in enumerate(forms):
            self._out.write(self._wrapped(f"{'       ' if i else 'Usage: '}benchgraph {form}", " " * 11) + "\n")

    def text(self, text: str) -> None:
        if text:
            self._out.write_paragraph()
            self._out.write(fill(text, self._width, break_on_hyphens=False) + "\n")  # option names contain hyphens

    def rows(self, title: str, rows: Sequence[Row], *, brief: bool = False) -> None:
        """Forms on the left, descriptions on the right. brief: one shortened line each."""
        if not rows:
            return
        if title:
            self._out.write_paragraph()
            self._out.write(fill(f"{title}:", self._width) + "\n")
        self._out.indent()
        if brief:
            left = max(len(form) for form, _ in rows) + 2
            rows = [(form, _cut(text, self._width - left - 4)) for form, text in rows]
        self._out.write_dl([(self._wrapped(f"  {form}", " " * 6).lstrip(), text) for form, text in rows], col_max=24)
        self._out.dedent()

    def examples(self, lines: Sequence[str]) -> None:
        if lines:
            self._out.write_paragraph()
            self._out.write("Examples:\n")
            for line in lines:
                self._out.write(self._wrapped(f"  benchgraph {line}", " " * 6, " \\") + "\n")

    def _wrapped(self, line: str, indent: str, end: str = "") -> str:
        """A line as it is if it fits the width, else broken between words. end: of each line but the last."""
        width = self._width if len(line) <= self._width else self._width - len(end)
        return f"{end}\n".join(wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))

    def done(self) -> str:
        return self._out.getvalue().strip("\n")


def _cut(text: str, width: int) -> str:
    """The text if it fits the width, else its first clause."""
    return text if len(text) <= width else text.partition(";")[0]
