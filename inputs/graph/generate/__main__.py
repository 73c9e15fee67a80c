"""`python -m inputs.graph.generate [FOLDER]`"""

from __future__ import annotations

import sys
from pathlib import Path

from . import write

write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1])
