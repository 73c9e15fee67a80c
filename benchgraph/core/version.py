"""The version of the package, the folder it was loaded from, and when."""

import time
from pathlib import Path

__version__ = "0.1.0"
ROOT = Path(__file__).absolute().parent.parent
LOADED_NS = time.time_ns()  # no file of the package that matters to code generation was read before (runtime/source_digest.py)
