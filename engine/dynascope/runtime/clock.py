"""How stages are timed and announced."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

StageClock = Callable[[str], AbstractContextManager[Any]]
"""Entered around a stage, with its name."""
