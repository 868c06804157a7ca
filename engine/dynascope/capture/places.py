"""Which code is whose: what is an operation of torch, what is read as Python, what counts as never changing.

- Functions of `torch`, `torch.nn.functional` and the like are operations: one node, never read.
- Modules of `torch.nn` and the context managers of torch are Python, read like the user's.
- The names of torch and of the standard library are taken as fixed; those of the user's modules are guarded.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
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


CONSTANT_TYPES = (*STABLE_TYPES, bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.layout)


def is_constant(thing: Any) -> bool:
    """What a name of a library can lead to without anything further to ask of it. Its type is asked, as everywhere where the program may
    have made the thing: `isinstance` asks that for its `__class__`."""
    return issubclass(type(thing), CONSTANT_TYPES)


def module_name(thing: Any) -> str:
    name = getattr(thing, "__module__", None)
    return name if isinstance(name, str) else ""


def is_within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def is_torch_name(name: str) -> bool:
    return name == "torch" or name.startswith("torch.")


def is_library_name(name: str) -> bool:
    """Torch, the standard library, or capture's own Python equivalents: code that users do not edit.

    A user's `profile.py` has the name of a module of the standard library, and is none.
    """
    if name.startswith("dynascope.capture"):
        return True
    root = name.partition(".")[0]
    if root != "torch" and (root not in STANDARD_LIBRARY or root == "__main__"):
        return False
    module = sys.modules.get(root)
    return module is not None and is_library(vars(module))


def is_library(globals: dict) -> bool:
    """The same of a module's dictionary, by where the module was loaded from."""
    name = globals.get("__name__", "")
    root = name.partition(".")[0] if isinstance(name, str) else ""
    if root != "torch" and root != "dynascope" and root not in STANDARD_LIBRARY or root == "__main__":
        return False
    if root == "dynascope":
        return name.startswith("dynascope.capture")
    file = globals.get("__file__")
    if isinstance(file, str):
        return _is_library_file(file)
    return getattr(globals.get("__spec__"), "origin", None) in ("built-in", "frozen")


@functools.lru_cache(maxsize=4096)
def _is_library_file(file: str) -> bool:
    if is_below(file, os.path.dirname(torch.__file__)):
        return True
    return any(is_below(file, folder) for folder in _STANDARD_FOLDERS) and "-packages" + os.sep not in file


def is_below(file: str, folder: str) -> bool:
    return os.path.abspath(file).startswith(os.path.join(os.path.abspath(folder), ""))


_STANDARD_FOLDERS = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(os.__file__)}


def is_own(globals: dict) -> bool:
    """Whether code with these globals is the user's, or of a package that the user may read: no library code."""
    return not is_library(globals)


def is_engine(globals: dict) -> bool:
    """Whether code with these globals is ours, such as what calls a compiled module."""
    name = globals.get("__name__", "")
    return isinstance(name, str) and name.partition(".")[0] == "dynascope"


def is_torch_operation(thing: Any) -> bool:
    """A function that becomes one node."""
    if isinstance(thing, (torch._ops.OpOverloadPacket, torch._ops.OpOverload)):
        return True
    if isinstance(thing, types.FunctionType):
        # What a user wraps with `functools.wraps` has the name of what it wraps.
        return thing.__module__ in OPERATION_MODULES and not is_own_wrapper(thing)
    if isinstance(thing, types.BuiltinFunctionType):
        owner = thing.__self__
        owner_module = getattr(owner, "__module__", None) or getattr(owner, "__name__", "")
        return is_within(str(module_name(thing) or owner_module), ("torch",)) or str(owner_module).startswith(
            "torch._C"
        )
    return False


def is_own_wrapper(function: types.FunctionType) -> bool:
    name = function.__globals__.get("__name__", "")
    return name != "typing_extensions" and is_own(function.__globals__)


def averages_gradients(cls: type) -> bool:
    """Whether objects of the class are DistributedDataParallel's, which do something for all ranks at once around the module inside. By
    identity: a question to an abstract class would ask a metaclass of the program's for its `__hash__`."""
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    return parallel is not None and any(base is parallel.DistributedDataParallel for base in cls.__mro__)


BREAKING_WHOLE = ("torch.nn.modules.rnn", "torch.nn.attention.flex_attention", "torch.nn.parallel.distributed")

AROUND_USERS = ("contextlib", "torch.utils._contextlib", "torch.amp.autocast_mode")
"""What `@torch.no_grad()`, `@torch.autocast("cpu")` and decorators like them put around a function: what breaks is inside that, and the
rest of it is compiled."""


def breaks_at_its_call(globals: dict) -> bool:
    """Code that Python runs whole where any part of it breaks: library code, but for the modules of torch.nn.

    The inside of an optimizer or of `torch.func` is nothing that users can change, and its pieces are not worth compiling.
    """
    if not is_library(globals):
        return False
    name = globals["__name__"]
    if name in AROUND_USERS:
        return False
    return not (is_torch_name(name) and is_within(name, ("torch.nn",))) or name in BREAKING_WHOLE


def knows_torch(globals: dict) -> bool:
    """Whether names of a module lead to something of torch's."""
    return any(is_of_torch(thing) for thing in list(globals.values()))


def is_of_torch(thing: Any) -> bool:
    name = thing.__name__ if type(thing) is types.ModuleType else module_name(thing)
    return is_torch_name(name) or isinstance(thing, (torch.Tensor, torch.nn.Module))
