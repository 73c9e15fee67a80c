"""Files of torch.export.save (.pt2) as models. Needs PyTorch.

What is trusted: nothing. `torch.export.load` would run code that a file brings along: pickled objects, compiled libraries, and texts of
expressions that it evaluates. So the archive is read here first, and refused if it has any of these, or an op that is not PyTorch's own.
"""

from __future__ import annotations

import json
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from benchgraph.core.errors import InvalidArguments, ParseError, Unavailable, Unimplemented, within
from benchgraph.core.printable import listed, quoted
from benchgraph.graph.model import Model
from benchgraph.importers.sizes import Sizes, bind

SUFFIX = ".pt2"
AGAIN = "export it again, with torch.export.save"
MODEL = "models/model.json"
SAFE_FOLDERS = ("models", "data/weights", "data/constants", "data/sample_inputs", ".data", "extra", ".format")
SAFE_FILES = ("archive_format", "archive_version", "byteorder", "version")
SAMPLES = "data/sample_inputs/model.pt"
OPS = re.compile(
    r"torch\.ops\.aten\.\w+(\.\w+)?|torch\.ops\.higher_order\.wrap_with_set_grad_enabled|_operator\.\w+|math\.\w+|torch\.sym_\w+"
)
READS_FILES = re.compile(r"torch\.ops\.aten\.from_file\b.*")
# What torch writes of symbolic sizes: calls of names on names, numbers and texts without anything else
TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z]\w*)|'[A-Za-z]\w*'|-?\d+(?:\.\d+)?|[(),=*/+<>!%-])")
CALLED = frozenset(
    [
        "Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Mod", "Max", "Min", "FloorDiv", "CleanDiv", "CeilDiv",
        "ModularIndexing", "PythonMod", "IntTrueDiv", "FloatTrueDiv", "FloatPow", "PowByNatural", "TruncToInt", "CeilToInt", "FloorToInt",
        "RoundToInt", "ToFloat", "Identity", "Where", "floor", "ceiling", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "Equality", "Unequality",
        "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan", "And", "Or", "Not", "true", "false", "True", "False", "positive",
        "integer", "nonnegative", "real", "zero", "evaluate",
    ]
)  # fmt: skip
SYMBOL = re.compile(r"[a-z]{1,4}\d+")
LONGEST = 2000  # characters of an expression
LONGEST_NUMBER = 18  # digits


def read_pt2(path: Path, sizes: Sizes) -> Model:
    """Raises BenchgraphError for a file that cannot be read, and for a model that cannot be expressed."""
    with within(str(path)), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of its own parts
        check_archive(path)
        exported = _need_torch()
        program = _loaded(path)
        inputs = exported.inputs_of(program)
        examples = {name: exported.example_of(val) for name, val in inputs.items()}
        bound = bind({name: exported.dims_of(val) for name, val in inputs.items()}, sizes, examples)
        model: Model = exported.model_of(program, bound.shapes)
        return replace(model, source=path, batch=bound.batch)


def _need_torch() -> Any:
    """Raises Unavailable without PyTorch."""
    try:
        from benchgraph.torch import exported
    except ImportError as bad:
        raise Unavailable("reading exported programs needs PyTorch 2.13 or newer", fix="pip install 'benchgraph[torch]'") from bad
    return exported


def _loaded(path: Path) -> Any:
    """The ExportedProgram. Raises ParseError."""
    import torch

    try:
        return torch.export.load(path)
    except Exception as bad:  # whatever the parts of PyTorch raise
        raise ParseError(f"no exported program: {_first_line(bad)}", fix=AGAIN) from bad


# ---- the archive ---------------------------------------------------------------------------------------------------------


