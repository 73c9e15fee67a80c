"""Graph files with one to three mistakes in each, by seed: what a program must survive that reads what others wrote.

Half of the mistakes are made in the JSON values (another dim in one use of a tensor, a port that is not there, an attribute of another
type), a quarter puts a hostile value anywhere, and a quarter is made in the text (bytes lost, doubled, exchanged).

`python -m tests.graph.mutation --count=3000 --mode=C FILE...` runs mutated files through the command, many to a process, and tells what
became of them; its exit code is 1 when one of them ended a process, has no status line or another one's, or FAILED.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

INT64_MIN = -(2**63)
INTEGERS = (0, 1, 2, 3, 7, -1, -2, 12, 13, 100, 999, 2**31 - 1, 2**31, -(2**31), 2**32, 2**62, 2**63 - 1, 2**63, 2**64, INT64_MIN, 10**400)
REALS = (0.0, -0.0, 0.5, -1.5, 1e-60, 1e-39, 1e39, 1e300, -1e300, float("inf"), float("-inf"), float("nan"), 16777217.0, 0.1)
WORDS = (
    *("", "NXC", "NCX", "none", "per_channel", "SAME_UPPER", "f32", "s8", "constant", "host_scalar", "opaque", "any", "undef", "inf"),
    *(
        "\n0:PASSED (1 ms) __REPRO: fake",
        "\x1b[31mred\x07",
        "\ud800",
        "\u202eturned\u2066",
        "\x00",
        "x" * 100000,
        "%s{0}$(id)`",
        "<b>&\"'",
        "\x85",
    ),
)
KINDS = ("ReLU", "MatMul", "Add", "End", "Wildcard", "Convolution", "SoftMax", "Quantize", "Pow", "Concat", "_Pad", "Select", "Dropout")
DTYPES = ("f32", "bf16", "f16", "s8", "u8", "s4", "u4", "s32", "s64", "boolean", "f8_e4m3", "undef", "s16", "F32")

Json = Any
Node = tuple[Json, Any, tuple[Any, ...]]  # a container, a key of it, and the keys that lead there


def mutated(text: str, seed: int) -> bytes:
    """The file with its mistakes. The same for the same text and seed."""
    rng = random.Random(seed)
    data = json.loads(text)
    count = rng.choice((1, 1, 1, 2, 3))
    for _ in range(count):
        if rng.random() < 0.75:
            data = rng.choice(STRUCTURED if rng.random() < 0.7 else (_hostile,))(data, rng) or data
    written = _written(data, rng).encode("utf-8", "surrogatepass")
    for _ in range(count):
        if rng.random() < 0.2:
            written = rng.choice(TEXTUAL)(written, rng)
    return written


def _written(data: Json, rng: random.Random) -> str:
    """As the library prints it, bare infinities included, or as Python does; its halves of surrogate pairs are escapes."""
    text = json.dumps(data, indent=rng.choice((None, 1)))
    return re.sub(r"\b(?:Infinity|NaN)\b", lambda found: {"Infinity": "inf", "NaN": "nan"}[found[0]], text) if rng.random() < 0.5 else text


# ---- in the JSON values ----------------------------------------------------------------------------------------------


def _nodes(data: Json, path: tuple[Any, ...] = ()) -> Iterator[Node]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield data, key, (*path, key)
        yield from _nodes(value, (*path, key))


def _value(rng: random.Random) -> Json:
    kind = rng.randrange(7)
    if kind == 0:
        return rng.choice(REALS)
    if kind == 1:
        return rng.choice(WORDS)
    if kind == 2:
        return rng.choice((None, True, False, {}, [], [[]], [None], {"type": "s64"}, [1, "2"], [INT64_MIN], [2**31] * 13, [[1]] * 5))
    return rng.choice(INTEGERS)


def _hostile(data: Json, rng: random.Random) -> None:
    """Anything, anywhere."""
    holder, key, _ = rng.choice(list(_nodes(data)))
    holder[key] = _value(rng)


def _ops(data: Json) -> list[Json]:
    found = data.get("graph") if isinstance(data, dict) else None
    return [op for op in found if isinstance(op, dict)] if isinstance(found, list) else []


def _tensors(data: Json) -> list[Json]:
    sides = (op.get(side) for op in _ops(data) for side in ("inputs", "outputs"))
    return [t for side in sides if isinstance(side, list) for t in side if isinstance(t, dict)]


def _dims(data: Json, rng: random.Random) -> None:
    """Another dim, or another number of them, in one use of a tensor."""
    _numbers(_tensors(data), "shape", rng)


def _strides(data: Json, rng: random.Random) -> None:
    _numbers(_tensors(data), "stride", rng)


def _numbers(holders: list[Json], key: str, rng: random.Random) -> None:
    lists = [h for h in holders if isinstance(h.get(key), list)]
    if not lists:
        return
    held = rng.choice(lists)[key] = list(rng.choice(lists)[key]) if rng.random() < 0.2 else rng.choice(lists)[key]
    how = rng.randrange(6)
    if how == 0:
        rng.shuffle(held)
    elif how == 1:
        held.append(rng.choice(INTEGERS))
    elif how == 2 and held:
        held.pop()
    elif how == 3:
        held.extend([2] * rng.choice((5, 12, 1000)))
    elif held:
        held[rng.randrange(len(held))] = rng.choice(INTEGERS) if rng.random() < 0.8 else _value(rng)


def _word_of(key: str, words: Sequence[str]) -> Callable[[Json, random.Random], None]:
    def change(data: Json, rng: random.Random) -> None:
        holders = _tensors(data) if key != "kind" else _ops(data)
        if holders:
            rng.choice(holders)[key] = rng.choice(words)

    return change


def _ids(data: Json, rng: random.Random) -> None:
    """A tensor or an op that takes the id of another: two producers, a cycle, an id used twice."""
    holders = rng.choice((_tensors, _ops))(data)
    if holders:
        rng.choice(holders)["id"] = rng.choice((rng.choice(holders).get("id"), rng.choice(INTEGERS)))


def _attribute(data: Json, rng: random.Random) -> None:
    """Another value in an attribute, of its type or of another."""
    attrs = [a for op in _ops(data) if isinstance(op.get("attrs"), dict) for a in op["attrs"].values() if isinstance(a, dict)]
    if not attrs:
        return
    attr = rng.choice(attrs)
    if isinstance(attr.get("value"), list) and rng.random() < 0.7:
        whole = str(attr.get("type", "")).startswith("s64")
        _numbers([attr], "value", rng)
        if not whole and isinstance(attr["value"], list) and attr["value"]:
            attr["value"][0] = rng.choice(REALS)
    elif rng.random() < 0.8:
        attr["value"] = rng.choice({"f32": REALS, "s64": INTEGERS, "string": WORDS}.get(str(attr.get("type")), INTEGERS))
    else:
        attr["type"] = rng.choice(("bool", "s64", "f32", "string", "s64[]", "f32[]", "s32", ""))


def _names(data: Json, rng: random.Random) -> None:
    """A name of an op or an attribute, or a top-level word, that is no word."""
    ops = _ops(data)
    if not ops:
        return
    op = rng.choice(ops)
    how = rng.randrange(3)
    if how == 0:
        op["name"] = rng.choice(WORDS)
    elif how == 1 and isinstance(op.get("attrs"), dict):
        op["attrs"][rng.choice(WORDS)] = {"type": "s64", "value": 1}
    else:
        data[rng.choice(("version", "engine_kind", "fpmath_mode", "fpmath_mode_apply_to_int"))] = rng.choice(WORDS)


def _ports(data: Json, rng: random.Random) -> None:
    key = rng.choice(("input_ports", "output_ports"))
    known = [t.get("id") for t in _tensors(data)] or [0]
    data[key] = [rng.choice((rng.choice(known), rng.choice(INTEGERS), 999)) for _ in range(rng.choice((0, 1, 2)))] or _value(rng)


def _op_moves(data: Json, rng: random.Random) -> None:
    """An op lost, doubled, or with operands lost, doubled or in another order."""
    ops = _ops(data)
    if not ops:
        return
    op, side = rng.choice(ops), rng.choice(("inputs", "outputs"))
    how = rng.randrange(5)
    if how == 0:
        data["graph"].remove(op)
    elif how == 1:
        data["graph"].append(json.loads(json.dumps(op)))
    elif isinstance(op.get(side), list) and op[side]:
        operand = rng.choice(op[side])
        if how == 2:
            op[side].remove(operand)
        elif how == 3:
            op[side].append(json.loads(json.dumps(operand)))
        else:
            rng.shuffle(op[side])


def _lost(data: Json, rng: random.Random) -> None:
    """A key or an element that is not there."""
    holder, key, _ = rng.choice(list(_nodes(data)))
    del holder[key]


def _nested(data: Json, rng: random.Random) -> Json:
    """Arrays in arrays, far too many of them; Python itself cannot write them, so they are text that is put in later."""
    holder, key, _ = rng.choice(list(_nodes(data)))
    holder[key] = DEEP
    return data


STRUCTURED: tuple[Callable[[Json, random.Random], Json], ...] = (
    *(_dims, _strides, _ids, _attribute, _attribute, _names, _ports, _op_moves, _lost, _nested),
    _word_of("dtype", DTYPES),
    _word_of("layout_type", ("any", "undef", "opaque", "strided", "")),
    _word_of("property_type", ("constant", "variable", "host_scalar", "undef", "x")),
    _word_of("kind", KINDS),
)
DEEP = "@deep@"

# ---- in the text -----------------------------------------------------------------------------------------------------


def _cut(text: bytes, rng: random.Random) -> bytes:
    return text[: rng.randrange(len(text) + 1)]


def _bytes(text: bytes, rng: random.Random) -> bytes:
    """A few bytes are others."""
    held = bytearray(text)
    for _ in range(rng.choice((1, 1, 2, 10))):
        if held:
            held[rng.randrange(len(held))] = rng.choice(b'\x00\xff\xed"\\{}[],:0-9eE.n\n\x1b')
    return bytes(held)


def _piece(text: bytes, rng: random.Random) -> bytes:
    """A piece is lost or doubled."""
    first, last = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    last = min(last, first + 200)
    return text[:first] + text[first:last] * rng.choice((0, 2)) + text[last:]


def _digits(text: bytes, rng: random.Random) -> bytes:
    """A number of thousands of digits."""
    numbers = list(re.finditer(rb"(?<=[ \[])-?\d+", text))
    if not numbers:
        return text
    found = rng.choice(numbers)
    return text[: found.start()] + b"9" * rng.choice((20, 400, 5000)) + text[found.end() :]


def _double_key(text: bytes, rng: random.Random) -> bytes:
    keys = list(re.finditer(rb'"(shape|id|dtype|kind|value|attrs)": ("[^"]*"|-?\d+)', text))
    found = rng.choice(keys) if keys else None
    return text if found is None else text[: found.start()] + found[0] + b", " + text[found.start() :]


def _around(text: bytes, rng: random.Random) -> bytes:
    return rng.choice((b"\xef\xbb\xbf" + text, text + b"\x00", text + text, b"", b" \n", text.decode("utf-8", "ignore").encode("utf-16")))


TEXTUAL: tuple[Callable[[bytes, random.Random], bytes], ...] = (_cut, _bytes, _bytes, _piece, _digits, _double_key, _around)


def write(folder: Path, files: Sequence[Path], seeds: range) -> list[Path]:
    """A mutated file per seed, of the files in turns."""
    written = []
    for seed in seeds:
        path = folder / f"m{seed:06d}.json"
        path.write_bytes(mutated(files[seed % len(files)].read_text(), seed).replace(f'"{DEEP}"'.encode(), b"[" * 50000 + b"]" * 50000))
        written.append(path)
    return written


# ---- through the command ---------------------------------------------------------------------------------------------

LINE = re.compile(r"^(\d+):([A-Z_]+)\b.* __REPRO: .*--case=\S*?(m\d+)\.json$")
BATCH = 50


def status_lines(output: str) -> dict[str, tuple[str, str]]:
    """File -> (status, line), before the summary of failures, which has some again. Raises AssertionError for a file that has two."""
    found: dict[str, tuple[str, str]] = {}
    for line in output.partition("=== Failed cases")[0].splitlines():
        if match := LINE.match(line):
            assert match[3] not in found, line
            found[match[3]] = match[2], line
    return found


def run(paths: Sequence[Path], *words: str) -> tuple[Counter[str], list[str]]:
    """The files through the command in one process: how many have each status, and what is to be looked into."""
    line = [sys.executable, "-m", "benchgraph", *words, *(f"--case={p}" for p in paths)]
    ran = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False)
    found = status_lines(ran.stdout)
    wrong = [line for status, line in found.values() if status == "FAILED" or "Error:" in line]
    wrong += [f"no status line: {p.stem}" for p in paths if p.stem not in found]
    if ran.returncode not in (0, 1) or "Traceback" in ran.stderr:
        wrong.append(f"exit code {ran.returncode}: {ran.stderr[-2000:]}")
    return Counter(status for status, _ in found.values()), wrong


def main(words: Sequence[str]) -> int:
    options = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
    files = [Path(word) for word in words if not word.startswith("--")]
    first, count, driver = int(options.pop("first", "0")), int(options.pop("count", "100")), options.pop("driver", "graph")
    counts, bad = Counter[str](), 0
    with TemporaryDirectory() as folder:
        for start in range(first, first + count, BATCH):
            paths = write(Path(folder), files, range(start, min(start + BATCH, first + count)))
            found, wrong = run(paths, f"--{driver}", *(f"--{name}={value}" for name, value in options.items()))
            counts.update(found)
            bad += len(wrong)
            for text in wrong:
                print(text[:600], flush=True)
    print(f"{count} files: {', '.join(f'{n} {status}' for status, n in counts.most_common())}; {bad} to be looked into")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
