"""What a worker of a fleet does."""

from __future__ import annotations

import subprocess
import sys


def test_cases_do_not_inherit_the_engine_s_memory_settings() -> None:
    code = "import os, benchgraph.fleet.at_worker; print('MALLOC_TRIM_THRESHOLD_' in os.environ, 'HOME_' in os.environ)"
    env = {"MALLOC_TRIM_THRESHOLD_": "65536", "HOME_": "", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"


def test_a_survey_loads_no_compiler_before_it_measures() -> None:
    code = "import sys, benchgraph.fleet.survey; print({'llvmlite', 'benchgraph.ops', 'benchgraph.compile'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
