"""A number that varies, as the compiler computes with it: Python's operators, a hint, and a log of what was decided.

n = scope.root("n", hint=7, low=2)
n * 64            a Size
n > 0             True: follows from the bounds, nothing is logged
n > 512           False: the hint says so, and `n <= 512` is logged
int(n)            7, and `n == 7` is logged: whoever needs the number fixes it
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from numbers import Integral, Real
from types import NoneType
from typing import Any

from dynascope.sizes import expression as exact
from dynascope.sizes.calls import HOLE, LENGTH, Call, Template, called, filled, is_row
from dynascope.sizes.expression import INFINITY, Expression, Operation, Polynomial, Root
from dynascope.sizes.functions import FUNCTIONS, INFIX, NAMES, named
from dynascope.sizes.relations import COMPARISONS, NEGATED, Relation, RelationLog, normal
from dynascope.sizes.rounding import MOST, rounded

PLAIN = (int, float, bool)


class Scope:
    """The roots of one compilation, with their values at hand, and what was relied on. `where` gives the user's stack now."""

    def __init__(self, where: Callable[[], Any] = tuple) -> None:
        self.where = where
        self.hints: dict[str, int | float] = {}
        self.roots: dict[str, Root] = {}
        self.log = RelationLog()
        self.times: dict[str, int] = {}
        """How many sizes of one tensor a root is, at the most."""
        self.binding: int | None = None
        """How many relations a recording made again must keep to: later stages add more, which do not concern it."""
        self._sizes: dict[Expression, Size] = {}
        """Made of expressions: hints stay what they are."""
        self.worlds: Any = None
        """The values that torch is asked for (`worlds.Worlds`), once a stage has chosen them."""
        self.assumed: set[str] = set()
        """Roots of which no other value was seen and no mark speaks: they vary because all are to (`dynamic=True`)."""
        self.late: set[str] = set()
        """Roots that only the run of a graph gives a value to: no guard can be asked about them."""
        self.undecided: Callable[[Relation], Any] | None = None
        """Told, where there is one, that something would rely on what a late root is; it may raise."""
        self.decided: Callable[[Relation], Any] | None = None
        """Told, where there is one, of what was decided by what is relied on of late roots."""

    def root(self, name: str, hint: int | float, low: float = -INFINITY, high: float = INFINITY) -> Size:
        """The number of that name. One root for each name."""
        if name not in self.roots:
            self.roots[name] = Root(name, int if type(hint) is int else float, low, high)
            self.hints[name] = hint
        root = self.roots[name]
        return Size(exact.of_root(root), hint, self)

    def of(self, name: str) -> Size:
        """The number of a name that has one."""
        return Size(exact.of_root(self.roots[name]), self.hints[name], self)

    def pinned(self, count: int | None = None) -> frozenset[str]:
        """Roots that are relied on to be what they are now, by the first `count` relations or all."""
        constants = (relation for relation, _ in islice(self.log, count) if isinstance(relation.right, (int, float)))
        said = {relation.left for relation in constants if relation.operator in ("==", "is") and not relation.holds_not}
        return frozenset(name for name, root in self.roots.items() if said and (root in said or exact.of_root(root) in said))

    def rely(self, relation: Relation) -> None:
        if self.undecided is not None and relation not in self.log and self.is_late(relation):
            self.undecided(relation)
        self.log.add(relation, self.where())

    def is_late(self, relation: Relation) -> bool:
        """Whether it can be asked only when a graph has run so far."""
        return bool(self.late) and any(root.name in self.late for root in relation.roots())

    def relied_bounds(self, polynomial: Polynomial) -> tuple[float, float]:
        """Between which numbers it lies by what was relied on so far."""
        low, high = polynomial.bounds
        for relation, _ in self.log:
            if relation.left == polynomial and isinstance(relation.right, int) and not relation.holds_not:
                number = relation.right
                if relation.operator in (">", ">=", "=="):
                    low = max(low, number + (relation.operator == ">"))
                if relation.operator in ("<", "<=", "=="):
                    high = min(high, number - (relation.operator == "<"))
        return low, high

    def size(self, expression: Expression | int | float) -> Size | int | float:
        """An expression over this scope's roots as a number to compute with."""
        if isinstance(expression, (int, float)):
            return expression
        size = self._sizes.get(expression)
        if size is None:
            size = self._sizes[expression] = Size(expression, exact.evaluate(expression, self.hints), self)
        return size


