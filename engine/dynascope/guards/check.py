"""Guards to a program that the frame hook runs: straight-line loads and checks, each place read once.

    self is a Block;  self.weight matches;  self.bias matches

    r0 = self.__dict__       CHECK_TYPE self Block
    r1 = r0["_parameters"]   LOAD_KEY, at the place in the dict where it was the last time
    r2 = r1["weight"]        LOAD_KEY, CHECK_TYPE, CHECK_TENSOR
    r3 = r1["bias"]          LOAD_KEY, CHECK_TYPE, CHECK_TENSOR

A source or predicate with no instruction of its own is asked in Python, with the same meaning.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dynascope.frame import hook
from dynascope.guards.guard import (
    MODULE_HOOKS,
    DictionaryKeysAre,
    Equals,
    Guard,
    HasNoAttribute,
    HasNoKey,
    IdentityIs,
    IsSameObject,
    IsThere,
    LengthIs,
    ModuleHasNoHooks,
    NotSameObject,
    Predicate,
    TruthIs,
    TypeIs,
)
from dynascope.guards.relation_guard import RelationHolds, relations_check
from dynascope.guards.relation_steps import relation_steps
from dynascope.guards.source import (
    AttributeSource,
    CellSource,
    ConstantSource,
    DictionaryAttributeSource,
    ExtentSource,
    FrameValues,
    GlobalSource,
    ItemSource,
    KeyedItemSource,
    KeySource,
    LocalSource,
    ModuleMemberSource,
    Source,
    TypeSource,
    VariableSource,
)
from dynascope.guards.state_calls import CallReturns
from dynascope.guards.world import WorldIs, world_operand

_SIMPLE_CONSTANTS = (int, float, complex, bool, str, bytes, type(None), type(...))


def compile_guards(guards: Iterable[Guard], code: types.CodeType) -> hook.GuardProgram:
    """The program that holds exactly when every guard does, for calls of functions with the parameters of `code`."""
    kept = tuple(guards)
    names = parameter_names(code)
    if not hook.is_native():
        return hook.GuardProgram(len(names), lambda values: all(guard.holds(values) for guard in kept))
    hook.use_values(FrameValues)
    writer = _ProgramWriter(names, code.co_freevars)
    relations = [guard for guard in kept if isinstance(guard.predicate, RelationHolds)]
    for guard in kept:
        if guard not in relations:
            writer.guard(guard)
    if relations:
        writer.relations(relations)
    return hook.GuardProgram(len(names), writer.finished())


def asked_again(program: hook.GuardProgram) -> Callable[[tuple, types.FunctionType], bool]:
    """Asks the guards with (values of the parameters, a function that has the free variables and globals)."""
    if hook.is_native():
        return program.holds

    def holds(parameters: tuple, function: types.FunctionType) -> bool:
        code = function.__code__
        named = dict(zip(parameter_names(code), parameters, strict=True))
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        contents = {name: cell.cell_contents for name, cell in cells.items() if not is_empty(cell)}
        return program.check(FrameValues(named, function.__globals__, function.__builtins__, contents, cells))

    return holds


def is_empty(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is cell
    except ValueError:
        return True


def loading_call(function: Callable, sources: Sequence[Source]) -> tuple[Callable, list[Source]]:
    """A callable that finds the arguments of `function` itself, given what they hang on: (callable, those places).

    (function, [self.fc.weight, self.fc.bias, x])  ->  (callable, [self, x])

    C loads a place in a few nanoseconds, bytecode in some twenty. Without the C hook all is as it was.
    """
    roots = list(dict.fromkeys(map(_root, sources)))
    extents = any(isinstance(source, ExtentSource) for source in sources)
    if not hook.is_native() or len(roots) == len(sources) or (extents and not _are_read_in_c()):
        return function, list(sources)
    writer = _ProgramWriter((), ())
    writer.places.update({root: slot for slot, root in enumerate(roots)})
    places = tuple(writer.place(source) for source in sources)
    return hook.LoadingCall(hook.GuardProgram(len(roots), writer.rows), places, function), roots


def _are_read_in_c() -> bool:
    """Sizes of tensors; only a program that has tensors asks."""
    from dynascope.guards.tensor_layout import tensor_layout

    return tensor_layout() is not None


def _root(source: Source) -> Source:
    """The place that a chain of dictionaries, module tables, lists and tuples starts from."""
    while isinstance(source, (DictionaryAttributeSource, ModuleMemberSource, ItemSource, ExtentSource)):
        source = source.base
    return source


def parameter_names(code: types.CodeType) -> tuple[str, ...]:
    """In the order of the slots: positional, keyword-only, *args, **kwargs."""
    variadic = bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + variadic]


class _ProgramWriter:
    """Rows written so far, and where the value of each place read so far lies: slot n, or register ~n."""

    def __init__(self, parameters: tuple[str, ...], free_variables: tuple[str, ...]):
        self.parameters = {name: slot for slot, name in enumerate(parameters)}
        self.free_variables = {name: index for index, name in enumerate(free_variables)}
        self.rows: list[tuple[int, int, int, Any]] = []
        self.places: dict[Source, int] = {}
        self.dictionaries: dict[int, int] = {}
        self.registers = 0
        self.written: set[tuple[str, int, int, int]] = set()
        self.absent: dict[int, tuple[int, list[str]]] = {}

    def guard(self, guard: Guard) -> None:
        sources = [self.place(source) for source in guard.sources]
        write = _CHECKS.get(type(guard.predicate)) or _more_checks().get(type(guard.predicate))
        if write is None or not write(self, guard.predicate, *sources):
            self.check_in_python(guard.predicate, *sources)

    def relations(self, guards: Sequence[Guard]) -> None:
        pairs = [(guard.predicate, guard.sources) for guard in guards]
        check, places = relations_check(pairs)
        in_python = (check, *map(self.place, places))
        steps = relation_steps(pairs, self.place)
        if steps is None:
            self.check("CHECK_PYTHON", 0, in_python)
        else:
            self.check("CHECK_RELATIONS", 0, (in_python, steps, _tensor_type()))

    def place(self, source: Source) -> int:
        """Where the value lies; the instructions that read it are written the first time."""
        if source not in self.places:
            load = _LOADS.get(type(source), _ProgramWriter.load_in_python)
            self.places[source] = load(self, source)
        return self.places[source]

    def load(self, operation: str, base: int = 0, number: int = 0, operand: Any = None) -> int:
        self.rows.append((hook.OPERATIONS[operation], base, number, operand))
        self.registers += 1
        return ~(self.registers - 1)

    def dictionary(self, place: int) -> int:
        """Where the `__dict__` of the object at a place lies."""
        if place not in self.dictionaries:
            self.dictionaries[place] = self.load("LOAD_DICTIONARY", place)
        return self.dictionaries[place]

    def load_in_python(self, source: Source) -> int:
        hook.use_values(FrameValues)
        return self.load("LOAD_PYTHON", operand=source.read)

    def check(self, operation: str, source: int, operand: Any = None, number: int = 0) -> bool:
        key = (operation, source, number, id(operand))
        if key not in self.written:
            self.written.add(key)
            self.rows.append((hook.OPERATIONS[operation], source, number, operand))
        return True

    def check_absent(self, source: int, key: Any) -> bool:
        """All names that are absent from one dictionary are asked for in one row, where the first of them was."""
        if type(key) is not str:
            return self.check("CHECK_NO_KEY", source, key)
        if source not in self.absent:
            self.absent[source] = (len(self.rows), [])
            self.rows.append((hook.OPERATIONS["CHECK_NO_KEYS"], source, 0, ()))
        names = self.absent[source][1]
        if key not in names:
            names.append(key)
        return True

    def finished(self) -> list[tuple[int, int, int, Any]]:
        for row, names in self.absent.values():
            operation, source, number, _ = self.rows[row]
            self.rows[row] = (operation, source, number, tuple(map(sys.intern, names)))
        return self.rows

    def check_in_python(self, predicate: Predicate, *sources: int) -> None:
        self.check("CHECK_PYTHON", 0, (predicate.holds, *sources))


def _local(writer: _ProgramWriter, source: LocalSource) -> int:
    slot = writer.parameters.get(source.name)
    return writer.load_in_python(source) if slot is None else slot


def _cell(writer: _ProgramWriter, source: CellSource) -> int:
    """A parameter that inner functions share is no cell yet when the frame is entered."""
    if source.name in writer.free_variables:
        return writer.load("LOAD_CELL", number=writer.free_variables[source.name])
    return _local(writer, LocalSource(source.name))


def _global(writer: _ProgramWriter, source: GlobalSource) -> int:
    if source.module is None:
        return writer.load("LOAD_GLOBAL", operand=sys.intern(source.name))
    return writer.load("LOAD_MODULE_GLOBAL", operand=(sys.intern(source.module), sys.intern(source.name)))


def _attribute(writer: _ProgramWriter, source: AttributeSource) -> int:
    if source.name == "__dict__":
        # The object's own dictionary, without asking its class how attributes are read.
        return writer.dictionary(writer.place(source.base))
    return writer.load("LOAD_ATTRIBUTE", writer.place(source.base), operand=sys.intern(source.name))


def _dictionary_attribute(writer: _ProgramWriter, source: DictionaryAttributeSource) -> int:
    return writer.load("LOAD_KEY", writer.dictionary(writer.place(source.base)), operand=sys.intern(source.name))


def _module_member(writer: _ProgramWriter, source: ModuleMemberSource) -> int:
    table = writer.place(DictionaryAttributeSource(source.base, source.table))
    return writer.load("LOAD_KEY", table, operand=sys.intern(source.name))


def _item(writer: _ProgramWriter, source: ItemSource) -> int:
    return writer.load("LOAD_ITEM", writer.place(source.base), operand=source.key)


def _keyed_item(writer: _ProgramWriter, source: KeyedItemSource) -> int:
    return writer.load("LOAD_KEYED", writer.place(source.base), writer.place(source.key))


def _key(writer: _ProgramWriter, source: KeySource) -> int:
    return writer.load("LOAD_NTH_KEY", writer.place(source.base), source.position, source.read)


def _type(writer: _ProgramWriter, source: TypeSource) -> int:
    return writer.load("LOAD_TYPE", writer.place(source.base))


def _extent(writer: _ProgramWriter, source: ExtentSource) -> int:
    operation = "LOAD_SIZE" if source.kind == "size" else "LOAD_STRIDE"
    return writer.load(operation, writer.place(source.base), source.dimension, _tensor_type())


def _tensor_type() -> Any:
    """None where the program has no tensors."""
    torch = sys.modules.get("torch")
    return None if torch is None else torch.Tensor


def _constant(writer: _ProgramWriter, source: ConstantSource) -> int:
    return writer.load("LOAD_CONSTANT", operand=source.value)


_LOADS: dict[type, Callable[[_ProgramWriter, Any], int]] = {
    LocalSource: _local,
    CellSource: _cell,
    VariableSource: lambda writer, source: writer.load("LOAD_VARIABLE", number=writer.free_variables[source.name]),
    GlobalSource: _global,
    AttributeSource: _attribute,
    DictionaryAttributeSource: _dictionary_attribute,
    ModuleMemberSource: _module_member,
    ItemSource: _item,
    KeyedItemSource: _keyed_item,
    KeySource: _key,
    TypeSource: _type,
    ConstantSource: _constant,
    ExtentSource: _extent,
}


def _identity_is(writer: _ProgramWriter, predicate: IdentityIs, source: int) -> bool:
    if isinstance(predicate.target, weakref.ref):
        return writer.check("CHECK_WEAK_IDENTITY", source, predicate.target)
    return writer.check("CHECK_IDENTITY", source, predicate.target())


def _equals(writer: _ProgramWriter, predicate: Equals, source: int) -> bool:
    return _is_simple(predicate.value) and writer.check("CHECK_EQUAL", source, predicate.value)


def _is_simple(value: Any) -> bool:
    """Whether C compares it as `constants_equal` does: by type, value and bits."""
    if type(value) in (tuple, list):
        return all(map(_is_simple, value))
    return type(value) in _SIMPLE_CONSTANTS or type(value).__module__ == "torch"


def _keys_are(writer: _ProgramWriter, predicate: DictionaryKeysAre, source: int) -> bool:
    return all(map(_is_simple, predicate.keys)) and writer.check("CHECK_KEYS", source, predicate.keys)


def _module_has_no_hooks(writer: _ProgramWriter, predicate: ModuleHasNoHooks, source: int) -> bool:
    return writer.check("CHECK_EMPTY_AT", writer.dictionary(source), MODULE_HOOKS)


_CHECKS: dict[type, Callable[..., bool]] = {
    TypeIs: lambda writer, predicate, source: writer.check("CHECK_TYPE", source, predicate.type),
    IdentityIs: _identity_is,
    Equals: _equals,
    TruthIs: lambda writer, predicate, source: writer.check("CHECK_TRUE" if predicate.truth else "CHECK_FALSE", source),
    LengthIs: lambda writer, predicate, source: writer.check("CHECK_LENGTH", source, number=predicate.length),
    DictionaryKeysAre: _keys_are,
    HasNoKey: lambda writer, predicate, source: writer.check_absent(source, predicate.key),
    HasNoAttribute: lambda writer, predicate, source: writer.check("CHECK_NO_ATTRIBUTE", source, predicate.name),
    # Reading the place is the check.
    IsThere: lambda writer, predicate, source: True,
    IsSameObject: lambda writer, predicate, first, second: writer.check("CHECK_SAME", first, number=second),
    NotSameObject: lambda writer, predicate, first, second: writer.check("CHECK_NOT_SAME", first, number=second),
    ModuleHasNoHooks: _module_has_no_hooks,
    CallReturns: lambda writer, predicate: writer.check("CHECK_CALL", 0, (predicate.function, predicate.value)),
    WorldIs: lambda writer, predicate: writer.check("CHECK_WORLD", 0, world_operand(predicate)),
}


def _more_checks() -> dict[type, Callable[..., bool]]:
    """The predicates about torch, once torch is there: programs without them are compiled without importing it."""
    if "torch" not in sys.modules:
        return {}
    from dynascope.guards.torch_checks import TORCH_CHECKS

    return TORCH_CHECKS
