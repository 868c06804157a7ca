"""What a program says with `torch._check` and its relatives: the graph makes sure of it, and goes on as if it held.

    torch._check(n < 8)                     relied on from here on, where `n` is a number that only the run knows
    torch._check_tensor_all(x > 0)      ->  torch._assert_async(ok)
    torch._check_value(n > 2, message)      raised by the program's own call, where it does not hold
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.late_numbers import assume
from dynascope.capture.calls.registry import meaning
from dynascope.capture.library_checks import make_sure_of
from dynascope.capture.reasons import ForeignCall, TorchCallFails
from dynascope.capture.signals import Break
from dynascope.capture.values import NONE, ConditionValue, ConstantValue, SymbolicNumber, Value
from dynascope.sizes.size import relation_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@meaning(torch._check_with)
def check_with(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """All of torch's checks end here; the class of the error stands before the condition."""
    condition = machine.realize(arguments[1] if len(arguments) > 1 else keywords["cond"])
    if isinstance(condition, ConstantValue) and condition.value is True:
        return NONE
    if not isinstance(condition, ConditionValue):
        raise Break(TorchCallFails(machine.expression(), "Expected cond to be True"))
    make_sure_of(machine, condition, wanted=True)
    return NONE


@meaning(torch._check_is_size)
def check_is_size(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    number = machine.realize(arguments[0]) if arguments else NONE
    if len(arguments) != 1 or keywords or number.python_type is not int:
        raise Break(ForeignCall(machine.expression(), "what it is given besides a number"))
    if isinstance(number, ConstantValue) and number.value < 0:
        raise Break(TorchCallFails(machine.expression(), "Expected cond to be True"))
    if machine.sizes.is_late(number) and number.size.bounds[0] < 0:
        relation = relation_of(">=", number.size, 0)
        assume(machine, relation, machine.graph.late_number(operator.ge, (number.node, 0), True))
    elif isinstance(number, SymbolicNumber) and number.size.bounds[0] < 0:
        if number.size.hint < 0:
            raise Break(TorchCallFails(machine.expression(), "Expected cond to be True"))
        machine.sizes.scope.log.add(relation_of(">=", number.size, 0), machine.user_stack())
    return NONE
