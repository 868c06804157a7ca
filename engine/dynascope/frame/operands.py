"""What an instruction's number means, in both directions: the operand rules.

    LOAD_GLOBAL 5      <->  value "print", bits 1 (push a NULL as well)
    BINARY_OP 13       <->  value "+="
    COMPARE_OP 40      <->  value "==" (the number depends on the version, the value does not)

`OperandReader` holds what a code object's numbers index; `OperandWriter` grows the same tables while code is assembled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.frame.shape import CodeShape
from dynascope.frame.versions import (
    BINARY_OPERATORS,
    COMPARISON_MASKS,
    COMPARISONS,
    INTRINSICS_1,
    INTRINSICS_2,
    OPCODE,
    RUNNING,
    SPECIAL_METHODS,
)

PUSHES_NULL = IS_METHOD = COERCES_TO_BOOL = 1
HAS_EXPLICIT_ARGUMENTS = 2  # of LOAD_SUPER_ATTR: the user wrote super(type, object)


class OperandReader:
    """The tables that a code object's operands index: constants, names, and slots (locals, cells, free variables)."""

    __slots__ = ("constants", "names", "slots")

    def __init__(self, code: CodeType) -> None:
        self.constants = code.co_consts
        self.names = code.co_names
        self.slots = CodeShape.of(code).slots()


class OperandWriter:
    """The tables of a code object being assembled. Constants are kept by identity, slots are fixed beforehand."""

    __slots__ = ("constants", "names", "slots", "_constant_index", "_name_index")

    def __init__(self, first_constant: object, slots: Iterable[str]) -> None:
        self.constants: list[Any] = [first_constant]
        self.names: list[str] = []
        self.slots = {name: index for index, name in enumerate(slots)}
        self._constant_index = {id(first_constant): 0}
        self._name_index: dict[str, int] = {}

    def constant(self, value: object) -> int:
        index = self._constant_index.setdefault(id(value), len(self.constants))
        if index == len(self.constants):
            self.constants.append(value)
        return index

    def name(self, name: str) -> int:
        index = self._name_index.setdefault(name, len(self.names))
        if index == len(self.names):
            self.names.append(name)
        return index


@dataclass(frozen=True, slots=True)
class OperandRule:
    """`read(tables, number) -> (value, bits)` and `write(tables, value, bits) -> number`."""

    read: Callable[[OperandReader, int], tuple[Any, int]]
    write: Callable[[OperandWriter, Any, int], int]


def _name_with_bits(width: int) -> OperandRule:
    mask = (1 << width) - 1
    return OperandRule(
        lambda tables, number: (tables.names[number >> width], number & mask),
        lambda tables, value, bits: tables.name(value) << width | bits,
    )


def _choice(values: tuple[Any, ...]) -> OperandRule:
    """One of a fixed row of values, by position."""
    index = {value: position for position, value in enumerate(values)}
    return OperandRule(lambda _, number: (values[number], 0), lambda _, value, __: index[value])


def _read_comparison(_: OperandReader, number: int) -> tuple[str, int]:
    coerces = COERCES_TO_BOOL if number & RUNNING.comparison_bool_bit else 0
    return COMPARISONS[number >> RUNNING.comparison_shift], coerces


def _write_comparison(_: OperandWriter, value: str, bits: int) -> int:
    number = COMPARISONS.index(value) << RUNNING.comparison_shift
    if RUNNING.comparison_has_mask:
        number |= COMPARISON_MASKS[value]
    return number | (RUNNING.comparison_bool_bit if bits & COERCES_TO_BOOL else 0)


def _attributes_of_mask(_: OperandReader, mask: int) -> tuple[tuple[str, ...], int]:
    return tuple(name for bit, name in enumerate(FUNCTION_ATTRIBUTES) if mask >> bit & 1), 0


def _mask_of_attributes(_: OperandWriter, names: tuple[str, ...], __: int) -> int:
    return sum(1 << FUNCTION_ATTRIBUTES.index(name) for name in names)


# In the order in which they lie on the stack, lowest first.
FUNCTION_ATTRIBUTES = ("__defaults__", "__kwdefaults__", "__annotations__", "__closure__", "__annotate__")
CONVERSIONS = (None, "str", "repr", "ascii")

CONSTANT = OperandRule(lambda tables, number: (tables.constants[number], 0), lambda tables, v, _: tables.constant(v))
PLAIN_NAME = _name_with_bits(0)
SLOT = OperandRule(lambda tables, number: (tables.slots[number], 0), lambda tables, v, _: tables.slots[v])
COMPARISON = OperandRule(_read_comparison, _write_comparison)
ATTRIBUTE_MASK = OperandRule(_attributes_of_mask, _mask_of_attributes)
ONE_ATTRIBUTE = OperandRule(
    lambda _, number: (FUNCTION_ATTRIBUTES[number.bit_length() - 1], 0),
    lambda _, value, __: 1 << FUNCTION_ATTRIBUTES.index(value),
)
# (conversion, whether a format specification lies on the stack)
FORMAT = OperandRule(
    lambda _, number: ((CONVERSIONS[number & 3], bool(number & 4)), 0),
    lambda _, value, __: CONVERSIONS.index(value[0]) | (4 if value[1] else 0),
)

NAME_OPERATIONS = (
    *("LOAD_NAME", "STORE_NAME", "DELETE_NAME", "STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL"),
    *("IMPORT_NAME", "IMPORT_FROM", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_METHOD"),
)
SLOT_OPERATIONS = (
    *("LOAD_FAST", "STORE_FAST", "DELETE_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "LOAD_CLOSURE", "MAKE_CELL"),
    *("LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "LOAD_FAST_BORROW"),
)

RULES: dict[str, OperandRule] = {
    "LOAD_CONST": CONSTANT,
    "RETURN_CONST": CONSTANT,
    "KW_NAMES": CONSTANT,
    **dict.fromkeys(NAME_OPERATIONS, PLAIN_NAME),
    **dict.fromkeys(SLOT_OPERATIONS, SLOT),
    "LOAD_GLOBAL": _name_with_bits(1),
    "LOAD_ATTR": _name_with_bits(1 if RUNNING.attribute_has_method_bit else 0),
    "LOAD_SUPER_ATTR": _name_with_bits(2),
    "IMPORT_NAME": _name_with_bits(2 if RUNNING.import_has_bits else 0),
    "COMPARE_OP": COMPARISON,
    "BINARY_OP": _choice(BINARY_OPERATORS),
    "IS_OP": _choice(("is", "is not")),
    "CONTAINS_OP": _choice(("in", "not in")),
    "CALL_INTRINSIC_1": _choice(INTRINSICS_1),
    "CALL_INTRINSIC_2": _choice(INTRINSICS_2),
    "FORMAT_VALUE": FORMAT,
    "CONVERT_VALUE": _choice(CONVERSIONS),
    "SET_FUNCTION_ATTRIBUTE": ONE_ATTRIBUTE,
    "LOAD_SPECIAL": _choice(SPECIAL_METHODS),
}
if not RUNNING.function_attributes_follow:
    RULES["MAKE_FUNCTION"] = ATTRIBUTE_MASK
RULES = {operation: rule for operation, rule in RULES.items() if operation in OPCODE}
