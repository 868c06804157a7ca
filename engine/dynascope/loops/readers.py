"""What reads at an index, as far as eager's errors tell."""

from __future__ import annotations

from typing import Literal

Reader = Literal["index", "lookup", "columns", "gather", "target", "classes"]
"""`x[i]`, embedding and index_select, index_select along dimension 1, gather, the classes of a loss, one_hot."""
READERS: tuple[Reader, ...] = ("index", "lookup", "columns", "gather", "target", "classes")
"""In the order of `raise_index_error` in runtime/launch.c."""
