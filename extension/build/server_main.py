"""The bundled server's first file: `python -I dist/python/server` runs it with this folder on `sys.path`.

The engine lies beside the server, not within, because the server hands its folder to the user's program.
"""

import runpy
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "engine"))
runpy.run_module("dynascope_server", run_name="__main__", alter_sys=True)
