"""Classes in C whose objects know nothing but themselves: what was made from constants, and asked with constants, is the same at each call.

`calls/known_objects.py` calls their methods while a program is followed; compiled code makes one that leaves of its state, as Python
pickles it."""

from __future__ import annotations

import io
import pickle
import random
from typing import Any

from dynascope.capture.numpy_numbers import IS_THERE, numpy

NUMPYS_GENERATORS = (numpy.random.RandomState, numpy.random.Generator) if IS_THERE else ()
STREAMS = (io.StringIO, io.BytesIO)
HAVE_STATES = (random.Random, *STREAMS, *NUMPYS_GENERATORS)


def state_of(thing: Any) -> bytes:
    """Of a closed stream nothing is left but its class."""
    return pickle.dumps(type(thing) if type(thing) in STREAMS and thing.closed else thing)


def with_state(state: bytes) -> Any:
    thing = pickle.loads(state)
    if not isinstance(thing, type):
        return thing
    closed = thing()
    closed.close()
    return closed
