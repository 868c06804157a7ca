"""Torch's meta kernels that are written in Python, asked once for each layout of their operands.

    with used(torch.layer_norm, given):      48 equal blocks: the layer norm of the first one is computed, those of the
        torch.layer_norm(x, ...)             others are known; `given` are the warnings noted meanwhile

Such a kernel takes from 0.2 to 4 ms, an operator's own in C++ a few microseconds. It is a function of its operands' layouts and
of its other arguments, since meta tensors have nothing else; what it gives is made anew each time. Autograd stands above and sees
the same operators as ever.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dynascope.meta_kernels import autocast
from dynascope.meta_kernels.frozen import frozen, plain

META = torch.device("meta")
LIMIT = 20_000
PLAIN = (int, bool, float, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)

Layout = tuple[torch.Size, tuple[int, ...], torch.dtype]
"""Sizes, strides and type of a tensor that begins where its memory does."""

_KNOWN: dict[Any, tuple[Layout, ...]] = {}
_ALL_IN_CXX: set[Any] = set()
"""What was called once and asked no kernel in Python that could be known: the mode would only cost."""
LASTING = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, torch._ops.OpOverload)
"""What is there as long as torch is; a graph of the program's own is not kept for having been called."""


@contextmanager
def used(target: Any, warned: Sequence[Any]) -> Iterator[None]:
    """While `target` runs. A kernel that warns is asked each time: `warned` holds what was said until the end."""
    if target in _ALL_IN_CXX:
        yield
        return
    mode = _Known()
    with mode:
        yield
    if not mode.asked:
        if isinstance(target, LASTING):
            _ALL_IN_CXX.add(target)
    elif mode.found and not warned:
        if len(_KNOWN) >= LIMIT:
            _KNOWN.clear()
        _KNOWN.update(mode.found)


class _Known(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.asked = False
        self.found: dict[Any, tuple[Layout, ...]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, classes: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not _is_a_function_of_layouts(func):
            with autocast.resumed():  # its kernel calls what it calls without this mode
                return func(*args, **kwargs)
        self.asked = True
        try:
            key = (func, frozen(args, _leaf), frozen(kwargs, _leaf), torch.get_default_dtype())
            known = _KNOWN.get(key)
        except _Unknown:
            return func(*args, **kwargs)
        if known is not None:
            return _made(func, known)
        result = func(*args, **kwargs)
        operands = (each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor))
        layouts = _layouts(result, {each.untyped_storage()._cdata for each in operands})
        if layouts is not None:
            self.found[key] = layouts
        return result


@functools.cache
def _is_a_function_of_layouts(func: Any) -> bool:
    """Whether its kernel is in Python, and its results are new tensors, as many as the schema says, whatever operands hold."""
    if torch._C.DispatchKey.Meta not in func.py_kernels or func.is_view or func.namespace != "aten":
        return False
    schema, tags = func._schema, func.tags
    if torch.Tag.dynamic_output_shape in tags or torch.Tag.data_dependent_output in tags:
        return False
    aliases = any(each.alias_info is not None for each in (*schema.arguments, *schema.returns))
    return not aliases and bool(schema.returns) and all(str(each.type) == "Tensor" for each in schema.returns)


class _Unknown(Exception):
    """An argument that is not compared."""


def _leaf(data: Any) -> Any:
    if isinstance(data, torch.Tensor):
        if data.device != META or type(data) not in (torch.Tensor, torch.nn.Parameter) or data.layout is not torch.strided:
            raise _Unknown
        return data.shape, data.stride(), data.dtype, data.is_conj(), data.is_neg()
    if type(data) not in PLAIN:
        raise _Unknown
    return plain(data)


def _layouts(result: Any, of_operands: set[int]) -> tuple[Layout, ...] | None:
    """None where making them anew would not give the same: in the operands' memory, in one for several, or otherwise special."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    if not all(map(_is_new, results)):
        return None
    memories = {each.untyped_storage()._cdata for each in results}
    if len(memories) < len(results) or memories & of_operands:
        return None
    return tuple((each.shape, each.stride(), each.dtype) for each in results)


def _is_new(tensor: torch.Tensor) -> bool:
    is_plain = type(tensor) is torch.Tensor and tensor.device == META and tensor.layout is torch.strided
    return is_plain and not (tensor.storage_offset() or tensor.is_conj() or tensor.is_neg() or tensor.is_quantized)


def _made(func: Any, layouts: tuple[Layout, ...]) -> Any:
    made = tuple(torch.empty_strided(sizes, strides, dtype=dtype, device=META) for sizes, strides, dtype in layouts)
    return made if len(func._schema.returns) > 1 else made[0]
