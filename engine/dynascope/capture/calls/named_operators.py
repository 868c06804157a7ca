"""Operators of containers that a program calls by their names: `list.__add__(a, b)`, `super().__eq__(other)`, `seen.__ior__(more)`.

What such a method gives is what the operator does with two containers of its kind; to others comparisons, and sets and dicts, answer
NotImplemented. What else such a call may come to is left to Python.
"""

from __future__ import annotations

import collections
import operator
from typing import TYPE_CHECKING, Any

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import MEANINGS
from dynascope.capture.protocols import operators
from dynascope.capture.protocols.contents import contents_of
from dynascope.capture.protocols.operators import COMPARING, COMPARISONS, OPERATORS, Operator, rule_of_containers
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import ConstantValue, DictValue, ListValue, SetValue, TupleValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

KINDS = {
    list: ListValue, tuple: TupleValue, set: SetValue, frozenset: SetValue,
    dict: DictValue, collections.OrderedDict: DictValue, collections.defaultdict: DictValue,
}  # fmt: skip


TAKE_OTHERS = (operator.mul, operator.imul, operator.iadd)
"""What a container does with something of another kind: it is repeated, or a list is extended."""
BASES = {ListValue: list, TupleValue: tuple, SetValue: (set, frozenset), DictValue: dict}


def _named(op: Operator, name: str, kind: type) -> Any:
    def run(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        given = [machine.realize(each) for each in arguments]
        sides = [contents_of(machine, each) or each for each in given]
        found = None
        if len(sides) == 2 and not keywords and isinstance(sides[0], kind):
            is_other = not issubclass(given[1].python_type, BASES[kind])
            if is_other and (op.method in COMPARING or kind is SetValue or (kind is DictValue and op.in_place_method is None)):
                return ConstantValue(NotImplemented)
            is_reflected = name == op.reflected and op.method not in COMPARING
            if not is_other or (op.function in TAKE_OTHERS and not isinstance(sides[1], kind)):  # a deque's contents are no list
                found = of_one_kind(machine, op, *(reversed(sides) if is_reflected else sides))
        if found is None:
            raise Break(ForeignCall(machine.expression() or name))
        return given[0] if found is sides[0] and op.in_place_method is not None else found

    return run


def of_one_kind(machine: Machine, op: Operator, left: Value, right: Value) -> Any:
    """None where the operator asks something of the other side that its kind alone does not answer."""
    rule = rule_of_containers(left, right, op.function)
    if rule is not None and (type(left) is type(right) or all(map(is_counted, (left, right)))):
        return rule(machine, left, right)
    if type(left) is not type(right) or op.method not in COMPARING:
        return None
    if isinstance(left, (ListValue, TupleValue)):
        return operators.compare_items(machine, op, left, right)
    return operators.equality(machine, op, left, right) if op.method in ("__eq__", "__ne__") else None


def is_counted(value: Value) -> bool:
    """Of a sequence and how often it is repeated: whether that is a number. What else it may be `list.__mul__` has words of its own for."""
    return not isinstance(value, ConstantValue) or type(value.value) in (int, bool)


for _cls, _kind in KINDS.items():
    for _op in (*OPERATORS.values(), *COMPARISONS.values()):
        _names = [_op.method] if _op.method in COMPARING else [_op.method, _op.reflected]
        for _name in [_op.in_place_method] if _op.in_place_method else _names:
            if (_entry := vars(_cls).get(_name)) is not None and _entry not in MEANINGS:
                MEANINGS[_entry] = _named(_op, _name, _kind)
