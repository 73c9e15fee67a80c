"""What a worker of a fleet does."""

from __future__ import annotations

import subprocess
import sys


def test_cases_do_not_inherit_the_engine_s_memory_settings() -> None:
    code = "import os, benchgraph.fleet.at_worker; print('MALLOC_TRIM_THRESHOLD_' in os.environ, 'HOME_' in os.environ)"
    env = {"MALLOC_TRIM_THRESHOLD_": "65536", "HOME_": "", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"
