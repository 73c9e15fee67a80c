"""The text of an IR as tokens: the base of every IR's parser, with errors that show the line, and printing and parsing of attribute
values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import NoReturn, TypeVar

from benchgraph.core.attrs import AttrValue
from benchgraph.core.errors import ParseError, did_you_mean

T = TypeVar("T")

_TOKEN = r"""(?P<skip>\s+COMMENT)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<number>0x[0-9a-f]*|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<punctuator>PUNCTUATORS)"""
_NONFINITE = {"inf": math.inf, "nan": math.nan}
BOOLEANS = {"false": False, "true": True}


def print_value(value: AttrValue) -> str:
    """An attribute value; reals always show a point, an exponent, inf or nan, so that they come back as reals."""
    if isinstance(value, tuple):
        return f"[{','.join(print_value(v) for v in value)}]"
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")  # all other control characters are escaped by json
    return ("true" if value else "false") if isinstance(value, bool) else repr(value)


class Tokens:
    """tokens: (kind, text, offset) of each; at: the index of the next one. Methods read what they are named after, or raise ParseError.

    language: of the text, for messages. punctuators: a regular expression; unless '#' is one of them, it begins a comment. name: of the
    file, or ''.
    """

    def __init__(self, text: str, language: str, punctuators: str, name: str = "") -> None:
        self.text, self.name, self.at = text, name, 0
        self.tokens: list[tuple[str, str, int]] = []
        comment = "" if "#" in punctuators else r"|\#.*"
        pattern, pos = re.compile(_TOKEN.replace("COMMENT", comment).replace("PUNCTUATORS", punctuators), re.VERBOSE), 0
        while pos < len(text):
            token = pattern.match(text, pos)
            if token is None:
                self.syntax_error(f"a token of {language}", pos)
            if token.lastgroup != "skip":
                self.tokens.append((str(token.lastgroup), token[0], pos))
            pos = token.end()
        self.tokens.append(("end", "the end of the text", len(text)))

    def syntax_error(self, expected: str, offset: int | None = None, hint: str = "") -> NoReturn:
        """Raise a ParseError that shows the line with a caret under the offset (default: the next token)."""
        self.semantic_error(f"expected {expected}{f' ({hint})' if hint else ''}", offset)

    def semantic_error(self, what: str, offset: int | None = None, fix: str = "") -> NoReturn:
        """Raise a ParseError about text (default: the next token) whose syntax is right, but not its content."""
        pos = self.tokens[self.at][2] if offset is None else offset
        start = self.text.rfind("\n", 0, pos) + 1
        line = self.text[start:].split("\n", 1)[0]
        number, column = self.text.count("\n", 0, pos) + 1, pos - start + 1
        where = f"{self.name}:{number}:{column}" if self.name else f"line {number}, column {column}"
        raise ParseError(what, where=where, fix=fix, shown=f"{line}\n{' ' * (column - 1)}^")

    @property
    def kind(self) -> str:
        """Of the next token: string, number, word, punctuator or end."""
        return self.tokens[self.at][0]

    @property
    def next(self) -> str:
        """The text of the next token."""
        return self.tokens[self.at][1]

    @property
    def offset(self) -> int:
        return self.tokens[self.at][2]

    def peek(self, text: str) -> bool:
        kind, word, _ = self.tokens[self.at]
        return word == text and kind in ("punctuator", "word")

    def accept(self, text: str) -> bool:
        if self.peek(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.syntax_error(f"'{text}'")

    def key(self, word: str) -> bool:
        """Consumes `word=` if the word is next; an error where no "=" follows it."""
        if not self.accept(word):
            return False
        self.expect("=")
        return True

    def take(self, kind: str, expected: str) -> str:
        next_kind, text, _ = self.tokens[self.at]
        if next_kind != kind:
            self.syntax_error(expected)
        self.at += 1
        return text

    def choose(self, known: Mapping[str, T], expected: str) -> T:
        """A word out of a table."""
        word = self.take("word", expected)
        if word not in known:
            self.at -= 1
            self.syntax_error(expected, hint=did_you_mean(word, known))
        return known[word]

    def boolean(self) -> bool:
        return self.choose(BOOLEANS, "true or false")

    def integer(self, expected: str = "an integer") -> int:
        start, sign = self.at, -1 if self.accept("-") else 1
        if self.kind == "number" and self.next.isdigit():
            return sign * int(self.take("number", expected))
        self.at = start
        return self.syntax_error(expected)

    def at_number(self, further: int = 0) -> bool:
        """Whether the token that is `further` after the next one is a number or its sign."""
        kind, text, _ = self.tokens[self.at + further]
        return kind == "number" or text in _NONFINITE or (kind, text) == ("punctuator", "-")

    def number(self) -> int | float:
        sign = -1 if self.accept("-") else 1
        if self.kind == "word" and self.next in _NONFINITE:
            value: int | float = _NONFINITE[self.take("word", "a number")]
            return value if sign > 0 or math.isnan(value) else -value
        text = self.take("number", "a number")
        try:
            value = float(text) if any(c in text for c in ".eE") and not text.startswith("0x") else int(text, 0)
        except ValueError:  # a leading zero, or thousands of digits
            self.at -= 1
            self.syntax_error("a number without leading zeros")
        return -value if sign < 0 else value

    def string(self, expected: str = "a string") -> str:
        text = self.take("string", expected)
        try:
            return str(json.loads(text))
        except json.JSONDecodeError:
            self.at -= 1
            self.syntax_error("a string with JSON's escapes")

    def listed(self, item: Callable[[], T], closing: str) -> tuple[T, ...]:
        """Comma-separated items up to the closing punctuator, which is consumed."""
        items: list[T] = []
        while not self.accept(closing):
            if items and not self.accept(","):
                self.syntax_error(f"',' or '{closing}'")
            items.append(item())
        return tuple(items)

    def integers(self) -> tuple[int, ...]:
        self.expect("[")
        return self.listed(self.integer, "]")

    def value(self) -> AttrValue:
        """What `print_value` printed."""
        if self.kind == "string":
            return self.string()
        if self.at_number():
            return self.number()
        if self.accept("["):
            numbers = self.listed(self.number, "]")
            return tuple(float(n) for n in numbers) if any(isinstance(n, float) for n in numbers) else numbers
        if self.kind == "word":
            return self.boolean()
        return self.syntax_error("a value: true, false, a number, a string or a list of numbers")
