"""Calls as operations of expressions."""

import math
import operator

import numpy as np
import pytest
from dynascope.sizes import Scope, evaluate, is_found
from dynascope.sizes.calls import HOLE, Call, OtherResult
from dynascope.sizes.expression import Operation, text
from dynascope.sizes.functions import FUNCTIONS, named


def test_of_numbers_that_vary():
    scope = Scope()
    n = scope.root("n", 2.5)
    total = n.call(math.fsum, (([HOLE, HOLE, HOLE],), {}), [n, 0.5, 2 * n])
    assert (total.hint, total.kind, str(total)) == (8.0, float, "math.fsum([n, 0.5, (2 * n)])")
    assert evaluate(total.expression, {"n": 3.0}) == 9.5
    functions = {}
    assert eval(text(total.expression, functions), {**functions, "n": 4.0}) == 12.5
    assert not len(scope.log)


def test_items_of_a_result():
    scope = Scope()
    n = scope.root("n", 5.5)
    fraction, whole = n.call(math.modf, ((HOLE,), {}), [n])
    assert (fraction.hint, whole.hint, str(whole)) == (0.5, 5.0, "math.modf(n)[1]")
    assert [evaluate(each.expression, {"n": -2.25}) for each in (fraction, whole)] == [-0.25, -2.0]
    assert [evaluate(each.expression, {"n": -0.0}).hex() for each in (fraction, whole)] == ["-0x0.0p+0"] * 2


def test_answers_that_decide_are_relied_on():
    scope = Scope()
    n = scope.root("n", 5.5)
    assert n.call(math.isclose, ((HOLE, HOLE), {}), [n, 5.5]) is True
    ((relation, _),) = scope.log
    assert relation.is_true({"n": 5.5}) and not relation.is_true({"n": 5.0})


def test_equal_calls_share_a_name():
    first, second = (named(math.fsum, (([HOLE, HOLE],), {}), float) for _ in range(2))
    assert first == second and isinstance(FUNCTIONS[first], Call)
    assert named(math.fsum, (([HOLE],), {}), float) != first


def test_another_type_or_length_is_an_error():
    call = Call(max, ((HOLE, HOLE), {}), float)
    assert call(1.0, 2.0) == 2.0
    with pytest.raises(OtherResult, match="max gives no float"):
        call(3, 2.0)
    with pytest.raises(OtherResult, match="something else than 3 items"):
        Call(math.modf, ((HOLE,), {}), float, 0, 3)(2.5)


def test_lists_are_fresh():
    changed = Call(operator.iconcat, (([HOLE], [HOLE]), {}), list)
    assert changed(1, 2) == [1, 2] == changed(1, 2)


def test_names_that_lead_to_a_function():
    assert all(map(is_found, (math.fsum, float.is_integer, divmod, math.frexp)))
    assert not is_found(lambda n: n)


@pytest.mark.parametrize("exponent", [2.0, -1, 0.5])
def test_powers_of_what_is_below_zero(exponent):
    scope = Scope()
    n = scope.root("n", 9)
    power = (n - 6) ** exponent if exponent == 0.5 else (-n) ** exponent
    assert eval(text(power.expression), {"n": 8}) == evaluate(power.expression, {"n": 8})


def test_an_operator_of_one_number_that_varies_and_one_that_does_not():
    """NumPy's numbers stand in the call itself."""
    n = Scope().root("n", 3)
    for template in ((np.float64(2.5), HOLE), (HOLE, np.float64(2.5))):
        product = Operation(named(operator.mul, (template, {}), np.float64), (n.expression,), float)
        assert eval(text(product), {"n": 4, "np": np}) == evaluate(product, {"n": 4}) == 10
