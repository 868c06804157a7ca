"""What graphs call, as text that another process finds it by.

text_of_operator(aten.add.Tensor)            ->  ("operator", "aten::add.Tensor")
text_of_operator(filling(aten.normal_.default)) -> ("filling", "aten::normal_")
operator_of("operator", "aten::add.Tensor")  ->  aten.add.Tensor
"""

from __future__ import annotations

import functools
import importlib
import types
from typing import Any

import torch
from torch._ops import OpOverload

from dynascope.random_numbers.filling import filling

OURS = "dynascope."
KINDS = ("operator", "filling", "function")


class NoText(Exception):
    """Something cannot be said in words that another process understands."""


def text_of_operator(operator: Any) -> tuple[str, str]:
    """The kind and the name. Raises `NoText` where they would not lead here."""
    if isinstance(operator, OpOverload):
        return "operator", operator.name()
    written_by = getattr(operator, "written_by", None)
    if isinstance(written_by, OpOverload):
        return "filling", written_by.name()
    if isinstance(operator, types.FunctionType) and operator.__module__.startswith(OURS):
        text = f"{operator.__module__}:{operator.__qualname__}"
        try:
            if operator_of("function", text) is operator:
                return "function", text
        except (AttributeError, ImportError) as error:
            raise NoText from error
    raise NoText


def operator_of(kind: str, text: str) -> Any:
    """Raises AttributeError or ImportError where there is none."""
    if kind == "function":
        module, _, name = text.partition(":")
        return functools.reduce(getattr, name.split("."), importlib.import_module(module))
    namespace, _, name = text.partition("::")
    name, _, overload = name.partition(".")
    operator = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    return filling(operator) if kind == "filling" else operator
