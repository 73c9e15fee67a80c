"""One thread for numpy's products, unless the user sets more."""

import subprocess
import sys

import pytest

from benchgraph.core.config import environment
from benchgraph.harness.blas_threads import SINGLE

CODE = "from click.testing import CliRunner; from benchgraph.cli import main; import os; CliRunner().invoke(main, ['ops']); print({})"


@pytest.mark.parametrize(("given", "want"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_the_command_prints_a_choice_that_stays(given: dict[str, str], want: str) -> None:
    code = CODE.format("os.environ['OPENBLAS_NUM_THREADS']")
    env = {k: v for k, v in environment({}).items() if k not in SINGLE} | given
    assert subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout.strip() == want
