"""Without PyTorch the package imports, and the bridge's error says what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_error_without_pytorch_says_what_to_install() -> None:
    code = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import benchgraph.framework
try:
    import benchgraph.torch
except ImportError as missing:
    assert "pip install torch" in str(missing), missing
else:
    raise SystemExit("it imports")
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
