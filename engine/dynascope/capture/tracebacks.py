"""Tracebacks as if the program's own lines had run, where compiled code ran in their place.

    f at the line of its `def`                        f at `z = inner(x)`
      forward in <eval_with_key>: getitem = t[i]      inner at `return t[i]`

One of an error that leaves a compiled call, where the graph's own code raised, or an operator between its kernels, and the call could not
begin anew (`relocation`; frames of libraries between the program's are not there). And one of an exception that the program raised and
handled inside, and keeps (`note_passage`, `rebuilt`). Python makes no frames by request: for each line a small code object of that place
and name raises once. Such a frame has no locals.
"""

from __future__ import annotations

import ast
import functools
import linecache
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, TracebackType
from typing import TYPE_CHECKING, Any

from torch import fx

from dynascope.capture.places import is_engine
from dynascope.capture.values import InstanceValue, TracebackValue
from dynascope.report.span import STACKS, UserFrame, stacks_by_name

if TYPE_CHECKING:
    from dynascope.capture.frames import Frame
    from dynascope.capture.journal import Journal
    from dynascope.capture.signals import Raised

GENERATED = "<eval_with_key>"
"""What fx calls the files of its graphs' code."""


def relocation(graph: fx.Graph) -> Callable[[], None]:
    """`relocate()` changes the traceback of the error that is being handled."""
    stacks = stacks_by_name(graph.nodes)

    def relocate() -> None:
        error = sys.exc_info()[1]
        outermost = error.__traceback__ if error is not None else None
        inside = _of_graph(outermost)
        known = stacks if inside is None else inside.tb_frame.f_globals.get(STACKS, stacks)
        stack = known.get(_node_name(inside), ()) if inside is not None else ()
        if error is None or outermost is None or inside is None or not stack:
            return
        chain = inside.tb_next
        for frame in reversed(stack):
            chain = _entry(frame, outermost.tb_frame.f_globals.get("__name__"), chain)
        error.__traceback__ = chain

    return relocate


def note_passage(journal: Journal, raised: Raised, frame: Frame) -> None:
    """The program's exception came to the frame: as the interpreter does there, a place is put before those of its traceback."""
    value, is_again, raised.again = raised.value, raised.again, False
    if is_again or is_engine(frame.globals) or not isinstance(value, InstanceValue) or value.object is not None:
        return  # what stands for a function in C has no frame in Python
    before = value.attributes.get("__traceback__")
    known = before.entries if isinstance(before, TracebackValue) else ()
    here = (frame.user_frame(), frame.globals.get("__name__"))
    journal.set_item(value.attributes, "__traceback__", TracebackValue((here, *known)))


def rebuilt(entries: tuple[tuple[UserFrame, str | None], ...]) -> TracebackType | None:
    """The traceback of an exception that came through these places."""
    chain = None
    for frame, module in reversed(entries):
        chain = _entry(frame, module, chain)
    return chain


def _of_graph(entry: TracebackType | None) -> TracebackType | None:
    while entry is not None and not entry.tb_frame.f_code.co_filename.startswith(GENERATED) and STACKS not in entry.tb_frame.f_globals:
        entry = entry.tb_next
    return entry


def _node_name(entry: TracebackType) -> str:
    """`getitem = t[i];  t = i = None` computes the node `getitem`."""
    frame = entry.tb_frame
    text = linecache.getline(frame.f_code.co_filename, entry.tb_lineno, frame.f_globals)
    return text.partition("=")[0].partition(":")[0].strip()


def _entry(frame: UserFrame, module: Any, following: TracebackType | None) -> TracebackType:
    try:
        FunctionType(_raising(frame), {"__name__": module, "__builtins__": {}})()
    except ZeroDivisionError as error:
        assert error.__traceback__ is not None and error.__traceback__.tb_next is not None
        made = error.__traceback__.tb_next
        return TracebackType(following, made.tb_frame, made.tb_lasti, frame.span.line)
    raise AssertionError("a division by zero raises")


@functools.lru_cache(maxsize=1024)
def _raising(frame: UserFrame) -> CodeType:
    """Code of a function that begins where the frame's does, and whose every instruction stands at the frame's place."""
    span = frame.span
    tree = ast.parse("def function(): 1 // 0")
    definition = tree.body[0]
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr)):
            node.lineno, node.end_lineno = span.line, span.last_line
            node.col_offset = 0 if span.column is None else span.column
            node.end_col_offset = node.col_offset if span.end_column is None else span.end_column
    if 0 < frame.first_line < span.line:
        definition.lineno = frame.first_line
    (code,) = (each for each in compile(tree, span.file, "exec").co_consts if isinstance(each, CodeType))
    return code.replace(co_name=frame.function.rpartition(".")[2], co_qualname=frame.function)
