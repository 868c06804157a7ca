"""What CPython calls a class in the words of its errors.

    'collections.deque' object has no attribute 'size'      a class in C says its module, where it was declared so
    'Box' object has no attribute 'size'                    one of a class statement does not
"""

from __future__ import annotations

import ctypes

_PLACE_OF_NAME = object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t)
"""`tp_name` is the first field behind the head of an object with a size; no attribute of a class says it."""


def name_in_errors(cls: type) -> str:
    return ctypes.c_char_p.from_address(id(cls) + _PLACE_OF_NAME).value.decode()  # type: ignore[union-attr]
