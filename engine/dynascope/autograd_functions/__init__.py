"""What graphs hold of autograd: a custom function of the program with both of its passes, and differentiation itself.

Capture makes them, the recording of programs looks inside, and they know neither.
"""

from dynascope.autograd_functions.custom_function import CustomFunction, names_read
from dynascope.autograd_functions.differentiation import gradients
from dynascope.autograd_functions.freed import with_freed_history
from dynascope.autograd_functions.names_read import NameRead, OwnBackward
from dynascope.autograd_functions.reached_hooks import (
    hooks_from_now_on,
    keep_to_passes,
    register_on_function,
    register_on_function_before,
    register_where_reached,
)
from dynascope.autograd_functions.repetitions import Scanned
from dynascope.autograd_functions.standing_at import Place
from dynascope.autograd_functions.transforms import Transformed
from dynascope.autograd_functions.written import Written

HOLDS_GRAPH = (CustomFunction, Transformed, Scanned)
"""Targets of nodes that hold a graph, `forward`, which runs when they are called."""
__all__ = [
    "HOLDS_GRAPH",
    "CustomFunction",
    "NameRead",
    "OwnBackward",
    "Place",
    "Scanned",
    "Transformed",
    "Written",
    "gradients",
    "hooks_from_now_on",
    "keep_to_passes",
    "names_read",
    "register_on_function",
    "register_on_function_before",
    "register_where_reached",
    "with_freed_history",
]
