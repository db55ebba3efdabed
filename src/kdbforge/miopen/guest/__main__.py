"""Start of the child: makes this folder a package of the toolchain's Python, and serves.

Usage: `__main__.py REQUEST.json`; events go to the original stdout, one JSON object a line.
"""

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
importlib.import_module("guest.serve").main()
