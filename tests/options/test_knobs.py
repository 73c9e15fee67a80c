"""A field of a knob set is an option, a default and a repro word at once."""

from dataclasses import dataclass

from benchgraph.options.knobs import Globals, Knob, knob, knobs_of, words
from benchgraph.options.parsers import natural
from benchgraph.options.plugins import load_driver, names
from benchgraph.results.mode import Mode


@dataclass(frozen=True)
class Knobs:
    small_tile: int = knob(4, natural, "N", "a number", product=True)
    quiet: int = knob(0, natural, "N", "never said", repro=False)
    case: int = knob(0, natural, "N", "a descriptor", bare=True)


MAY_BE_NEGATIVE = {"--axis", "--alpha", "--beta", "--p", "--eps", "--scales"}  # of ops


def test_a_number_that_says_how_much_is_not_negative() -> None:
    """Options that take 5 and a number alone refuse -5."""
    sets = (Globals, *(load_driver(name).knobs for name in names("drivers")))
    every = {option: k for knobs in sets for option, k in knobs_of(knobs).items() if option not in MAY_BE_NEGATIVE}
    numbers = {option: k for option, k in every.items() if _takes(k, "5") and not _takes(k, "five")}
    assert {"--timeout", "--jobs", "--max-ms-per-prb", "--threads", "--mb", "--iters", "--group"} <= set(numbers)
    assert [option for option, k in numbers.items() if _takes(k, "-5")] == []


def _takes(k: Knob, word: str) -> bool:
    try:
        k.parse(word)
    except ValueError:
        return False
    return True


def test_a_field_names_its_option() -> None:
    assert list(knobs_of(Knobs)) == ["--small-tile", "--quiet", "--case"]
    assert knobs_of(Knobs)["--small-tile"].default == 4


def test_only_non_defaults_are_in_the_repro_line() -> None:
    assert words(Knobs()) == []
    assert words(Knobs(small_tile=8, quiet=3)) == ["--small-tile=8"]


def test_a_bare_value_stands_without_its_option() -> None:
    assert words(Knobs(small_tile=8, case=3)) == ["--small-tile=8", "3"]


def test_values_are_spelled_as_they_are_read() -> None:
    said = words(Globals(mode=Mode.performance, policy=("fused", "post_ops"), max_ms_per_prb=50.0))
    assert said == ["--mode=P", "--policy=fused,post_ops", "--max-ms-per-prb=50"]


def test_every_global_knob_reads_what_it_writes() -> None:
    settings = Globals(
        mode=Mode.run, mode_modifier="M", policy=("one_op_each",), seed=7, repeats_per_prb=2, threads=2, isa="avx2",
        max_ms_per_prb=12.5, fix_times_per_prb=9, cold_cache="all+tlb:1G", num_streams=3,
    )  # fmt: skip
    read = {}
    for word in words(settings):
        option, _, value = word.partition("=")
        knob_ = knobs_of(Globals)[option]
        read[knob_.name] = knob_.parse(value)
    assert Globals(**read) == settings
