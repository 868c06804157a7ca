"""Functions in C that say what a flag is: `torch._C._get_cudnn_enabled()`, `threading.get_ident()`. The answer is guarded, and then a
constant.

reads_state(torch._C._get_cudnn_enabled)      without arguments, named as a question
state_read(machine, function)                 ConstantValue(True), and a guard that it still answers so
"""

from __future__ import annotations

import gc
import os
import re
import sys
import threading
import types
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import ConstantValue
from dynascope.guards.state_calls import Asked, CallReturns

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

QUESTION = re.compile(r"_?(get|is|are|has)_\w+|_(cuda|accelerator|mps|mtia|xpu)_(get|is|are|has)[A-Z_]\w*|_len_torch_dispatch_stack")
"""Modes below the dispatcher are none: where one is on nothing is captured, and a program that enters one breaks."""
FOLLOWED = frozenset({torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.get_default_dtype})
"""Answers that capture follows while the program changes them; the guard of the global state has them too."""
OF_PYTHON = frozenset({threading.get_ident, threading.get_native_id, os.getpid, os.getppid, os.cpu_count, gc.isenabled})
"""Which thread or process this is (`threading.current_thread()` asks for it)."""
TOLD = frozenset(filter(None, [getattr(torch._C, "_get_fp32_precision_getter", None)]))
"""Those that are told what they are asked about."""
ANSWERS = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.layout)
_answers_otherwise: set[Any] = set()


def reads_state(thing: Any) -> bool:
    if not isinstance(thing, types.BuiltinFunctionType) or thing in FOLLOWED or thing in _answers_otherwise:
        return False
    if thing in OF_PYTHON:
        return True
    owner = thing.__self__  # pybind's functions have a record of theirs
    module = owner.__name__ if isinstance(owner, types.ModuleType) else thing.__module__ or ""
    is_function = getattr(sys.modules.get(module), thing.__name__, None) is thing
    return is_function and module.startswith("torch._C") and bool(QUESTION.fullmatch(thing.__name__))


def state_read(machine: Machine, function: types.BuiltinFunctionType, arguments: Arguments) -> ConstantValue:
    question = Asked(function, tuple(map(machine.object_of, arguments))) if arguments else function
    try:
        answer = question()
    except Exception:
        raise Break(ForeignCall(function.__name__)) from None
    if type(answer) not in ANSWERS:
        _answers_otherwise.add(function)
        raise Break(ForeignCall(function.__name__))
    machine.guards.add_state(CallReturns(question, answer))
    return ConstantValue(answer)