class Size:
    """An int or float over a scope's roots. Immutable; equal to what has an equal value, which may rely on the hint."""

    __slots__ = ("expression", "hint", "scope")

    def __init__(self, expression: Expression, hint: int | float, scope: Scope) -> None:
        self.expression, self.hint, self.scope = expression, hint, scope

    @property
    def kind(self) -> type:
        return exact.kind_of_expression(self.expression)

    @property
    def bounds(self) -> tuple[float, float]:
        return self.expression.bounds

    def __repr__(self) -> str:
        return f"<{self.expression} = {self.hint}>"

    def __str__(self) -> str:
        return str(self.expression)

    def __format__(self, specification: str) -> str:
        return format(str(self.expression), specification)

    def __hash__(self) -> int:
        return hash(self.expression)

    # Arithmetic

    def __add__(self, other: Any) -> Any:
        if other.__class__ is int and self.expression.__class__ is Polynomial:
            return self._exactly(exact.add(self.expression, other), self.hint + other) if other else self
        if other.__class__ is Size and self.expression.__class__ is other.expression.__class__ is Polynomial:
            return self._exactly(exact.add(self.expression, other.expression), self.hint + other.hint)
        return self._integers("+", exact.add, self, other)

    def __radd__(self, other: Any) -> Any:
        if other.__class__ is int and self.expression.__class__ is Polynomial:
            return self + other if other else self
        return self._integers("+", exact.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return self._integers("-", _subtract, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._integers("-", _subtract, other, self)

    def __mul__(self, other: Any) -> Any:
        expression = self.expression  # most of all arithmetic is this
        if other.__class__ is int and expression.__class__ is Polynomial:
            if other == 1:
                return self
            return Size(expression.times(other), self.hint * other, self.scope) if other else 0
        if other.__class__ is Size and expression.__class__ is other.expression.__class__ is Polynomial:
            return self._exactly(exact.multiply(expression, other.expression), self.hint * other.hint)
        return self._integers("*", exact.multiply, self, other)

    def __rmul__(self, other: Any) -> Any:
        if other.__class__ is int and self.expression.__class__ is Polynomial:
            return self if other == 1 else self * other
        return self._integers("*", exact.multiply, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._dividing("//", exact.floor_divide, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._dividing("//", exact.floor_divide, other, self)

    def __mod__(self, other: Any) -> Any:
        return self._dividing("%", exact.modulo, self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._dividing("%", exact.modulo, other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __truediv__(self, other: Any) -> Any:
        return self._dividing("/", None, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._dividing("/", None, other, self)

    def __pow__(self, other: Any) -> Any:
        if type(other) is int and 0 <= other <= 8 and self.kind is int:
            return self.scope.size(exact.power(self.expression, other))
        return self._opaque("**", self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._opaque("**", other, self)

    def __lshift__(self, other: Any) -> Any:
        return self._opaque("<<", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return self._opaque("<<", other, self)

    def __rshift__(self, other: Any) -> Any:
        return self._opaque(">>", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return self._opaque(">>", other, self)

    def __and__(self, other: Any) -> Any:
        return self._opaque("&", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return self._opaque("|", self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return self._opaque("^", self, other)

    __rxor__ = __xor__

    def __neg__(self) -> Any:
        return self * -1 if self.kind is int else self.apply("neg", self)

    def __pos__(self) -> Size:
        return self

    def __invert__(self) -> Any:
        return -self - 1 if self.kind is int else NotImplemented

    def __abs__(self) -> Any:
        if self.kind is int and self.bounds[0] >= 0:
            return self
        return self.apply("abs", self)

    def __round__(self, digits: int | None = None) -> Any:
        if self.kind is int and digits is None:
            return self
        return self.apply("round", self) if digits is None else self.apply("round", self, digits)

    def __trunc__(self) -> Any:
        return self if self.kind is int else self.apply("int", self)

    def __floor__(self) -> Any:
        return self if self.kind is int else self.apply("math.floor", self)

    def __ceil__(self) -> Any:
        return self if self.kind is int else self.apply("math.ceil", self)

    def apply(self, name: str, *arguments: Any) -> Any:
        """A function of `FUNCTIONS` on sizes and numbers. Raises what Python raises for the numbers at hand."""
        if name in ("min", "max") and len({*map(type_of, arguments)}) > 1:
            return self._extreme(name, arguments)
        if name in ("min", "max") and len(arguments) > 1 and len({*map(expression_of, arguments)}) == 1:
            return arguments[0]
        if len(arguments) == 1 and (found := rounded(name, expression_of(arguments[0]))) is not None:
            return self._rounded(name, arguments[0], *found)
        function, hints = FUNCTIONS[name], tuple(map(hint_of, arguments))
        if not isinstance(function, Call) and any(type(hint) not in PLAIN for hint in hints):
            held = tuple(HOLE if is_size(each) or type(each) in PLAIN else each for each in arguments)
            return self.call(function, (held, {}), [number for number, place in zip(arguments, held, strict=True) if place is HOLE])
        return self._made(name, arguments, function(*hints))

    def _rounded(self, name: str, number: Any, integer: Any, varying: Polynomial) -> Any:
        hint = FUNCTIONS[name](number.hint)
        if exact.evaluate(varying, self.scope.hints) > MOST:
            return self._made(name, (number,), hint)
        _ = self.scope.size(varying) <= MOST
        return self.scope.size(integer)

    def call(self, function: Callable[..., Any], template: Template, numbers: Sequence[Any], length_is_known: bool = False) -> Any:
        """`function` with sizes and numbers in the holes of its arguments, where it has no effects: a number, what it is for the numbers
        at hand, or a row of such (of an array of one dimension a list). Raises TypeError where it is anything else."""
        answer = called(function, *filled(template, tuple(map(hint_of, numbers))))
        if not is_row(answer):
            return self._called(function, template, numbers, answer)
        if type(answer) is not tuple and not length_is_known:
            length = named(function, template, int, LENGTH)
            self.scope.rely(Relation("==", Operation(length, tuple(map(expression_of, numbers)), int), len(answer)))
        items = enumerate(answer)
        made = [self._called(function, template, numbers, item, at, len(answer)) for at, item in items]
        return tuple(made) if type(answer) is tuple else made

    def _called(self, function: Any, template: Template, numbers: Sequence[Any], answer: Any, *place: int) -> Any:
        name = named(function, template, type(answer), *place)
        if is_number(answer):
            return self._made(name, numbers, answer)
        if isinstance(answer, (str, NoneType)):
            return self._decided(name, numbers, answer)
        if not is_whole(answer):
            raise TypeError(f"{function} gives no number")
        operation = Operation(name, tuple(map(expression_of, numbers)), int)
        self.scope.rely(Relation("==", operation, int(answer)))
        return answer

    def _made(self, name: str, arguments: Sequence[Any], hint: Any) -> Any:
        if not is_number(hint):
            return self._decided(name, arguments, hint)
        operation = Operation(name, tuple(map(expression_of, arguments)), int if isinstance(hint, int) else float)
        return Size(exact.of_atom(operation) if operation.kind is int else operation, hint, self.scope)

    def _extreme(self, name: str, numbers: Sequence[Any]) -> Any:
        """Of numbers of several types: which of them it is decides on its type."""
        best = numbers[0]
        for number in numbers[1:]:
            if (number > best) if name == "max" else (number < best):
                best = number
        return best

    def _decided(self, name: str, arguments: Sequence[Any], answer: Any) -> Any:
        """A function whose answer is no number: it is what it is for these numbers."""
        for argument in arguments:
            fix(argument)
        return answer

    def _integers(self, name: str, compute: Callable[..., Any], left: Any, right: Any) -> Any:
        """Exact where both are ints; an operation, never rearranged, where a float is among them."""
        if kind_of(left) is int and kind_of(right) is int:
            return self._computed(name, compute, left, right)
        return self._opaque(name, left, right)

    def _exactly(self, expression: Any, hint: int) -> Any:
        return expression if expression.__class__ is int else Size(expression, hint, self.scope)

    def _computed(self, name: str, compute: Callable[..., Any], left: Any, right: Any) -> Any:
        expression = compute(expression_of(left), expression_of(right))
        if isinstance(expression, int):
            return expression
        return Size(expression, FUNCTIONS[name](hint_of(left), hint_of(right)), self.scope)

    def _dividing(self, name: str, compute: Callable[..., Any] | None, left: Any, right: Any) -> Any:
        kinds = kind_of(left), kind_of(right)
        if None in kinds:
            return NotImplemented
        if is_size(right) and hint_of(right) != 0:
            # The other answer is an exception.
            _ = right != 0
        if compute is None or kinds != (int, int) or hint_of(right) == 0:
            return self._opaque(name, left, right)
        return self._computed(name, compute, left, right)

    def _opaque(self, name: str, left: Any, right: Any) -> Any:
        if kind_of(left) is None or kind_of(right) is None:
            return NotImplemented
        return self.apply(name, left, right)

    # Decisions

    def __eq__(self, other: object) -> Any:
        if other.__class__ is Size and other.expression == self.expression and self.kind is int:
            return True
        return self._compare("==", other)

    def __ne__(self, other: object) -> Any:
        return self._compare("!=", other)

    def __lt__(self, other: Any) -> Any:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare(">=", other)

    def _compare(self, name: str, other: Any) -> Any:
        if kind_of(other) is None:
            return NotImplemented
        return decide(self.scope, name, self, other)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __index__(self) -> int:
        if self.kind is not int:
            raise TypeError("'float' object cannot be interpreted as an integer")
        return fix(self)

    def __int__(self) -> int:
        return int(fix(self))

    def __float__(self) -> float:
        return float(fix(self))

    def __complex__(self) -> complex:
        return complex(fix(self))


def decide(scope: Scope, name: str, left: Any, right: Any) -> bool:
    """The answer of a comparison: by algebra or bounds where they tell, else by the hints, and then it is relied on."""
    if left.__class__ is Size and right.__class__ is int and left.expression.__class__ is Polynomial:
        if (known := by_bounds(name, left.expression.bounds, right)) is not None:
            return known
    answer = bool(COMPARISONS[name](hint_of(left), hint_of(right)))
    name, first, second = normal(name, expression_of(left), expression_of(right))
    if isinstance(first, int) and isinstance(second, int):
        return answer
    if isinstance(first, Polynomial) and isinstance(second, (int, float)):
        if (known := by_bounds(name, first.bounds, second)) is not None:
            return known
        if (known := by_bounds(name, first.closer_bounds, second)) is not None:
            return known
    if isinstance(first, Polynomial) and isinstance(second, int):
        relation = _relied_on(name if answer else NEGATED[name], first, second)
        if scope.late and by_bounds(relation.operator, scope.relied_bounds(relation.left), relation.right):
            if scope.decided is not None:
                scope.decided(relation)
            return answer
        for part in _parts(relation):
            scope.rely(part)
    else:
        scope.rely(Relation(name, first, second, holds_not=not answer))
    return answer


def by_bounds(name: str, bounds: tuple[float, float], number: int | float) -> bool | None:
    """The answer of a comparison with a number for everything within the bounds; None where they do not tell."""
    low, high = bounds
    if number != number:
        return None
    if name in ("==", "!="):
        if number < low or number > high:
            return name == "!="
        return (name == "==") if low == high == number else None
    if name in (">", "<="):
        if low > number or high <= number:
            return (low > number) is (name == ">")
        return None
    if low >= number or high < number:
        return (low >= number) is (name == ">=")
    return None


def relation_of(name: str, left: Any, right: Any) -> Relation:
    """A comparison of sizes, numbers or expressions as the log holds it."""
    name, first, second = normal(name, exact.plain(expression_of(left)), exact.plain(expression_of(right)))
    if isinstance(first, Polynomial) and isinstance(second, int):
        return _relied_on(name, first, second)
    return Relation(name, first, second)


def _relied_on(name: str, left: Polynomial, right: int) -> Relation:
    """With the first coefficient above 0, and by what all coefficients share: `-64*n <= -128` is `n >= 2`."""
    if left.terms[0][1] < 0:
        left, right = exact.negate(left), -right
        name = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(name, name)
    common = math.gcd(*(coefficient for _, coefficient in left.terms))
    if common > 1 and right % common == 0:
        left, right = exact.floor_divide(left, common), right // common
    quotient = left.alone
    if isinstance(quotient, Operation) and quotient.name == "//" and name in ORDERS:
        dividend, divisor = quotient.arguments
        if isinstance(divisor, int) and divisor > 0:  # `n // 2 < 6` is `n < 12`
            name, number = {"<=": ("<", right + 1), ">": (">=", right + 1)}.get(name, (name, right))
            return relation_of(name, dividend, number * divisor)
    return Relation(name, left, right)


ORDERS = ("<", "<=", ">", ">=")


def _parts(relation: Relation) -> Iterator[Relation]:
    """The relations that it says together: `min(n, m) >= 6` is `n >= 6` and `m >= 6`."""
    extreme = relation.left.alone if isinstance(relation.left, Polynomial) else None
    orders = {"min": (">", ">="), "max": ("<", "<=")}.get(extreme.name, ()) if isinstance(extreme, Operation) else ()
    if relation.operator not in orders:
        yield relation
        return
    for argument in extreme.arguments:
        if isinstance(argument, Polynomial) and not by_bounds(relation.operator, argument.bounds, relation.right):
            yield from _parts(relation_of(relation.operator, argument, relation.right))


def fix(value: Any) -> Any:
    """The number at hand, relied on from now on."""
    if not is_size(value):
        return value
    if value.kind is float:
        value.scope.rely(Relation("is", value.expression, value.hint))
    else:
        decide(value.scope, "==", value, value.hint)
    return value.hint


def is_size(value: Any) -> bool:
    return isinstance(value, Size)


def kind_of(value: Any) -> type | None:
    """int or float, of numbers that vary and constants; None for anything else. A bool is an int."""
    if isinstance(value, Size):
        return value.kind
    if isinstance(value, int):
        return int
    return float if isinstance(value, float) else None


def type_of(value: Any) -> type:
    """That of the number itself: NumPy's floats are floats of a type of their own."""
    return type(hint_of(value))


def is_number(value: Any) -> bool:
    """Whether an expression may have it as its value: an int or float of Python's, or a float of NumPy's, which varies as one."""
    if isinstance(value, float):
        return True
    kind = type(value)
    return kind is int or (kind.__module__ == "numpy" and isinstance(value, Real) and not isinstance(value, Integral))


def is_whole(value: Any) -> bool:
    """Whether it is a bool, or a bool or int of NumPy's: what it is decides."""
    return isinstance(value, (bool, Integral)) or (type(value).__module__ == "numpy" and type(value).__name__.startswith("bool"))


def hint_of(value: Any) -> Any:
    return value.hint if isinstance(value, Size) else value


def expression_of(value: Any) -> Any:
    return value.expression if isinstance(value, Size) else int(value) if isinstance(value, bool) else value


IN_PLACE = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
    operator.ifloordiv: operator.floordiv,
    operator.imod: operator.mod,
    operator.ipow: operator.pow,
    operator.ilshift: operator.lshift,
    operator.irshift: operator.rshift,
    operator.iand: operator.and_,
    operator.ior: operator.or_,
    operator.ixor: operator.xor,
}
"""Numbers do not change: an operator in place is the plain one."""
UNARY = (operator.neg, operator.pos, operator.invert, operator.abs, abs, round, bool)
COMPARING = {operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, *UNARY, *IN_PLACE}
"""What a size answers itself, beside `FUNCTIONS`."""


def is_function_of_numbers(function: Any) -> bool:
    """Whether expressions know it."""
    try:
        return function in NAMES or function in COMPARING
    except TypeError:
        return False


def apply(function: Callable[..., Any], operands: Iterable[Any]) -> Any:
    """A function of `FUNCTIONS` called as the program calls it: Python's operators where there is one."""
    operands = tuple(operands)
    if function in IN_PLACE:
        function = IN_PLACE[function]
    varying = next((operand for operand in operands if isinstance(operand, Size)), None)
    has_own = function in COMPARING or NAMES[function] in INFIX or function in UNARY
    if varying is None or (has_own and all(type(operand) in (Size, *PLAIN) for operand in operands)):
        return function(*operands)
    if function in COMPARISONS.values():
        return decide(varying.scope, next(name for name, each in COMPARISONS.items() if each is function), *operands)
    if function in COMPARING and function not in NAMES:
        return function(*operands)
    return varying.apply(NAMES[function], *operands)


def hints_of(data: Any) -> Any:
    """Nested lists, tuples and dictionaries with the hint in place of each size."""
    kind = type(data)
    if kind is Size:
        return data.hint
    if kind is tuple or kind is list:
        return kind([item if type(item) in PLAIN else hints_of(item) for item in data])
    if isinstance(data, dict):
        return {key: hints_of(item) for key, item in data.items()}
    return data


def roots_of(values: Iterable[Any]) -> frozenset[Root]:
    found = [exact.roots_in(value.expression) for value in values if isinstance(value, Size)]
    return frozenset().union(*found) if found else frozenset()


def _subtract(left: Any, right: Any) -> Any:
    return exact.add(left, exact.negate(right))
