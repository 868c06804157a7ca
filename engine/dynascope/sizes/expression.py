"""What a varying number is computed from: exact polynomials over roots and operations, always in one normal form.

    2*n + n        Polynomial  3*n
    (6*n) // 3     Polynomial  2*n            divides exactly
    (n + 1) // 2   Polynomial  of the atom    Operation("//", n + 1, 2)
    sqrt(n)        Operation("sqrt", n)       a float: never rearranged, because rounding would differ

Equal integers in normal form compare equal; unequal ones may still be equal numbers, which only their values can tell.
Everything is immutable, and there is one object for each content.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self
from weakref import WeakValueDictionary

from dynascope.sizes.calls import Call
from dynascope.sizes.functions import FUNCTIONS, INFIX

INFINITY = float("inf")
Bounds = tuple[float, float]


class Unique:
    """What there is one object of for each content: equal ones are the same, which C compares and hashes without asking. Immutable,
    and made by whoever compiles, which is one thread at a time."""

    _made: ClassVar[WeakValueDictionary[Any, Any]]

    def __init_subclass__(cls) -> None:
        cls._made = WeakValueDictionary()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __repr__(self) -> str:
        made, content = self.__reduce__()
        return f"{made.__name__}{content}"


class Root(Unique):
    """A number that the program brings: a tensor's size, or a Python int or float. `low <= value <= high` whenever it serves."""

    name: str
    kind: type
    low: float
    high: float
    bounds: Bounds

    def __new__(cls, name: str, kind: type = int, low: float = -INFINITY, high: float = INFINITY) -> Root:
        content = name, kind, low, high
        root = cls._made.get(content)
        if root is None:
            root = super().__new__(cls)
            root.name, root.kind, root.low, root.high = content
            root.bounds = low, high
            root = cls._made.setdefault(content, root)
        return root

    def named(self, name: str) -> Root:
        """The same number by another name."""
        return Root(name, self.kind, self.low, self.high)

    def __reduce__(self) -> Any:
        return Root, (self.name, self.kind, self.low, self.high)

    def __str__(self) -> str:
        return self.name


class Operation(Unique):
    """A function of expressions that the normal form keeps as it is. `kind` is the type of its value."""

    name: str
    arguments: tuple[Expression | int | float, ...]
    kind: type

    def __new__(cls, name: str, arguments: tuple[Expression | int | float, ...], kind: type = int) -> Operation:
        floats = [repr(argument) for argument in arguments if isinstance(argument, float)]  # 2 is no 2.0, 0.0 no -0.0
        content = name, arguments, kind, *floats
        operation = cls._made.get(content)
        if operation is None:
            operation = super().__new__(cls)
            operation.name, operation.arguments, operation.kind = name, arguments, kind
            operation = cls._made.setdefault(content, operation)
        return operation

    def __reduce__(self) -> Any:
        return Operation, (self.name, self.arguments, self.kind)

    @cached_property
    def _text(self) -> str:
        return text(self)

    def __str__(self) -> str:
        return self._text

    @cached_property
    def bounds(self) -> Bounds:
        return _operation_bounds(self)

    @cached_property
    def roots(self) -> frozenset[Root]:
        return frozenset().union(*map(roots_in, self.arguments))


Atom = Root | Operation
Monomial = tuple[tuple[Atom, int], ...]
"""A product of atoms, each with its power; () is 1."""


