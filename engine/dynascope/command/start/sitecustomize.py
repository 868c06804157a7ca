"""Found by the interpreter that `dynascope run` starts, before the program's file: see `dynascope.command.program`."""

import sys

_before = frozenset(sys.modules)

from dynascope.command.program import begin  # noqa: E402 (what was loaded before us is of interest)

begin(_before)
