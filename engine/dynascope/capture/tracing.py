"""What capture did, instruction by instruction: the symbolic stack before each, and what it added to graph and guards.

    trace = Trace(machine)          machine.step is noted from now on
    11:13-21   LOAD_ATTR fc (method)     [self]
                   guard    type(self.fc) is Linear
    trace.finished(reason)          why capture ended there, where it did not reach the end
"""

from __future__ import annotations

from typing import Any

import torch

from dynascope.capture.frames import Frame
from dynascope.capture.machine import Machine
from dynascope.capture.values import (
    NULL,
    ConstantValue,
    DictValue,
    FunctionValue,
    LazyValue,
    ListValue,
    MethodValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
)
from dynascope.frame.printing import operand
from dynascope.frame.stack_names import in_users_words
from dynascope.meta_kernels.type_names import type_of

LONGEST = 32
DEEPEST_SHOWN = 8


class Trace:
    """The inside of libraries is counted, and what it added stands below the line that called it."""

    def __init__(self, machine: Machine) -> None:
        self.lines: list[str] = []
        self._machine, self._step = machine, machine.step
        self._nodes, self._guards, self._hidden = 0, 0, 0
        self._frame: Frame | None = None
        machine.step = self.step  # type: ignore[method-assign]

    def step(self, frame: Frame) -> Any:
        if frame is self._machine.frames[0] or frame.is_own:
            self._note_effects()
            self._note(frame)
        else:
            self._hidden += 1
        return self._step(frame)

    def finished(self, reason: str = "") -> str:
        self._note_effects()
        self.lines += [f"{'':16}ends here: {reason}"] if reason else []
        return "\n".join(self.lines)

    def _note(self, frame: Frame) -> None:
        instruction = frame.program.instructions[frame.next]
        if frame is not self._frame:
            self._frame = frame
            code = frame.program.code
            self.lines.append(f"{self._indent()}in {code.co_qualname}, {code.co_filename}:{instruction.line or code.co_firstlineno}")
        position = instruction.position
        columns = f"{position.column}-{position.end_column}" if position and position.column is not None else ""
        place = f"{instruction.line or ''}:{columns}".rstrip(":")
        target = instruction.target
        where = operand(instruction, {}) if target is None else f"to line {target.line or '?'}"
        words = f"{instruction.operation} {where}".rstrip()
        shown = ", ".join(map(described, frame.stack[-DEEPEST_SHOWN:]))
        more = "..., " if len(frame.stack) > DEEPEST_SHOWN else ""
        self.lines.append(f"{self._indent()}{place:<12} {words:<36} [{more}{shown}]")

    def _indent(self) -> str:
        return "    " * sum(frame.is_own for frame in self._machine.frames[1:])

    def _note_effects(self) -> None:
        count = len(self._machine.graph.graph.nodes)
        if count == self._nodes and self._machine.guards.count == self._guards and not self._hidden:
            return
        found, nodes, guards = [], list(self._machine.graph.graph.nodes), self._machine.guards.known()
        self._nodes = min(self._nodes, count)  # what a break undid is gone
        for node in nodes[self._nodes :]:
            if node.op != "placeholder":
                found.append(f"graph    {_words_of(node)}")
            else:
                found.append(f"input    {node.name}{_type(node.meta.get('example_value'))}")
        code = self._machine.frames[0].program.code if self._machine.frames else None
        for guard in guards[self._guards :]:
            words = guard.describe()
            found.append(f"guard    {in_users_words(words, code) if code is not None else words}")
        if self._hidden:
            counted = "1 instruction" if self._hidden == 1 else f"{self._hidden} instructions"
            self.lines.append(f"{self._indent()}{'':16}{counted} of libraries")
        self.lines += [f"{self._indent()}{'':16}{words}" for words in found]
        self._nodes, self._guards, self._hidden = len(nodes), len(guards), 0


def _words_of(node: torch.fx.Node) -> str:
    if node.op == "output":
        return f"return {node.args[0]}"
    texts = [*map(str, node.args), *(f"{name}={value}" for name, value in node.kwargs.items())]
    if node.op == "call_method":
        return f"{node.name} = {texts[0]}.{node.target}({', '.join(texts[1:])})"
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    return f"{node.name} = {name}({', '.join(texts)})"


def described(value: Value) -> str:
    """One value of the symbolic stack, short."""
    if value is NULL:
        return "NULL"
    if isinstance(value, TensorValue):
        return f"{value.node.name}{_type(value.example)}"
    if isinstance(value, SymbolicNumber):
        return f"{value.node.name}: {value.python_type.__name__}"
    if isinstance(value, ConstantValue):
        name = getattr(value.value, "__qualname__", None) or getattr(value.value, "__name__", None)
        return _short(_in_torchs_words(name) if isinstance(name, str) else repr(value.value))
    if isinstance(value, LazyValue):
        return _short(value.source.expression())
    if isinstance(value, ListValue) and value.is_unread and value.source is not None:
        return _short(value.source.expression())  # asking for its items would be a look into it, which is guarded
    if isinstance(value, (ListValue, TupleValue, DictValue)):
        return f"{value.python_type.__name__} of {len(value.items)}"
    if isinstance(value, FunctionValue):
        return _short(value.name)
    if isinstance(value, MethodValue):
        owner = value.instance.node.name if isinstance(value.instance, TensorValue) else described(value.instance)
        return _short(f"{owner}.{described(value.function).rpartition('.')[2]}")
    return _short(value.source.expression()) if value.source is not None else value.python_type.__name__


def _in_torchs_words(name: str) -> str:
    """`torch.abs`: its functions in C say the class that torch keeps them in."""
    return name.replace("_VariableFunctionsClass.", "torch.").replace("TensorBase.", "Tensor.")


def _type(example: Any) -> str:
    if not isinstance(example, torch.Tensor):
        return ""
    return f": {type_of(example)}"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
