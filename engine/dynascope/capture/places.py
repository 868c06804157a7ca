"""Which code is whose: what is an operation of torch, what is read as Python, what counts as never changing.

- Functions of `torch`, `torch.nn.functional` and the like are operations: one node, never read.
- Modules of `torch.nn` and the context managers of torch are Python, read like the user's.
- The names of torch and of the standard library are taken as fixed; those of the user's modules are guarded.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import torch

# Python code of torch that is read rather than taken as an operation.
READ_MODULES = (
    "torch.nn.modules",
    "torch.nn.parameter",
    "torch.nn.init",
    "torch.nn.utils",
    "torch.autograd.grad_mode",
    "torch.utils._contextlib",
    "torch.utils._pytree",
    "torch.types",
)
OPERATION_MODULES = (
    "torch",
    "torch.functional",
    "torch.nn.functional",
    "torch._tensor",
    "torch._VF",
    "torch.special",
    "torch.linalg",
    "torch.fft",
    "torch._ops",
    "torch.signal.windows",
    "torch.signal.windows.windows",
    "torch.nn.attention",
    "torch.nn._reduction",
)
STANDARD_LIBRARY = sys.stdlib_module_names
FUNCTION_TYPES = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
STABLE_TYPES = (*FUNCTION_TYPES, type, types.ModuleType, torch._ops.OpOverloadPacket, torch._ops.OpOverload)


def module_name(thing: Any) -> str:
    name = getattr(thing, "__module__", None)
    return name if isinstance(name, str) else ""


def is_within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def is_torch_name(name: str) -> bool:
    return name == "torch" or name.startswith("torch.")


def is_library_name(name: str) -> bool:
    """Torch, the standard library, or capture's own Python equivalents: code that users do not edit."""
    return is_torch_name(name) or name.partition(".")[0] in STANDARD_LIBRARY or name.startswith("dynascope.capture")


def is_own(globals: dict) -> bool:
    """Whether code with these globals is the user's, or of a package that the user may read: no library code."""
    name = globals.get("__name__", "")
    return name == "__main__" or not is_library_name(name)


def is_torch_operation(thing: Any) -> bool:
    """A function that becomes one node."""
    if isinstance(thing, (torch._ops.OpOverloadPacket, torch._ops.OpOverload)):
        return True
    if isinstance(thing, types.FunctionType):
        return thing.__module__ in OPERATION_MODULES
    if isinstance(thing, types.BuiltinFunctionType):
        owner = thing.__self__
        owner_module = getattr(owner, "__module__", None) or getattr(owner, "__name__", "")
        return is_within(str(module_name(thing) or owner_module), ("torch",)) or str(owner_module).startswith(
            "torch._C"
        )
    return False


def breaks_at_its_call(globals: dict) -> bool:
    """Code that Python runs whole where any part of it breaks: library code, but for the modules of torch.nn.

    The inside of an optimizer or of `torch.func` is nothing that users can change, and its pieces are not worth compiling.
    """
    name = globals.get("__name__", "")
    if is_torch_name(name):
        return not is_within(name, ("torch.nn",)) or name == "torch.nn.modules.rnn"
    return name != "__main__" and is_library_name(name)
