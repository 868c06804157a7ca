"""`weakref.proxy(x)` from outside: what is asked of it is asked of the object that it stands for, as long as that is there.

    self.strategy = weakref.proxy(strategy)
    self.strategy.step          `strategy.step`, whose `self` is `strategy`
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from dynascope.capture.reasons import ProgramRaises
from dynascope.capture.signals import Break
from dynascope.capture.values import InstanceValue, Value
from dynascope.guards.source import BehindProxySource, behind_proxy

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

PROXIES = (weakref.ProxyType, weakref.CallableProxyType)


def is_proxy(value: Value) -> bool:
    return isinstance(value, InstanceValue) and value.cls in PROXIES and value.object is not None


def behind(machine: Machine, value: InstanceValue) -> Value:
    try:
        real = behind_proxy(value.object)
    except ReferenceError:
        raise Break(ProgramRaises("ReferenceError", machine.expression())) from None
    return machine.realize(machine.outside.realize(real, BehindProxySource(value.source)))
