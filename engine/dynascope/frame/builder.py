"""Writing new code without thinking of the version.

    builder = CodeBuilder(CodeShape.of(code))
    builder.prologue()
    builder.load_function(graph)            # the callable, and the NULL that a call wants, where it wants it
    builder.load_local("x")
    builder.call(1)
    builder.return_value()
    specialised = builder.build()

`with builder.callee(): ...` does the same for a callable loaded in any other way. Emitted instructions take the
builder's current `position` (`with builder.at(position)`) and `handler` (`with builder.protected_by(handler)`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any

from dynascope.frame.assembler import assemble
from dynascope.frame.instructions import Handler, Instruction, Position
from dynascope.frame.operands import IS_METHOD, PUSHES_NULL
from dynascope.frame.shape import GENERATOR_FLAGS, CodeShape
from dynascope.frame.versions import OPCODE, RUNNING


class CodeBuilder:
    """Appends instructions to `instructions`; `build` assembles them in `shape`."""

    def __init__(self, shape: CodeShape) -> None:
        self.shape = shape
        self.instructions: list[Instruction] = []
        self.position: Position | None = Position(shape.first_line, shape.first_line)
        self.handler: Handler | None = None

    def build(self) -> CodeType:
        return assemble(self.instructions, self.shape)

    # -- anything

    def emit(self, operation: str, argument: int | None = None, value: Any = None, bits: int = 0) -> Instruction:
        """One instruction as `decode` would give it, at the current position and handler."""
        instruction = Instruction(operation, argument, value, None, self.position, self.handler, bits=bits)
        self.instructions.append(instruction)
        return instruction

    def extend(self, instructions: Iterable[Instruction]) -> None:
        """Instructions as they are, with their own positions, targets and handlers."""
        self.instructions.extend(instructions)

    @contextmanager
    def at(self, position: Position | None) -> Iterator[None]:
        """What is emitted inside comes from this place of the source."""
        previous, self.position = self.position, position
        try:
            yield
        finally:
            self.position = previous

    @contextmanager
    def protected_by(self, handler: Handler | None) -> Iterator[None]:
        """Exceptions of what is emitted inside go to this handler."""
        previous, self.handler = self.handler, handler
        try:
            yield
        finally:
            self.handler = previous

    # -- start

    def prologue(self) -> None:
        """What every function starts with: free variables, cells, the generator object, RESUME."""
        if self.shape.free_variables:
            self.emit("COPY_FREE_VARS")
        for name in self.shape.cell_variables:
            self.emit("MAKE_CELL", value=name)
        if self.shape.flags & GENERATOR_FLAGS:
            self.emit("RETURN_GENERATOR")
            self.pop()
        self.emit("RESUME", 0)

    # -- loads and stores

    def load_constant(self, value: Any) -> None:
        """Any object. An unhashable one makes `hash(code)` fail, which few tools ask for."""
        self.emit("LOAD_CONST", value=value)

    def load_local(self, name: str) -> None:
        """The value of a local that is bound here."""
        self.emit("LOAD_FAST", value=name)

    def load_checked_local(self, name: str) -> None:
        """The value of a local that may be unbound here (UnboundLocalError)."""
        self.emit("LOAD_FAST_CHECK" if RUNNING.has_unchecked_loads else "LOAD_FAST", value=name)

    def take_local(self, name: str) -> None:
        """The value of a local, which becomes unbound: the frame keeps no reference."""
        if "LOAD_FAST_AND_CLEAR" in OPCODE:
            self.emit("LOAD_FAST_AND_CLEAR", value=name)
        else:
            self.load_local(name)
            self.delete_local(name)

    def store_local(self, name: str) -> None:
        self.emit("STORE_FAST", value=name)

    def delete_local(self, name: str) -> None:
        self.emit("DELETE_FAST", value=name)

    def load_cell(self, name: str) -> None:
        """What the cell of this name holds."""
        self.emit("LOAD_DEREF", value=name)

    def store_cell(self, name: str) -> None:
        self.emit("STORE_DEREF", value=name)

    def delete_cell(self, name: str) -> None:
        self.emit("DELETE_DEREF", value=name)

    def load_cell_itself(self, name: str) -> None:
        """The cell, for the closure of another function."""
        self.emit("LOAD_CLOSURE" if "LOAD_CLOSURE" in OPCODE else "LOAD_FAST", value=name)

    def make_cell(self, name: str) -> None:
        """Put a new cell with the slot's value into the slot."""
        self.emit("MAKE_CELL", value=name)

    def load_global(self, name: str) -> None:
        self.emit("LOAD_GLOBAL", value=name)

    def store_global(self, name: str) -> None:
        self.emit("STORE_GLOBAL", value=name)

    def delete_global(self, name: str) -> None:
        self.emit("DELETE_GLOBAL", value=name)

    def load_attribute(self, name: str) -> None:
        """object -> object.name"""
        self.emit("LOAD_ATTR", value=name)

    def store_attribute(self, name: str) -> None:
        """value, object ->"""
        self.emit("STORE_ATTR", value=name)

    def delete_attribute(self, name: str) -> None:
        """object ->"""
        self.emit("DELETE_ATTR", value=name)

    def load_dictionary_attribute(self, name: str) -> None:
        """object -> object.__dict__[name]. The object's type must have the plain `__getattribute__`."""
        self.load_attribute("__dict__")
        self.load_item(name)

    def load_item(self, key: Any) -> None:
        """object -> object[key], the key a constant"""
        self.load_constant(key)
        self.emit("BINARY_SUBSCR")

    def load_subscript(self) -> None:
        """object, key -> object[key]"""
        self.emit("BINARY_SUBSCR")

    def store_subscript(self) -> None:
        """value, object, key ->"""
        self.emit("STORE_SUBSCR")

    def delete_subscript(self) -> None:
        """object, key ->"""
        self.emit("DELETE_SUBSCR")

    # -- calls

    @contextmanager
    def callee(self) -> Iterator[None]:
        """Inside, load the callable; arguments and `call` follow."""
        if not RUNNING.null_above_callable:
            self.push_null()
        yield
        if RUNNING.null_above_callable:
            self.push_null()

    def load_function(self, function: Any) -> None:
        """A constant callable that is about to be called."""
        with self.callee():
            self.load_constant(function)

    def load_global_function(self, name: str) -> None:
        """A global that is about to be called."""
        self.emit("LOAD_GLOBAL", value=name, bits=PUSHES_NULL)

    def load_method(self, name: str) -> None:
        """object -> what a call of `object.name` wants"""
        self.emit("LOAD_ATTR", value=name, bits=IS_METHOD)

    def call(self, argument_count: int, keyword_names: Sequence[str] = ()) -> None:
        """callable, arguments -> result. `argument_count` counts the last `len(keyword_names)` too."""
        self.emit("CALL", argument_count).keyword_names = tuple(keyword_names)

    def call_unpacked(self) -> None:
        """callable, tuple -> callable(*tuple)"""
        if RUNNING.keywords_or_null:
            self.push_null()
        self.emit("CALL_FUNCTION_EX", 1 if RUNNING.keywords_or_null else 0)

    def call_unpacked_with_keywords(self) -> None:
        """callable, tuple, dictionary -> callable(*tuple, **dictionary)"""
        self.emit("CALL_FUNCTION_EX", 1)

    def call_below(self, argument_count: int) -> None:
        """value, arguments -> value(arguments), for a callable pushed as any other value, without `callee`."""
        self.build_tuple(argument_count)
        self.push_null()
        if not RUNNING.null_above_callable:
            self.swap(3)
        self.swap(2)
        self.call_unpacked()

    # -- building and taking apart

    def build_tuple(self, count: int) -> None:
        self.emit("BUILD_TUPLE", count)

    def build_list(self, count: int) -> None:
        self.emit("BUILD_LIST", count)

    def build_set(self, count: int) -> None:
        self.emit("BUILD_SET", count)

    def build_map(self, count: int) -> None:
        """key, value, key, value, ... -> dictionary of `count` items"""
        self.emit("BUILD_MAP", count)

    def build_slice(self, count: int) -> None:
        """start, stop[, step] -> slice, `count` is 2 or 3"""
        self.emit("BUILD_SLICE", count)

    def build_string(self, count: int) -> None:
        self.emit("BUILD_STRING", count)

    def extend_list(self) -> None:
        """list, iterable -> list"""
        self.emit("LIST_EXTEND", 1)

    def update_map(self) -> None:
        """dictionary, mapping -> dictionary"""
        self.emit("DICT_UPDATE", 1)

    def list_to_tuple(self) -> None:
        if "LIST_TO_TUPLE" in OPCODE:
            self.emit("LIST_TO_TUPLE")
        else:
            self.emit("CALL_INTRINSIC_1", value="INTRINSIC_LIST_TO_TUPLE")

    def unpack(self, count: int) -> None:
        """sequence -> its items, the first on top"""
        self.emit("UNPACK_SEQUENCE", count)

    # -- operators

    def binary(self, operator: str) -> None:
        """left, right -> result; `operator` as in the source: "+", "@", "+=" """
        self.emit("BINARY_OP", value=operator)

    def compare(self, operator: str) -> None:
        self.emit("COMPARE_OP", value=operator)

    def is_same(self) -> None:
        """left, right -> left is right"""
        self.emit("IS_OP", value="is")

    def contains(self) -> None:
        """item, container -> item in container"""
        self.emit("CONTAINS_OP", value="in")

    def negate(self) -> None:
        self.emit("UNARY_NEGATIVE")

    def logical_not(self) -> None:
        if RUNNING.jumps_need_bool:
            self.emit("TO_BOOL")
        self.emit("UNARY_NOT")

    # -- the stack

    def push_null(self) -> None:
        self.emit("PUSH_NULL")

    def pop(self) -> None:
        self.emit("POP_TOP")

    def swap(self, depth: int) -> None:
        """Exchange the top with the item `depth` from the top (2 is the next)."""
        if depth > 1:
            self.emit("SWAP", depth)

    def copy(self, depth: int) -> None:
        """Push the item `depth` from the top again (1 is the top)."""
        self.emit("COPY", depth)

    # -- control

    def label(self) -> Instruction:
        """A place to jump to, not yet placed."""
        return Instruction("LABEL")

    def place(self, label: Instruction) -> None:
        label.position, label.handler = self.position, self.handler
        self.instructions.append(label)

    def jump(self, target: Instruction) -> None:
        self.emit("JUMP_FORWARD").target = target

    def jump_if_true(self, target: Instruction) -> None:
        """value -> ; jumps if it is true (any object)"""
        self._jump_on_truth("POP_JUMP_IF_TRUE", target)

    def jump_if_false(self, target: Instruction) -> None:
        self._jump_on_truth("POP_JUMP_IF_FALSE", target)

    def jump_if_none(self, target: Instruction) -> None:
        self.emit("POP_JUMP_IF_NONE").target = target

    def jump_if_not_none(self, target: Instruction) -> None:
        self.emit("POP_JUMP_IF_NOT_NONE").target = target

    def _jump_on_truth(self, operation: str, target: Instruction) -> None:
        if RUNNING.jumps_need_bool:
            self.emit("TO_BOOL")
        self.emit(operation).target = target

    def get_iterator(self) -> None:
        """iterable -> iterator, in one slot"""
        if RUNNING.iterator_slots == 1:
            self.emit("GET_ITER")
            return
        self.load_constant(iter)
        self.push_null()
        for depth in (3, 2, 3, 2):
            self.swap(depth)
        self.call(1)

    def return_value(self) -> None:
        self.emit("RETURN_VALUE")

    def raise_(self, count: int = 1) -> None:
        """`raise` (0), `raise exception` (1), `raise exception from cause` (2)"""
        self.emit("RAISE_VARARGS", count)

    def make_function(self, code: CodeType) -> None:
        """-> function of this code with the frame's globals; its free variables are the frame's cells of those names"""
        if not code.co_freevars:
            self.load_constant(code)
            self.emit("MAKE_FUNCTION", value=() if not RUNNING.function_attributes_follow else None)
            return
        for name in code.co_freevars:
            self.load_cell_itself(name)
        self.build_tuple(len(code.co_freevars))
        self.load_constant(code)
        if RUNNING.function_attributes_follow:
            self.emit("MAKE_FUNCTION")
            self.emit("SET_FUNCTION_ATTRIBUTE", value="__closure__")
        else:
            self.emit("MAKE_FUNCTION", value=("__closure__",))


def plain_shape(name: str, parameters: Sequence[str], like: CodeShape) -> CodeShape:
    """A function of positional parameters only, in the file and at the line of another."""
    return CodeShape(
        name=name,
        qualified_name=f"{like.qualified_name.rpartition('.')[0]}.{name}".lstrip("."),
        filename=like.filename,
        first_line=like.first_line,
        flags=inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS | like.flags & inspect.CO_NESTED,
        positional_count=len(parameters),
        locals=tuple(parameters),
    )
