"""`np.interp`: between places whose order is known.

    np.interp(x, np.arange(0, 5), a)       searchsorted, then a line between the two neighbours

NumPy looks for a place by halving, from where it found the last one: of places that do not rise it gives whatever lies there. So
they are to be the same at each call (`known_tensors`), and to rise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import equivalents, known_tensors
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.numpy_arrays import as_numpy, asked, converted, foreign, wrapped
from dynascope.capture.numpy_numbers import numpy
from dynascope.capture.values import Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def interpolated(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) != 3 or keywords:
        raise foreign(machine)
    like = asked(machine, called, *[as_numpy(machine, each) for each in arguments])
    wanted, places, heights = (converted(machine, each, numpy.dtype(float)) for each in arguments)
    known = known_tensors.elements_of(machine, places)
    if known is None or known.numel() < 2 or not bool((known.diff() > 0).all()):
        raise foreign(machine, "it does not say in which order its places are")
    return wrapped(machine, machine.finish(equivalents.enter(machine, between, [wanted, places, heights])), like)


def between(wanted, places, heights):
    """NumPy's steps in their order: they round alike, and an infinite height makes NaN only where NumPy's does."""
    left = (torch.searchsorted(places, wanted, right=True) - 1).clamp(0, places.numel() - 2)
    first, second, low, high = places[left], places[left + 1], heights[left], heights[left + 1]
    slope = (high - low) / (second - first)
    found = slope * (wanted - first) + low
    found = torch.where(found.isnan(), slope * (wanted - second) + high, found)
    found = torch.where(found.isnan() & (low == high), low, found)
    found = torch.where(wanted == first, low, found)
    found = torch.where(wanted >= places[-1], heights[-1], found)
    found = torch.where(wanted < places[0], heights[0], found)
    return torch.where(wanted.isnan(), wanted, found)
