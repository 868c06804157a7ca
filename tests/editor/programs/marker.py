"""Leaves a file behind when it runs: the test of Restricted Mode looks for it."""

from pathlib import Path

Path(__file__).with_suffix(".ran").touch()
