"""The tests of this folder share `harness` and `programs`."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
