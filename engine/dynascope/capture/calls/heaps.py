"""`heapq`: what its functions in C do, by the functions in Python beneath them, which the module has too.

    heapq.heappush(queue, (cost, node))      appended, and moved up by comparisons that are the program's own

`nsmallest`, `nlargest` and `merge` are Python, and call these.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynascope.capture.calls import equivalents
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def push(heap, item, /):
    heap.append(item)
    heapq._siftdown(heap, 0, len(heap) - 1)


def pop(heap, /):
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    if not heap:
        return last
    return replace(heap, last)


def replace(heap, item, /):
    return exchanged(heap, item, heapq._siftup)


def exchanged(heap, item, sift):
    if not heap:
        raise IndexError("index out of range")
    first = heap[0]
    heap[0] = item
    sift(heap, 0)
    return first


def push_and_pop(heap, item, /):
    return replace(heap, item) if heap and heap[0] < item else item


def order(heap, /):
    for at in reversed(range(len(heap) // 2)):
        heapq._siftup(heap, at)


def replace_greatest(heap, item, /):
    return exchanged(heap, item, heapq._siftup_max)


def order_by_greatest(heap, /):
    for at in reversed(range(len(heap) // 2)):
        heapq._siftup_max(heap, at)


def _by_python(name: str, python: Callable[..., Any]) -> None:
    function = getattr(heapq, name, None)
    if function is None:
        return

    @meaning(function)
    def call(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        if keywords or not arguments or machine.realize(arguments[0]).python_type is not list:
            raise Break(ForeignCall(f"heapq.{name}", "its heap is no plain list"))
        return equivalents.enter(machine, python, arguments)


for _name, _python in (
    ("heappush", push),
    ("heappop", pop),
    ("heapreplace", replace),
    ("heappushpop", push_and_pop),
    ("heapify", order),
    ("_heapreplace_max", replace_greatest),
    ("_heapify_max", order_by_greatest),
    ("heapreplace_max", replace_greatest),
    ("heapify_max", order_by_greatest),
):
    _by_python(_name, _python)
