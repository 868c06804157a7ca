"""Locals, cells, globals, attributes and imports."""

from __future__ import annotations

import builtins
import importlib
import sys
from typing import Any

from dynascope.capture.calls.objects import super_of
from dynascope.capture.calls.python import DEBUGGERS
from dynascope.capture.calls.registry import meaning
from dynascope.capture.frames import Frame
from dynascope.capture.lifetimes import ends_here
from dynascope.capture.machine import Machine, operation
from dynascope.capture.places import is_library, is_torch_name, is_within
from dynascope.capture.protocols import attribute_changes, attributes
from dynascope.capture.reasons import DebuggerCall, FinaliserRuns, FirstImport, ForeignCall, ProgramRaises
from dynascope.capture.signals import Break, Refusal
from dynascope.capture.values import NULL, CellValue, ConstantValue, LazyValue, Value
from dynascope.capture.world import note
from dynascope.frame.instructions import Instruction
from dynascope.frame.resume import resume_origin
from dynascope.frame.versions import RUNNING


@operation("LOAD_CONST")
def load_const(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    from dynascope.capture.calls.pure import value_of

    constant = instruction.value
    return value_of(constant) if type(constant) in (tuple, frozenset, slice) else ConstantValue(constant)


@operation("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_CLOSURE")
def load_fast(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    value = frame.slots.get(instruction.value)
    if value is None:
        # Before 3.12 the instruction that never breaks is also the one that raises here.
        frame.remember(machine.journal.mark())
        raise machine.throw(
            UnboundLocalError,
            f"cannot access local variable {instruction.value!r} where it is not associated with a value",
        )
    return value


@operation("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    return frame.slots.pop(instruction.value, NULL)


@operation("STORE_FAST")
def store_fast(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    if ends_here(machine.frames, instruction.value):
        frame.remember(machine.journal.mark())
        raise Break(FinaliserRuns(f"{instruction.value} = ..."))
    value = frame.pop_unseen()
    if value is NULL:
        frame.slots.pop(instruction.value, None)
    else:
        frame.slots[instruction.value] = value


@operation("DELETE_FAST")
def delete_fast(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    if instruction.value not in frame.slots:
        raise machine.throw(
            UnboundLocalError,
            f"cannot access local variable {instruction.value!r} where it is not associated with a value",
        )
    if ends_here(machine.frames, instruction.value):
        raise Break(FinaliserRuns(f"del {instruction.value}"))
    del frame.slots[instruction.value]


@operation("MAKE_CELL")
def make_cell(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    name = instruction.value
    frame.slots[name] = CellValue(frame.slots.get(name), name)


@operation("LOAD_DEREF")
def load_deref(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    cell = frame.slots[instruction.value]
    content = cell.content
    if content is None:
        if cell.source is not None and not cell.changed:
            # Nothing guards that an outside variable stays unbound.
            raise Break(ProgramRaises("NameError", machine.expression()))
        origin = resume_origin(frame.code)
        free = instruction.value in (origin.root if origin else frame.code).co_freevars
        kind = NameError if free else UnboundLocalError
        text = "free variable" if free else "local variable"
        where = " in enclosing scope" if free else ""
        raise machine.throw(
            kind, f"cannot access {text} {instruction.value!r} where it is not associated with a value{where}"
        )
    note_bound(machine, content)
    return content


def note_bound(machine: Machine, value: Value) -> None:
    """That the name is bound is guarded, as of other places."""
    if value.__class__ is LazyValue:
        machine.outside.found.append(value)


@operation("STORE_DEREF")
def store_deref(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    cell = frame.slots[instruction.value]
    machine.journal.set(cell, "content", frame.pop_unseen())
    machine.write(cell)


@operation("DELETE_DEREF")
def delete_deref(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    cell = frame.slots[instruction.value]
    if cell.content is None:
        raise Break(ForeignCall("del", "the variable is not bound"))
    machine.realize(cell.content)  # so that a guard says that it is bound
    machine.journal.set(cell, "content", None)
    machine.write(cell)


@operation("LOAD_GLOBAL")
def load_global(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    value = machine.load_global(frame, instruction.value)
    if value is None:
        # Nothing guards that a name stays undefined: Python runs the line that handles it, too.
        raise Break(ProgramRaises("NameError", machine.expression(), f"name {instruction.value!r} is not defined"))
    note_bound(machine, value)
    if instruction.pushes_null:
        push_callee(frame, value)
        return None
    return value


def push_callee(frame: Frame, value: Value) -> None:
    """A callable and the NULL that its call takes."""
    for item in (value, NULL) if RUNNING.null_above_callable else (NULL, value):
        frame.push(item)


@operation("STORE_GLOBAL")
def store_global(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    key = (id(frame.globals), instruction.value)
    machine.journal.set_item(machine.global_writes, key, (frame.globals, frame.pop_unseen()))


@operation("LOAD_ATTR")
def load_attribute(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    found = attributes.get(machine, frame.pop_unseen(), instruction.value)
    if not instruction.is_method:
        return found
    push_callee(frame, machine.finish(found))
    return None


@operation("STORE_ATTR")
def store_attribute(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    owner = frame.pop()
    value = frame.pop_unseen()
    return dropped(attribute_changes.set(machine, owner, instruction.value, value))


@operation("DELETE_ATTR")
def delete_attribute(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    return dropped(attribute_changes.delete(machine, frame.pop(), instruction.value))


def dropped(result: Any) -> Any:
    """A frame whose result nobody wants, or nothing."""
    if result.__class__ is not Frame:
        return None
    result.delivery = "drop"
    return result


@operation("LOAD_SUPER_ATTR")
def load_super_attribute(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    instance, cls, function = frame.pop(), frame.pop(), frame.pop()
    if not (isinstance(function, ConstantValue) and function.value is super):
        raise Break(ForeignCall("super"))
    found = attributes.get(machine, super_of(machine, machine.realize(cls), machine.realize(instance)), instruction.value)
    if not instruction.is_method:
        return found
    push_callee(frame, machine.finish(found))
    return None


@operation("IMPORT_NAME")
def import_name(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    """A module already imported is found in `sys.modules`; importing one runs foreign code."""
    names, level = machine.realize(frame.pop()), frame.pop()
    package = frame.globals.get("__package__") or frame.globals.get("__name__", "").rpartition(".")[0]
    name = instruction.value
    if level.value:
        base = package.rsplit(".", level.value - 1)[0] if level.value > 1 else package
        name = f"{base}.{name}" if name else base
    note(vars(builtins), "__import__", builtins.__import__)
    if name not in sys.modules and is_torchs_own(name, frame.globals):
        try:
            importlib.import_module(name)
        except Exception:
            raise Break(FirstImport(f"import {name}")) from None
    return imported(machine, name, whole=bool(level.value) or not is_none(names))


def is_torchs_own(name: str, globals: dict[str, Any]) -> bool:
    """Whether a function of torch's loads a part of torch at its first call (`torch.save`), which the program does not notice. What only
    torch's compiler needs takes seconds, and may never be asked for."""
    by_torch = is_torch_name(str(globals.get("__name__"))) and is_library(globals)
    return by_torch and is_torch_name(name) and not is_within(name, OF_TORCHS_COMPILER)


OF_TORCHS_COMPILER = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch._export", "torch.export", "torch.onnx")
OF_TORCHS_COMPILER += ("torch.fx.experimental", "torch.fx.passes", "torch.compiler")


def imported(machine: Machine, name: str, *, whole: bool) -> Value:
    """The module, or the package that it lies in at the top."""
    if name in DEBUGGERS:
        raise Refusal(DebuggerCall(name))
    if name not in sys.modules:
        raise Break(FirstImport(f"import {name}"))
    top = name if whole else name.partition(".")[0]
    note(sys.modules, name, sys.modules[name])
    note(sys.modules, top, sys.modules[top])
    return machine.outside.fixed(sys.modules[top], top)


@meaning(__import__)
def import_call(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """`__import__("numpy")`. Where it is told more than a name, Python imports."""
    name = machine.object_of(arguments[0]) if len(arguments) == 1 and not keywords else None
    if type(name) is not str:
        raise Break(ForeignCall("__import__", "it is told more than a module's name"))
    return imported(machine, name, whole=False)


def is_none(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is None


@operation("IMPORT_FROM")
def import_from(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    module = machine.realize(frame.stack[-1])
    found = attributes.find(machine, module, instruction.value)
    if found is None:
        submodule = sys.modules.get(f"{module.value.__name__}.{instruction.value}")
        if submodule is None:
            raise machine.throw(ImportError, f"cannot import name {instruction.value!r} from {module.value.__name__!r}")
        note(sys.modules, f"{module.value.__name__}.{instruction.value}", submodule)
        return machine.outside.fixed(submodule, instruction.value)
    return found
