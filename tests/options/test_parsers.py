"""Option values: what each parser accepts, and the remedy for other values."""

from __future__ import annotations

from typing import Any

import pytest

from benchgraph.options import parsers
from benchgraph.options.parsers import Parse, PerId, text

SHAPES = parsers.per_id(parsers.new_shape, "0:2x3")
ATTRS = parsers.per_id(parsers.attr_texts, "0:a:1")
KINDS = parsers.per_id(str, "0:Add")


@pytest.mark.parametrize(
    ("parse", "word", "canonical"),
    [
        (SHAPES, "0:2x64x112x112", "0:2x64x112x112"),
        (SHAPES, "3:7+0:-+1:0", "0:-+1:0+3:7"),
        (SHAPES, "0:scalar", "0:-"),
        (SHAPES, "0:*acdb", "0:*acdb"),
        (SHAPES, "0:*12x4x1+1:2x3*ba", "0:*12x4x1+1:2x3*ba"),
        (SHAPES, "0:64x0x3", "0:64x0x3"),
        (SHAPES, "140731871:1", "140731871:1"),
        (SHAPES, "139695268706816:2x2", "139695268706816:2x2"),
        (SHAPES, "0:3x64x8+2*abc:3x64x8*abc", "0:3x64x8+2:3x64x8*abc"),  # oneDNN's own inputs have such a key
        (ATTRS, "0:strides:2x2*groups:1+7:mode:linear", "0:groups:1*strides:2x2+7:mode:linear"),
        (ATTRS, "0:axes:-1x-2", "0:axes:-1x-2"),
        (ATTRS, "0:axis:1*axis:2", "0:axis:2"),
        (KINDS, "3:undef+1:Add", "1:Add+3:undef"),
        (parsers.dtypes, "bf16", "bf16"),
        (parsers.dtypes, "undef", ""),
        (parsers.dtypes, "3:f16+0:s8", "0:s8+3:f16"),
        (parsers.per_id(parsers.property_type, ""), "1:host_scalar+0:undef", "0:undef+1:host_scalar"),
        (parsers.fpmath, "bf16", "bf16"),
        (parsers.fpmath, "bf16:1", "bf16:true"),
        (parsers.fpmath, "tf32:FALSE", "tf32:false"),
        (parsers.engine, "cpu:0", "cpu"),
        (parsers.letters("P", "M"), "mp", "MP"),
        (parsers.boolean, "TRUE", "true"),
        (parsers.real_between(10, 60000), "42.5", "42.5"),
        (parsers.real_between(10, 60000, clamps=True), "1e9", "60000"),
        (parsers.real_between(10, 60000, clamps=True), "inf", "60000"),
        (parsers.real_between(10, 60000, clamps=True), "0", "10"),
        (parsers.shard, "2/3", "2,3"),
    ],
)
def test_values_are_written_in_one_spelling(parse: Parse, word: str, canonical: str) -> None:
    value = parse(word)
    assert text(value) == canonical
    if canonical and parse is not parsers.shard:
        assert parse(canonical) == value


@pytest.mark.parametrize(
    ("parse", "word", "remedy"),
    [
        *((SHAPES, w, "write ID:VALUE, several joined by +, as in 0:2x3") for w in ("0", "0:", ":2x3", "x:2x3", "-1:2", "0:2x3+", "+0:2")),
        (SHAPES, "0:2x3+0:4x5", "id 0 is there twice; give it one value"),
        (SHAPES, "0:2x3*", "give a tag or strides after *, or leave it out"),
        *(
            (SHAPES, f"0:{w}", "write SHAPE, *TAG, *STRIDES or both")
            for w in ("acdb", "2x3:ba", "2x", "x2", "2x-1", "2,3", "*a1", "*ABC", "2x3*b*a")
        ),
        *((ATTRS, w, "write ID:NAME:VALUE, several") for w in ("0:axis", "0:axis:", "0::1", "0:a:1*", "0:a:1:2")),
        (parsers.dtypes, "s8", "give undef, f32, bf16 or f16 for the whole graph"),
        (parsers.dtypes, "0:f31", "did you mean 'f32'?"),
        (parsers.dtypes, "0:undef", "choose one of f32, bf16"),
        (parsers.property_type, "const", "did you mean 'constant'?"),
        (parsers.property_type, "zz", "choose one of undef, variable"),
        (parsers.fpmath, "bf17", "did you mean 'bf16'?"),
        (parsers.fpmath, "bf16:2", "give true or false"),
        (parsers.engine, "gpu", "engine gpu with index 0 is not registered in the system, which has 0 of that kind; use cpu"),
        (parsers.engine, "cpu:1", "engine cpu with index 1 is not registered in the system, which has 1 of that kind; use cpu"),
        (parsers.engine, "tpu", "give cpu or gpu"),
        (parsers.letters("P", "M"), "X", "combine letters of P, M"),
        (parsers.boolean, "yes", "give true or false"),
        (parsers.natural, "-1", "give a non-negative integer"),
        (parsers.natural, "\u0662", "give a non-negative integer"),
        (parsers.positive, "0", "give an integer from 1 on"),
        *((parsers.real_between(0, 1e6), word, "give a number from 0 to 1000000") for word in ("nan", "-5", "-1e-9", "1000001", "inf")),
        *((parsers.real_between(10, 60000, clamps=True), word, "give a number from 10 to 60000") for word in ("nan", "-5", "-inf")),
        (parsers.real_between(0, 1), "one", "give a number"),
        (parsers.natural, "9" * 5000, "give an integer of at most 4000 digits"),
        (parsers.positive, "9" * 5000, "give an integer of at most 4000 digits"),
        (parsers.pattern, "(", "not a regular expression: "),
        (parsers.pattern, "(" * 5000, "not a regular expression: "),
        (parsers.pattern, "a{99999999999}", "not a regular expression: the repetition number is too large"),
        *((parsers.shard, w, "give I/N with I from 1 to N") for w in ("0/3", "4/3", "1", "1/0", "a/b")),
        (parsers.one_of("avx2", "auto"), "avx3", "did you mean 'avx2'?"),
    ],
)
def test_errors_of_parsers_say_how_to_write_the_value(parse: Any, word: str, remedy: str) -> None:
    with pytest.raises(ValueError) as bad:
        parse(word)
    assert str(bad.value).startswith(remedy)


def test_values_by_id() -> None:
    value = KINDS("3:undef+1:Add")
    assert value.by_id == {1: "Add", 3: "undef"}
    assert value
    assert not PerId()