class Polynomial(Unique):
    """An integer: the sum of coefficient * monomial, sorted, without zero coefficients. Never a constant alone."""

    terms: tuple[tuple[Monomial, int], ...]
    _multiples: dict[int, Integer]

    def __new__(cls, terms: tuple[tuple[Monomial, int], ...]) -> Polynomial:
        polynomial = cls._made.get(terms)
        if polynomial is None:
            polynomial = super().__new__(cls)
            polynomial.terms, polynomial._multiples = terms, {}
            polynomial = cls._made.setdefault(terms, polynomial)
        return polynomial

    def __reduce__(self) -> Any:
        return Polynomial, (self.terms,)

    @property
    def alone(self) -> Atom | None:
        """The atom that it is, where it is one and nothing else."""
        ((monomial, coefficient), *others) = self.terms
        is_one = not others and coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1
        return monomial[0][0] if is_one else None

    def times(self, number: int) -> Integer:
        """The product with a constant, remembered here: layouts ask for the same few again and again."""
        product = self._multiples.get(number)
        if product is None:
            product = self._multiples[number] = multiply(self, number)
        return product

    @cached_property
    def degree(self) -> int:
        """How many atoms are multiplied in its first term."""
        return sum(exponent for _, exponent in self.terms[0][0])

    @cached_property
    def order(self) -> tuple[int, int, str]:
        """A key that sorts the larger first, as far as terms tell: higher degrees, then larger factors."""
        _, coefficient = self.terms[0]
        return (-self.degree if coefficient > 0 else self.degree), -coefficient, self._text

    @cached_property
    def _text(self) -> str:
        return text(self)

    def __str__(self) -> str:
        return self._text

    @cached_property
    def roots(self) -> frozenset[Root]:
        return frozenset().union(*(roots_in(atom) for monomial, _ in self.terms for atom, _ in monomial))

    @cached_property
    def bounds(self) -> Bounds:
        low = high = 0.0
        for monomial, coefficient in self.terms:
            smallest, largest = _monomial_bounds(monomial)
            ends = (_times(coefficient, smallest), _times(coefficient, largest))
            low, high = low + min(ends), high + max(ends)
        if low == -INFINITY or math.isnan(low) or math.isnan(high):
            return _bounds_from_least(self)
        return low, high

    @cached_property
    def closer_bounds(self) -> Bounds:
        """By what operations in it are at least and at most: `max(a, b) - a` is 0 or more, and so is `a - 4*(a // 4)`."""
        low, high = self.bounds
        if 1 < len(self.terms) <= FEW_TERMS and any(_is_bounded_by_parts(atom) for monomial, _ in self.terms for atom, _ in monomial):
            return max(low, _least_by_parts(self)), min(high, -_least_by_parts(negate(self)))
        return low, high


FEW_TERMS = 6


def _is_bounded_by_parts(atom: Atom) -> bool:
    if not isinstance(atom, Operation):
        return False
    return atom.name in ("min", "max") or (atom.name == "//" and isinstance(atom.arguments[1], int) and atom.arguments[1] > 0)


def _least_by_parts(polynomial: Polynomial, is_inner: bool = False) -> float:
    best = -INFINITY
    for at, (monomial, coefficient) in enumerate(polynomial.terms):
        for place, (atom, exponent) in enumerate(monomial):
            beside = monomial[:place] + monomial[place + 1 :]
            if exponent > 1 or not _is_bounded_by_parts(atom) or _monomial_bounds(beside)[0] < 0:
                continue
            rest = _polynomial(dict(polynomial.terms[:at] + polynomial.terms[at + 1 :]))
            for times, least in _at_least(atom, coefficient):
                replaced = add(multiply(rest, times), multiply(least, _polynomial({beside: 1})))
                best = max(best, _divided_up(bounds_of(replaced)[0], times))
                if not is_inner and isinstance(replaced, Polynomial):  # of `4*(max(a, b) // 4)` the larger one is next
                    best = max(best, _divided_up(_least_by_parts(replaced, True), times))
    return best


