"""--help: an overview on one screen, a command or driver on one screen each, and everything with --help=all.

Free of numpy, llvmlite and the reports' own imports, so that it is quick. Names and texts of options come from knobs; those of commands are
here, and tests/test_help.py passes each of them to its command.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchgraph.commands.help_page import Page, Row
from benchgraph.core.config import table
from benchgraph.core.errors import UsageError, did_you_mean
from benchgraph.options.argv import CONTROLS
from benchgraph.options.knobs import INERT, Globals, Knob, knobs_of
from benchgraph.options.plugins import about, driver_option, load_driver, names


@dataclass(frozen=True)
class Command:
    """about: one line. form: the words after its name. options: its own. examples: whole lines, without `benchgraph`.

    chooses: whether its other words select cases, as in a run.
    """

    about: str
    form: str
    options: tuple[Row, ...] = ()
    examples: tuple[str, ...] = ()
    note: str = ""
    chooses: bool = False

    @property
    def names(self) -> list[str]:
        return [part.split()[0] for form, _ in self.options for part in form.split(", ")]


_CASES = "--driver NAME|--NAME (default graph), the driver's options, --policy and the like choose cases as in a run, and stand anywhere"
_OUTPUT = ("-o, --output FILE", "write it there; - is standard output (default)")
_HISTORY = ("--history URL", "a SQLite file or postgresql://USER@HOST/DATABASE; default: BENCHGRAPH_HISTORY, else benchgraph-history.db")
_SINCE = ("--since REF", "a tag, a commit, a date as 2026-11-21, or the number of a run")
_POLICY = ("--policy P[,P...]", "only times under these policies")
_LOOK_BACK = ("--report console|markdown|json|html[:FILE]", "console (default) and others; may be repeated; html is a page of charts")
_COMMIT_URL = ("--commit-url TEMPLATE", "what commits link to on the page, as https://github.com/me/it/commit/{commit}")
_THRESHOLD = ("--threshold SHARE", "the change that matters, as 5% or 0.05 (default 5%)")

COMMANDS: dict[str, Command] = {
    "list": Command(
        "the batch files there are, drivers, reports and policies",
        "[DRIVER | batches | drivers | reports | policies]",
        examples=("list", "list matmul"),
        note="A batch runs with --batch=NAME. LINES counts the lines of the file that have words, CASES what they expand to.",
    ),
    "ops": Command(
        "the op table, or one row in full", "[KIND]", (("--kind KIND", "one op kind in full, as KIND alone"),), ("ops", "ops SoftMax")
    ),
    "show": Command(
        "the partitioned graph of one case, drawn",
        "--case FILE [OPTIONS]",
        (
            ("--format {text,dot,svg}", "text (default), Graphviz, or a picture that needs nothing installed"),
            ("--unfold", "draw every one of several equal blocks; so does -v"),
            _OUTPUT,
        ),
        ("show --case=attention.json --policy=post_ops", "show --case=attention.json --format=svg -o attention.svg"),
        chooses=True,
    ),
    "explain": Command(
        "what the compiler chose for cases, and why",
        "--case FILE [OPTIONS]",
        (("--json", "as JSON instead of text"), _OUTPUT),
        ("explain --case=mlp.json --mb=32 --policy=fused,fused:no-coarse", "explain --matmul --dt=bf16 128x512:512x256 --json"),
        chooses=True,
    ),
    "localise": Command(
        "the first op of a case whose output is wrong",
        "--case FILE [OPTIONS]",
        (("--json", "as JSON instead of text"),),
        ("localise --case=mlp.json", "localise --library=onednn --case=attention.json --dt=bf16"),
        "Every op alone, on what the library computed before; then, if all are right, parts of its first wrong partition. Exits with 1 "
        "if an op is wrong.",
        chooses=True,
    ),
    "import": Command(
        "a verbose log of oneDNN or a model as a batch file; where the time of the log went",
        "LOG|MODEL.onnx|MODEL.pt2 -o DIR",
        (
            ("-o, --output DIR", "the folder for the batch file, the table of times, and the graphs that it needs"),
            ("--mb N", "the batch size of a model, where it leaves that open"),
            ("--in-shapes NAME:SHAPE[+...]", "sizes that a model leaves open, by the names of its inputs (ids:1x128) or of dims (seq:128)"),
            ("--replay FILE", "a JSON report of the batch in mode P: its times beside the log's, and shares of its machine's roof"),
        ),
        ("import torch.log -o torch", "import torch.log -o torch --replay=out.json"),
        "LOG is what a program prints with ONEDNN_VERBOSE=1, or benchgraph with BENCHGRAPH_VERBOSE=1, or benchdnn's output with its repro "
        "lines; other lines may stand between. MODEL is of ONNX, or of torch.export (.pt2): it becomes a graph with the data of its "
        "constants. docs/import.md and docs/models.md have the details.",
    ),
    "opt": Command(
        "passes over the text of an IR",
        "--pipeline PASS[,PASS...] FILE|- [OPTIONS]",
        (
            ("--pipeline PASS[,PASS...]", "names of passes; gir, tir: all of one IR; lower: from scheduled Graph IR to Tensor IR"),
            ("--isa LEVEL", "compile for a model machine of this level, not for this machine"),
            ("--cores N", "of the machine"),
            ("--target FIELD=VALUE[,...]", "what else is known of it, as l2_bytes=65536"),
            ("--print-after-all", "every pass' result on stderr, too"),
            ("--list", "the passes"),
        ),
        ("opt --pipeline=decompose,fold-constants graph.txt", "opt --pipeline=gir,lower,simplify --isa=avx2 --cores=4 -"),
        "FILE holds Graph IR or Tensor IR as docs/ir-text.md has it: what BENCHGRAPH_DUMP_DIR writes of a stage, for one.",
    ),
    "compile-times": Command(
        "how long cases take to compile, and to start warm",
        "--case FILE [OPTIONS]",
        (("--runs N", "new processes per figure (default 5)"),),
        ("compile-times --case=mlp.json", "compile-times --graph --case=mlp.json --runs=3"),
        chooses=True,
    ),
    "tune": Command(
        "the compiler's schedule of each nest against all of its space",
        "--case FILE|DESCRIPTOR [OPTIONS]",
        (
            ("--store FILE", "keep what is found for later runs, which read it with --tuning=FILE"),
            ("--rounds N", "samples of each finalist (default 15)"),
            ("--choices N", "try so many schedules of each nest, drawn by --seed, and the choices of the compiler (default: all)"),
            ("-o, --output FILE", "write the table there too"),
        ),
        ("tune --matmul 128x479:479x1024", "tune --store=FILE --policy=post_ops --case=attention.json"),
        chooses=True,
    ),
    "calibrate": Command(
        "this machine's rates, measured, beside those of its table",
        "[-o FILE]",
        (
            ("-o, --output FILE", "write the table there; - prints it instead of the comparison"),
            ("--seconds N", "of measuring (default 60), after loops are compiled and memory is written"),
        ),
        ("calibrate", "calibrate -o mine.toml"),
        "It takes up to two minutes on a machine that nobody else uses. BENCHGRAPH_MACHINE_TABLE=FILE.toml makes the compiler use the "
        "table; BENCHGRAPH_THREADS and BENCHGRAPH_ISA say for how many threads and for which level it is.",
    ),
    "fuzz": Command(
        "random graphs; those that fail are shrunk",
        "[OPTIONS]",
        (
            ("--seed S", "of the graphs (default 0)"),
            ("--count N", "how many (default 100)"),
            ("--start I", "the first one (default 0)"),
            ("--tries T", "executions that shrinking one failure may take (default 400); 0 shrinks nothing"),
            ("-o, --output DIR", "the folder for shrunk cases (default: this one)"),
            ("--ops N", "the most ops a graph has (default 30)"),
            ("--release X.Y", "draw only what oneDNN X.Y has"),
        ),
        ("fuzz --seed 1 --count 2000 --jobs=2 -o found", "fuzz --seed 1 --count 100 --ops=5 --timeout=60"),
        "Other options are those of a run. Graph I of seed S alone is --fuzz S:I.",
    ),
    "compare": Command(
        "what got slower, faster or wrong between JSON reports; exits with 1 when something got worse",
        "A.json[,A2.json...] B.json[,B2.json...] [OPTIONS]",
        (
            _THRESHOLD,
            ("--match REGEX", "leave out cases whose repro line REGEX is not found in"),
            ("--other-machine", "compare all times, also of different kinds of machines"),
            ("--fail-on STATUS[,...]", "missing, skipped, mistrusted: exit with 1 for cases that are so in B alone, too"),
            ("--report console|markdown|csv[:FILE]", "console (default) and others; may be repeated"),
        ),
        ("compare A.json B.json --threshold=5%", "compare A.json,A2.json B.json,B2.json --report=markdown:out.md"),
    ),
    "ab": Command(
        "what got slower, faster or wrong from OLD to NEW; measures both versions",
        "OLD NEW [OPTIONS]",
        (
            ("--launches N", "new processes of both versions, in each of which every case is timed (default 3)"),
            ("--max-launches M", "further launches, up to M, of cases that cannot be told (default: none)"),
            _THRESHOLD,
            ("--report console|markdown|json|html[:FILE]", "console (default) and others; may be repeated"),
        ),
        ("ab HEAD~1 . --report=markdown:ab.md", "ab onednn:/opt/a/lib onednn:/opt/b/lib --batch=test_matmul_ci"),
        "OLD and NEW are commits or checkouts of benchgraph, or libraries as --library has them. Without cases the graph driver's smoke "
        "batch runs; without --policy it is fused, without --max-ms-per-prb 500 for each launch. docs/ab.md says what is claimed.",
        chooses=True,
    ),
    "bisect": Command(
        "the commit that made a case slower or wrong",
        "GOOD BAD --case FILE [OPTIONS]",
        (
            ("--repository DIR", "of the commits (default: the checkout of benchgraph that this folder is in)"),
            ("--build COMMAND", "makes the library of another project, in a worktree of each commit; if it fails, the commit is skipped"),
            ("--library LIBRARY:PATH", "what COMMAND makes, as onednn:build/src/libdnnl.so"),
            _THRESHOLD,
            ("--max-launches M", "of one commit (default 20); a commit that cannot be told by then is skipped"),
        ),
        (
            "bisect v1 HEAD --case=mlp.json --mb=32",
            "bisect HEAD~32 HEAD --threshold=2% --matmul 128x512:512x256",
        ),
        "It takes as many launches as the answer needs, and says how many. docs/ab.md says what is claimed.",
        chooses=True,
    ),
    "render": Command(
        "saved results as any report: a page, a table, JUnit",
        "A.json [B.json ...] [OPTIONS]",
        (("--report NAME[:FILE]", "as in a run (default html:report.html); - is standard output; may be repeated"),),
        ("render A.json --report=junit:junit.xml --report=markdown", "render A.json B.json --report=html:report.html"),
        "Only html takes several runs, and puts them on one page.",
    ),
    "merge": Command(
        "the shards of one run as one report",
        "A.json B.json ... [OPTIONS]",
        (
            _OUTPUT,
            ("--incomplete", "shards may be missing"),
            ("--other-machine", "shards may be of different kinds of machines, whose times stay apart"),
            ("--other-code", "shards may be of different commits and library versions"),
        ),
        ("merge shard-*.json -o out.json", "merge 1.json 3.json --incomplete -o out.json"),
        "Shards are reports of one command line with --shard=1/N to --shard=N/N.",
    ),
    "history": Command(
        "the runs that --history keeps, or a case over time",
        "[OPTIONS]",
        (
            ("--case REGEX", "the times of the cases whose repro line has it"),
            _POLICY,
            _SINCE,
            ("--add FILE", "put a JSON report into the history"),
            ("--commit REF", "of the code that the added report measured"),
            _LOOK_BACK,
            _COMMIT_URL,
            _HISTORY,
        ),
        ("history --case=mha_1", "history --add=out.json --commit=HEAD"),
    ),
    "regressions": Command(
        "what got slower for good, and between which commits; exits with 1 when something did",
        "[OPTIONS]",
        (_SINCE, ("--match REGEX", "only cases whose repro line has it"), _POLICY, _THRESHOLD, _LOOK_BACK, _COMMIT_URL, _HISTORY),
        ("regressions --since=v1.2 --threshold=5%", "regressions --match=mlp --policy=fused"),
    ),
    "help": Command(
        "this, or help about a command, a driver, `env` or `all`", "[COMMAND | DRIVER | env | all]", examples=("help explain", "help env")
    ),
}

USED_MOST: dict[str, Row] = {  # option -> its value and description, on one line
    "--mode": ("LETTER", "C checks (default), P measures, L lists the cases"),
    "--policy": ("NAMES", "fused (default), post_ops, one_op_each"),
    "--threads": ("N", "of compiled code; default: one per core"),
    "--library": ("NAMES", "benchgraph, onednn, onnxruntime, openvino, torch, ..."),
    "--report": ("NAME[:FILE]", "json, html, csv, junit, markdown, trace; - is stdout"),
}
EXAMPLES = (
    "--driver graph --case mlp.json",
    "--mode=P --graph --mb=32,128 --case=mlp.json --report=json:out.json",
    "--matmul --dt=f32,bf16 128x512:512x256",
)


def requested_help(words: Sequence[str]) -> str | None:
    """The help text that the words request; None if they request none. Raises UsageError for an unknown topic."""
    if words and words[0] == "help":
        topics = [word for word in words[1:] if not word.startswith("-")]
        return topic(" ".join(topics)) if topics else of_command("help") if len(words) > 1 else overview()
    for i, word in enumerate(words):
        option, _, value = word.partition("=")
        if option in ("--help", "-h"):
            _need_known(words[:i])
            return topic(value) if value else _help_after(words[:i])
    return None


def _need_known(words: Sequence[str]) -> None:
    """Raises UsageError for an unknown option before --help."""
    drivers = [load_driver(name) for name in names("drivers")]
    own = [option for command in COMMANDS.values() for option in command.names]
    known = {*CONTROLS, *knobs_of(Globals), *INERT, *own, *(f"--{name}" for name in names("drivers")), "--version", "--concise"}
    known |= {option for driver in drivers for option in (*knobs_of(driver.knobs), *driver.inert, *driver.aliases)}
    for word in words:
        option = word.partition("=")[0].replace("_", "-")
        if option.startswith("--") and option not in known and not driver_option(option):
            raise UsageError("unknown option", where=option, fix=did_you_mean(option, known) or "see 'benchgraph --help'")


def _help_after(words: Sequence[str]) -> str:
    """Help on the topic of the words before --help: the command, or driver without dashes, else the last driver, else the overview."""
    if words and words[0] in (*COMMANDS, *names("drivers")):
        return topic(words[0])
    named = [name for option, name in pairwise((*words, "")) if option == "--driver"]
    named += [driver_option(word) or word.removeprefix("--driver=") for word in words if word.startswith("--")]
    drivers = [name for name in named if name in names("drivers")]
    return of_driver(drivers[-1]) if drivers else overview()


def topic(name: str) -> str:
    """Help about a command, a driver, 'env', 'all', or, for '', the overview. Raises UsageError."""
    if name in COMMANDS:
        return of_command(name)
    if name in names("drivers"):
        return of_driver(name)
    pages = {"": overview, "all": everything, "env": variables}
    if name not in pages:
        near = did_you_mean(name, [*COMMANDS, *names("drivers"), "env", "all"])
        raise UsageError(f"no help about '{name}'", where="--help", fix=near or "'benchgraph --help' lists what there is")
    return pages[name]()


# ---- pages -----------------------------------------------------------------------------------------------------------


def overview() -> str:
    page = Page()
    page.usage("[--DRIVER] [OPTIONS] --case FILE|DESCRIPTOR ...", "COMMAND ...")
    page.text(
        "Check and time oneDNN Graph dumps. Options, --name=value or --name value, set state: a case runs with those so far, for each of "
        "the product of comma lists."
    )
    page.text(f"Drivers: {', '.join(names('drivers'))}")
    page.rows("Commands", [(name, command.about) for name, command in COMMANDS.items()], brief=True)
    used_most = [(f"{option} {value}", text) for option, (value, text) in USED_MOST.items()]
    page.rows("Options used most", [("--batch NAME|FILE", "read options from a file: see `benchgraph list`"), *used_most])
    page.examples(EXAMPLES)
    page.text("More: --DRIVER --help, COMMAND --help, --help=all, help env; docs/exit-codes.md.")
    return page.done()


def of_command(name: str) -> str:
    command, page = COMMANDS[name], Page()
    page.usage(f"{name} {command.form}")
    page.text(f"{command.about[0].upper()}{command.about[1:]}.")
    page.rows("Options", command.options)
    if command.chooses:
        page.text(f"{_CASES}: benchgraph --DRIVER --help, benchgraph --help=all.")
    page.text(command.note)
    page.examples(command.examples)
    return page.done()


def of_driver(name: str) -> str:
    driver, page = load_driver(name), Page()
    page.usage(f"--{name} [OPTIONS] {'--case FILE' if driver.reads_files else 'DESCRIPTOR'} ...")
    knobs = knobs_of(driver.knobs).values()
    page.text(f"{driver.about[0].upper()}{driver.about[1:]}.")
    page.rows("Options, each perhaps with alternatives joined by commas", [_short(k) for k in knobs if not k.lacks])
    if any(k.value.startswith("TAG") for k in knobs):
        page.text("TAG: as abcd, acdb, nhwc; abx is row-major, axb channels last, any is free.")
    _list_unsupported(page, [k.option for k in knobs if k.lacks], driver.inert)
    page.examples(driver.examples)
    page.text(f"More: benchgraph --help=all, benchgraph list {driver.folder}.")
    return page.done()


def variables() -> str:
    page = Page()
    page.text("Environment variables, with their defaults")
    page.rows("", [(f"{name}={default}".rstrip("="), text) for name, default, text in table()])
    return page.done()


def everything() -> str:
    page = Page()
    page.usage("[--DRIVER] [OPTIONS] --case FILE|DESCRIPTOR ...", "COMMAND ...")
    page.rows("Commands", [(f"{name} {command.form}", command.about) for name, command in COMMANDS.items()])
    control = [
        ("--driver NAME, --NAME", f"choose the driver: {', '.join(names('drivers'))}"),
        ("--batch FILE", "read options from a file (words, # comments, \\ joins, quotes); found like a case, and may name the driver"),
        ("--reset", "restore the driver's options"),
        ("--help[=TOPIC], --version", "help about a command, a driver, env or all; or the version"),
    ]
    page.rows("Options", control)
    for group in dict.fromkeys(k.group for k in knobs_of(Globals).values()):
        page.rows(group, [_row(k) for k in knobs_of(Globals).values() if k.group == group])
    page.text("Options of drivers follow; one with [,...] runs the case once per alternative.")
    for name in names("drivers"):
        driver = load_driver(name)
        knobs = knobs_of(driver.knobs).values()
        page.rows(f"Driver {name}: {driver.about}", [_row(k) for k in knobs if not k.lacks])
        _list_unsupported(page, [k.option for k in knobs if k.lacks], driver.inert)
    page.rows("Taken for benchdnn's sake, changing nothing", list(INERT.items()))
    page.rows("Reports", [(name, about("reports", name)) for name in names("reports")])
    page.rows("Environment", [(f"{name}={default}".rstrip("="), text) for name, default, text in table()])
    return page.done()


def _list_unsupported(page: Page, lacking: Iterable[str], inert: Iterable[str]) -> None:
    """Options of benchdnn that are accepted without effect."""
    if lacking := list(lacking):
        page.text(f"A case is skipped, with the reason, that asks for something by {', '.join(lacking)}.")
    if inert := list(inert):
        page.text(f"Taken, changing nothing: {', '.join(inert)}.")


def _short(knob: Knob) -> Row:
    """Without the comma lists that nearly every option accepts."""
    return f"{knob.option} {knob.value.replace('[,...]', '').replace('N[,N...]', 'N').replace('X[,X...]', 'X')}".rstrip(), knob.help


def _row(knob: Knob) -> Row:
    return f"{knob.option} {knob.value}".rstrip(), knob.help