def check_archive(path: Path) -> None:
    """Raise BenchgraphError unless the file is a whole archive of torch.export.save in which nothing is executed."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_files(archive)
            root = f"{archive.namelist()[0].partition('/')[0]}/"
            names = {info.filename.removeprefix(root) for info in archive.infolist()}
            _check_names(names)
            model = _json(archive, f"{root}{MODEL}")
            _check_version(model)
            for name in names:
                if name.endswith("_config.json"):
                    _check_payload(name, _json(archive, f"{root}{name}"))
            _check_program(model)
            _check_samples(archive, f"{root}{SAMPLES}")
    except OSError as bad:
        raise InvalidArguments(f"cannot read it: {bad.strerror or bad}", fix="name a file of torch.export.save") from bad
    except zipfile.BadZipFile as bad:
        raise ParseError(f"no archive, or a torn one: {bad}", fix=AGAIN) from bad
    except (KeyError, IndexError) as bad:
        raise ParseError("no archive of torch.export.save: it has no models/model.json", fix=AGAIN) from bad
    except (TypeError, ValueError, AttributeError, RecursionError, NotImplementedError) as bad:
        raise ParseError(f"its description is not of the known form: {_first_line(bad)}", fix=AGAIN) from bad


def _check_files(archive: zipfile.ZipFile) -> None:
    """Raise unless all files are plain, in one folder, and as long as the archive says."""
    roots = set[str]()
    for info in archive.infolist():
        place = PurePosixPath(info.filename)
        if place.is_absolute() or ".." in place.parts or "\\" in info.filename or ":" in place.parts[0]:
            raise ParseError(f"a file in it lies outside of it: {quoted(info.filename)}", fix="do not use it, and ask who made it")
        if info.compress_type != zipfile.ZIP_STORED:
            raise ParseError(f"a file in it is compressed: {quoted(info.filename)}", fix=AGAIN)
        roots.add(place.parts[0])
    if len(roots) > 1:
        raise ParseError(f"no archive of torch.export.save: it has several folders, {listed(sorted(roots))}", fix=AGAIN)
    if (torn := archive.testzip()) is not None:
        raise ParseError(f"a file in it is damaged: {quoted(torn)}", fix=AGAIN)


def _check_names(names: set[str]) -> None:
    for name in sorted(names):
        if name.startswith("data/aotinductor/") or name.endswith((".so", ".dll", ".o", ".pte")):
            raise ParseError(f"it holds compiled code, {quoted(name)}, which would be executed", fix=AGAIN)
        if name not in SAFE_FILES and not name.startswith(tuple(f"{folder}/" for folder in SAFE_FOLDERS)):
            raise ParseError(f"it holds {quoted(name)}, which torch.export.save does not write", fix=AGAIN)
        if name.endswith(".pt") and name != SAMPLES:
            raise ParseError(f"it holds pickled objects, {quoted(name)}, which run code when they are read", fix=AGAIN)
        if name.startswith("models/") and name != MODEL:
            raise ParseError(f"it holds several programs: {quoted(name)}", fix="export one")


def _check_version(model: Mapping[str, Any]) -> None:
    """Raise Unimplemented for a file of a newer or an older form than the installed PyTorch's."""
    version = model["schema_version"]
    try:
        from torch._export.serde.schema import SCHEMA_VERSION
    except ImportError:
        return  # reported with the remedy when the program is loaded
    if int(version["major"]) != SCHEMA_VERSION[0]:
        import torch

        what = f"it is of version {version['major']}.{version['minor']} of the form, by PyTorch {quoted(model.get('torch_version', '?'))}"
        newer = int(version["major"]) > SCHEMA_VERSION[0]
        fix = "install a newer PyTorch" if newer else "export it again with the PyTorch that is installed"
        raise Unimplemented(f"{what}, and {torch.__version__} reads {SCHEMA_VERSION[0]}", fix=fix)


def _check_payload(name: str, config: Mapping[str, Any]) -> None:
    """Raise for data that are pickled objects, or outside of their folder."""
    for weight, entry in config["config"].items():
        file = str(entry["path_name"])
        if entry.get("use_pickle") or not re.fullmatch(r"(weight|tensor)_\d+", file):
            what = "is a pickled object, which runs code when it is read"
            raise ParseError(f"{quoted(weight)} {what}", where=name, fix="export the model with plain tensors")


def _check_program(model: Any) -> None:
    """Raise for ops that are not PyTorch's, and for expressions that are more than sizes."""
    if model.get("guards_code"):
        for guard in model["guards_code"]:
            _check_guard(str(guard))
    for key, value in _entries(model):
        if key == "target" and isinstance(value, str) and (not OPS.fullmatch(value) or READS_FILES.fullmatch(value)):
            raise ParseError(f"it calls {quoted(value)}", fix="export it with PyTorch's own ops alone")
        if key == "expr_str":
            _check_expression(str(value))


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """All keys with their values, at any depth."""
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            yield from value.items()
            rest += value.values()
        elif isinstance(value, list):
            rest += value


def _check_expression(text: str) -> None:
    """PyTorch evaluates it as Python: only calls of known functions of sizes may stand there."""
    place = 0
    while place < len(text.rstrip()) and len(text) <= LONGEST:
        token = TOKEN.match(text, place)
        name = None if token is None else token["name"]
        is_number = token is not None and token[0].strip().lstrip("-")[:1].isdigit()
        if token is None or (name and name not in CALLED and not SYMBOL.fullmatch(name)) or (is_number and len(token[0]) > LONGEST_NUMBER):
            break
        if name is None and "**" in text[max(place - 1, 0) : place + 2]:
            break
        place = token.end()
    else:
        if len(text) <= LONGEST:
            return
    raise ParseError(f"a size is {quoted(text)}, which may do more than compute one", fix="do not use it, and ask who made it")


def _check_guard(text: str) -> None:
    """A condition on sizes, which only a run of the whole program in PyTorch evaluates."""
    if not re.fullmatch(r"[\w\s.\[\]()'\"+*/%<>=!,-]*", text) or "__" in text or len(text) > LONGEST:
        raise ParseError(f"a condition is {quoted(text)}", fix="do not use it, and ask who made it")


def _check_samples(archive: zipfile.ZipFile, name: str) -> None:
    """The example inputs are a pickle, which PyTorch reads with all it can do if reading plain tensors fails: so it must not fail."""
    try:
        import io

        import torch
    except ImportError:
        return
    data = archive.read(name)
    if not data:
        return
    try:
        torch.load(io.BytesIO(data), weights_only=True)
    except Exception as bad:  # the unpickler's errors have no class in common
        raise ParseError(f"its example inputs are pickled objects: {_first_line(bad)}", where=SAMPLES, fix=AGAIN) from bad


def _json(archive: zipfile.ZipFile, name: str) -> Any:
    try:
        return json.loads(archive.read(name))
    except ValueError as bad:
        raise ParseError(f"{quoted(name)} is not JSON: {bad}", fix=AGAIN) from bad


def _first_line(bad: BaseException) -> str:
    return next(iter(str(bad).splitlines()), type(bad).__name__)