def _divided_up(number: float, divisor: int) -> float:
    """The least integer that is no less than number / divisor."""
    return number if math.isinf(number) else -(-number // divisor)


def _at_least(operation: Operation, coefficient: int) -> Iterable[tuple[int, Integer]]:
    """Pairs (times, sum): `times * coefficient * operation` is never less than the sum."""
    if operation.name in ("min", "max"):
        if (coefficient > 0) == (operation.name == "max"):
            yield from ((1, multiply(argument, coefficient)) for argument in operation.arguments)
        return
    dividend, divisor = operation.arguments
    whole, remainder = divmod(coefficient, divisor)
    if not remainder or bounds_of(dividend)[0] >= 0:
        yield 1, multiply(add(dividend, 0 if whole < 0 else 1 - divisor), whole)
    if remainder:  # `n - n // 2` is half of what `2*n - 2*(n // 2)` is
        yield divisor, multiply(add(dividend, 0 if coefficient < 0 else 1 - divisor), coefficient)


def _bounds_from_least(polynomial: Polynomial) -> Bounds:
    """`n*m - n` with n, m >= 2: in n = 2 + a, m = 2 + b it is `a*b + a + 2*b + 2`, so at least 2."""
    totals: dict[tuple, int] = {(): 0}
    for monomial, coefficient in polynomial.terms:
        parts: dict[tuple, int] = {(): coefficient}
        for atom, exponent in monomial:
            least = atom.bounds[0]
            if math.isinf(least):
                return -INFINITY, INFINITY
            for _ in range(exponent):
                moved: dict[tuple, int] = {}
                for rest, factor in parts.items():
                    further = tuple(sorted((*rest, str(atom))))
                    moved[further] = moved.get(further, 0) + factor
                    moved[rest] = moved.get(rest, 0) + factor * int(least)
                parts = moved
        for rest, factor in parts.items():
            totals[rest] = totals.get(rest, 0) + factor
    constant = totals.pop(())
    factors = [factor for factor in totals.values() if factor]
    return (
        constant if all(factor > 0 for factor in factors) else -INFINITY,
        constant if all(factor < 0 for factor in factors) else INFINITY,
    )


Expression = Polynomial | Root | Operation
"""An int-valued one is a Polynomial; a float-valued one is a Root or an Operation."""


def of_atom(atom: Atom) -> Polynomial:
    return Polynomial(((((atom, 1),), 1),))


def of_root(root: Root) -> Expression:
    """A root alone, in normal form."""
    return of_atom(root) if root.kind is int else root


def kind_of_expression(expression: Expression | int | float) -> type:
    if isinstance(expression, Polynomial):
        return int
    return expression.kind if isinstance(expression, (Root, Operation)) else type(expression)


# -- exact arithmetic of integers

Integer = Polynomial | int


@lru_cache(maxsize=4096)
def add(left: Integer, right: Integer) -> Integer:
    totals = dict(_terms(left))
    for monomial, coefficient in _terms(right):
        totals[monomial] = totals.get(monomial, 0) + coefficient
    return _polynomial(totals)


@lru_cache(maxsize=4096)
def multiply(left: Integer, right: Integer) -> Integer:
    totals: dict[Monomial, int] = {}
    for first, a in _terms(left):
        for second, b in _terms(right):
            product = _product(first, second)
            totals[product] = totals.get(product, 0) + a * b
    return _polynomial(totals)


def negate(value: Integer) -> Integer:
    return multiply(value, -1)


def power(base: Integer, exponent: int) -> Integer:
    result: Integer = 1
    for _ in range(exponent):
        result = multiply(result, base)
    return result


@lru_cache(maxsize=4096)
def floor_divide(dividend: Integer, divisor: Integer) -> Integer:
    """floor(dividend / divisor). What the divisor divides exactly is split off. A divisor that is 0 is the caller's error."""
    whole, rest = divided(dividend, divisor)
    if rest == 0:
        return whole
    rest, divisor = _cancelled(rest, divisor)
    if isinstance(divisor, int) and divisor == 1:
        return add(whole, rest)
    if isinstance(rest, int) and isinstance(divisor, int):
        return add(whole, rest // divisor)
    bounds = bounds_of(rest)
    least = bounds_of(divisor)[0]
    if bounds[0] >= 0 and bounds[1] < least:
        return whole
    nested = _nested_quotient(rest, divisor)
    return add(whole, nested if nested is not None else of_atom(Operation("//", (rest, divisor))))


@lru_cache(maxsize=4096)
def modulo(dividend: Integer, divisor: Integer) -> Integer:
    """dividend mod divisor, with the sign of the divisor, as Python's."""
    _, rest = divided(dividend, divisor)
    if rest == 0:
        return 0
    if isinstance(rest, int) and isinstance(divisor, int):
        return rest % divisor
    bounds = bounds_of(rest)
    if bounds[0] >= 0 and bounds[1] < bounds_of(divisor)[0]:
        return rest
    return of_atom(Operation("%", (rest, divisor)))


def _cancelled(dividend: Integer, divisor: Integer) -> tuple[Integer, Integer]:
    """Both without the factors that all their terms share, which leaves the floor of their quotient as it is."""
    terms = [*_terms(dividend), *_terms(divisor)]
    common = dict(terms[0][0])
    for monomial, _ in terms[1:]:
        powers = dict(monomial)
        common = {atom: min(exponent, powers.get(atom, 0)) for atom, exponent in common.items()}
    shared = tuple((atom, exponent) for atom, exponent in common.items() if exponent and atom.bounds[0] > 0)
    number = math.gcd(*(coefficient for _, coefficient in terms))
    if number == 1 and not shared:
        return dividend, divisor

    def without(value: Integer) -> Integer:
        return _polynomial({_quotient_of_monomials(m, shared) or (): c // number for m, c in _terms(value)})

    return without(dividend), without(divisor)


def _nested_quotient(rest: Integer, divisor: Integer) -> Integer | None:
    """(a // b) // c is a // (b * c), for divisors above 0."""
    if not isinstance(rest, Polynomial) or bounds_of(divisor)[0] <= 0:
        return None
    inner = rest.alone
    if isinstance(inner, Operation) and inner.name == "//" and bounds_of(inner.arguments[1])[0] > 0:
        return floor_divide(inner.arguments[0], multiply(inner.arguments[1], divisor))
    return None


@lru_cache(maxsize=4096)
def divided(dividend: Integer, divisor: Integer) -> tuple[Integer, Integer]:
    """dividend = divisor * whole + rest, by the terms that one term of the divisor divides (exact where rest is 0)."""
    if isinstance(divisor, int):
        whole: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, coefficient in _terms(dividend):
            whole[monomial], rest[monomial] = divmod(coefficient, divisor)
            if monomial and rest[monomial]:
                whole[monomial], rest[monomial] = 0, coefficient
        return _polynomial(whole), _polynomial(rest)
    return _long_division(dividend, divisor)


def _long_division(dividend: Integer, divisor: Polynomial) -> tuple[Integer, Integer]:
    lead, factor = divisor.terms[0]
    whole: Integer = 0
    rest = dividend
    for _ in range(16):
        found = next(
            (
                (q, c // factor)
                for m, c in _terms(rest)
                if c % factor == 0 and (q := _quotient_of_monomials(m, lead)) is not None
            ),
            None,
        )
        if found is None:
            break
        part = _polynomial({found[0]: found[1]})
        whole = add(whole, part)
        rest = add(rest, negate(multiply(part, divisor)))
        if rest == 0:
            return whole, 0
    # A division that leaves a rest says nothing simpler: keep the whole.
    return 0, dividend


def _quotient_of_monomials(dividend: Monomial, divisor: Monomial) -> Monomial | None:
    powers = dict(dividend)
    for atom, exponent in divisor:
        left = powers.get(atom, 0) - exponent
        if left < 0:
            return None
        powers[atom] = left
    return tuple((atom, exponent) for atom, exponent in powers.items() if exponent)


def _terms(value: Integer) -> Iterable[tuple[Monomial, int]]:
    return value.terms if isinstance(value, Polynomial) else (((), int(value)),) if value else ()


def _polynomial(totals: Mapping[Monomial, int]) -> Integer:
    terms = [(monomial, coefficient) for monomial, coefficient in totals.items() if coefficient]
    if not terms:
        return 0
    if len(terms) == 1 and not terms[0][0]:
        return terms[0][1]
    terms.sort(key=_term_order)
    return Polynomial(tuple(terms))


def _term_order(term: tuple[Monomial, int]) -> tuple[int, str]:
    """Higher degrees first, the constant last."""
    monomial = term[0]
    return -sum(exponent for _, exponent in monomial), "*".join(str(atom) for atom, _ in monomial)


@lru_cache(maxsize=4096)
def _product(first: Monomial, second: Monomial) -> Monomial:
    if not first or not second:
        return first or second
    powers = dict(first)
    for atom, exponent in second:
        powers[atom] = powers.get(atom, 0) + exponent
    return tuple(sorted(powers.items(), key=lambda item: str(item[0])))


# -- bounds


def bounds_of(value: Expression | int | float) -> Bounds:
    return (value, value) if isinstance(value, (int, float)) else value.bounds


def _monomial_bounds(monomial: Monomial) -> Bounds:
    product = 1.0, 1.0
    for atom, exponent in monomial:
        power = atom.bounds
        for _ in range(exponent - 1):
            power = _interval_product(power, atom.bounds)
        product = _interval_product(product, (max(power[0], 0.0), power[1]) if exponent % 2 == 0 else power)
    return product


def _interval_product(first: Bounds, second: Bounds) -> Bounds:
    ends = [_times(a, b) for a in first for b in second]
    return min(ends), max(ends)


def _times(a: float, b: float) -> float:
    """0 times infinity is 0: a factor that is 0 makes the product 0."""
    return 0.0 if a == 0 or b == 0 else a * b


def _operation_bounds(operation: Operation) -> Bounds:
    name, arguments = operation.name, operation.arguments
    if operation.kind is not int:
        return -INFINITY, INFINITY
    bounds = [bounds_of(argument) for argument in arguments]
    if name == "//" and bounds[1][0] > 0:
        (low, high), (least, most) = bounds
        smallest = _floor(low / (least if low < 0 else most))
        return smallest, _floor(high / (least if high >= 0 else most))
    if name == "%" and bounds[1][0] > 0:
        return 0, bounds[1][1] - 1
    if name == "blocks":
        (low, high), (block, _) = bounds
        return max(0, -_floor(-low / block)), -_floor(-high / block)
    if name == "share":
        (low, high), (part, _) = bounds
        return -_floor(-low / part), _floor(high / part)
    if name in ("min", "max"):
        choose = min if name == "min" else max
        return choose(low for low, _ in bounds), choose(high for _, high in bounds)
    if name == "abs":
        low, high = bounds[0]
        return (0.0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
    return -INFINITY, INFINITY


def _floor(value: float) -> float:
    return value if math.isinf(value) or math.isnan(value) else math.floor(value)


# -- values


def evaluate(expression: Expression | int | float, values: Mapping[str, Any]) -> Any:
    """The number, given the roots' values. Raises what Python raises."""
    if isinstance(expression, Polynomial):
        total = 0
        for monomial, coefficient in expression.terms:
            product = coefficient
            for atom, exponent in monomial:
                product *= evaluate(atom, values) ** exponent
            total += product
        return total
    if isinstance(expression, Root):
        return values[expression.name]
    if isinstance(expression, Operation):
        return FUNCTIONS[expression.name](*(evaluate(argument, values) for argument in expression.arguments))
    return expression


def roots_in(expression: Expression | int | float) -> frozenset[Root]:
    if isinstance(expression, (Polynomial, Operation)):
        return expression.roots
    return frozenset((expression,)) if isinstance(expression, Root) else frozenset()


def substitute(expression: Any, replace: Callable[[Root], Expression | int | float]) -> Any:
    """The expression with its roots replaced, in normal form again."""
    if isinstance(expression, Polynomial):
        total: Integer = 0
        for monomial, coefficient in expression.terms:
            product: Integer = coefficient
            for atom, exponent in monomial:
                product = multiply(product, power(_as_integer(substitute(atom, replace)), exponent))
            total = add(total, product)
        return total
    if isinstance(expression, Root):
        return replace(expression)
    if isinstance(expression, Operation):
        arguments = tuple(substitute(argument, replace) for argument in expression.arguments)
        if expression.name == "//" and expression.kind is int:
            return floor_divide(*arguments)
        if expression.name == "%" and expression.kind is int:
            return modulo(*arguments)
        if expression.name in ("blocks", "share") and (parts := divided(*arguments))[1] == 0:
            return parts[0]
        if all(isinstance(argument, (int, float)) for argument in arguments):
            return FUNCTIONS[expression.name](*arguments)
        return Operation(expression.name, arguments, expression.kind)
    return expression


def plain(expression: Any) -> Any:
    """The same without shares (`solved.py`), as programs and people write it: `16 * share(n, 16)` is `n`, what is left is `n // 16`."""
    return _plain(expression) if isinstance(expression, (Polynomial, Operation)) else expression


@lru_cache(maxsize=4096)
def _plain(expression: Polynomial | Operation) -> Expression | int:
    if isinstance(expression, Operation):
        arguments = tuple(map(plain, expression.arguments))
        if expression.name == "share":
            return floor_divide(*arguments)
        return Operation(expression.name, arguments, expression.kind)
    total: Integer = 0
    for monomial, coefficient in expression.terms:
        product: Integer = 1
        for atom, exponent in monomial:
            multiple, part = atom.arguments if isinstance(atom, Operation) and atom.name == "share" else (atom, 1)
            for _ in range(exponent):
                is_whole = coefficient % part == 0
                coefficient = coefficient // part if is_whole else coefficient
                product = multiply(product, _as_integer(plain(multiple if is_whole else atom)))
        total = add(total, multiply(product, coefficient))
    return total


def _as_integer(value: Expression | int) -> Integer:
    return value if isinstance(value, (Polynomial, int)) else of_atom(value)


# -- text, as Python reads it


def text(expression: Expression | int | float, functions: dict[str, Any] | None = None) -> str:
    """Runs as Python and gives the expression's value, with the roots' names bound. With `functions`, which gets what the text needs by
    name, calls are under names of their own, and do what `Call` does; without, they are in the program's words."""
    expression = plain(expression)
    if isinstance(expression, Polynomial):
        return _sum_text(expression, functions)
    if isinstance(expression, Operation):
        return _operation_text(expression, functions)
    return str(expression) if isinstance(expression, Root) else _number_text(expression, functions)


def _operation_text(operation: Operation, functions: dict[str, Any] | None) -> str:
    name, parts = operation.name, [text(argument, functions) for argument in operation.arguments]
    function = FUNCTIONS[name]
    if name in INFIX or (isinstance(function, Call) and function.symbol and functions is None):
        parts = [_grouped(part, argument) for part, argument in zip(parts, operation.arguments, strict=True)]
    if name in INFIX:
        left, right = parts
        return f"({left} {name} {right})"
    if isinstance(function, Call):
        if functions is None:
            return function.text(parts)
        functions[function.name] = function
        return f"{function.name}({', '.join(parts)})"
    if name == "neg":
        return f"(-{_grouped(parts[0], operation.arguments[0])})"
    if name == "sum":
        return f"sum([{', '.join(parts[1:])}], {parts[0]})"
    if functions is not None:
        functions |= {"math": math} if name.startswith("math.") else {name: function} if name not in BUILTINS else {}
    return f"{name}({', '.join(parts)})"


BUILTINS = vars(builtins)


def _number_text(number: float, functions: dict[str, Any] | None) -> str:
    if type(number) not in (int, float, bool):
        kind = type(number)
        if functions is not None:
            functions[f"{kind.__module__}_{kind.__name__}"] = kind
        return f"{kind.__module__}{'.' if functions is None else '_'}{kind.__name__}({_number_text(float(number), functions)})"
    return repr(number) if number == number and abs(number) != INFINITY else f"float('{number}')"


def _grouped(part: str, argument: Any) -> str:
    is_sum = isinstance(argument, Polynomial) and (len(argument.terms) > 1 or "*" in part)
    return f"({part})" if is_sum or part.startswith("-") else part


def _sum_text(polynomial: Polynomial, functions: dict[str, Any] | None) -> str:
    parts = []
    for monomial, coefficient in polynomial.terms:
        factors = []
        for atom, exponent in monomial:
            factor = str(atom) if functions is None else text(atom, functions)
            factors.append(factor if exponent == 1 else f"{factor}**{exponent}")
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        sign = ("-" if coefficient < 0 else "") if not parts else (" - " if coefficient < 0 else " + ")
        parts.append(sign + "*".join(factors))
    return "".join(parts)
