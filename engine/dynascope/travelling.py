"""How compiled functions and modules are pickled and copied: as what they were made of, and how it was compiled.

    pickle.loads(pickle.dumps(compiled))      compiled anew where it is loaded, with the same options

Machine code does not travel. A function is pickled by its name, as functions are; one without a name that leads to it (a
lambda, a local function) raises the PicklingError that the function itself raises.
"""

from __future__ import annotations

import copyreg
import functools
import sys
from collections.abc import Callable
from operator import attrgetter
from typing import Any


def make_picklable(options_of: Callable[[Any], Any], compile_again: Callable[[Any, Any], Any]) -> None:
    """Tell pickle about compiled functions. `compile_again(target, options)` must be found by its name."""
    from dynascope.frame import hook

    copyreg.pickle(hook.Dispatcher, functools.partial(_reduce, options_of, compile_again))


def _reduce(options_of: Callable[[Any], Any], compile_again: Callable[[Any, Any], Any], compiled: Any) -> Any:
    function = compiled.__wrapped__
    if _found_by_name(function) is compiled:
        # A decorator: the name leads to the compiled function itself.
        return function.__qualname__
    return compile_again, (function, options_of(compiled.table))


def _found_by_name(function: Any) -> Any:
    try:
        return attrgetter(function.__qualname__)(sys.modules[function.__module__])
    except (AttributeError, KeyError):
        return None
