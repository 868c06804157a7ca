"""Operators of the program's own that write to operands, as operators that give the new contents.

    torch.ops.mine.add_into(x, out)                 out changes
    new = dynascope_new_contents.mine_58__58_add__into_1(x, out)          on a copy of `out`

They stand in the namespace `dynascope_new_contents`, so that they are taken for the program's: they run in its order, each once,
whoever reads what they give. There is one for each operator and for how many tensors its operands that are lists or left out have.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import torch

from dynascope.grad.operators import Traits
from dynascope.grad.reasons import DifferentiationRefused, UnsupportedMutation

if TYPE_CHECKING:
    from dynascope.grad.record import Recorder

NAMESPACE = "dynascope_new_contents"
LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
_NAMES: set[str] = set()
_ALIAS = re.compile(r"Tensor\([^)]*\)")


def written(recorder: Recorder, func: Any, facts: Traits, args: Any, kwargs: dict[str, Any]) -> Any:
    """Records the call, and gives what it returns. Raises `DifferentiationRefused` where its schema or its operands say too little."""
    name = func.name().replace("::", ".")
    operands = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
    targets = {each: _tensors(operands.get(each)) for each in facts.writes}
    makes = len(_made(func))
    functional = _functional(func, tuple(map(len, targets.values())))
    if functional is None:
        raise DifferentiationRefused(UnsupportedMutation(name, "its schema does not say what it returns"))
    changed = [tensor for each in targets.values() for tensor in each]
    cells = [id(recorder.memory.cell(tensor)) for data in operands.values() for tensor in _tensors(data)]
    if any(cells.count(id(recorder.memory.cell(tensor))) > 1 for tensor in changed):
        raise DifferentiationRefused(UnsupportedMutation(name, "it writes to what another operand shows"))
    results = recorder.builder.op(functional, *recorder.values(args), **recorder.keywords(kwargs))
    results = results if isinstance(results, tuple) else () if results is None else (results,)
    for tensor, value in zip(changed, results[makes:], strict=True):
        recorder.memory.write(tensor, value, name)
    if not torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "ADInplaceOrView"):
        torch.autograd.graph.increment_version(changed)  # eager's kernels count their writes themselves
    made = iter(recorder.wrap(results[:makes]))
    written_by_set = {_set_of(each): operands[each.name] for each in func._schema.arguments if each.name in targets}
    returned = tuple(
        next(made) if each.alias_info is None else written_by_set[_set_of(each)] for each in func._schema.returns
    )
    return returned if len(returned) > 1 else next(iter(returned), None)


@functools.cache
def _functional(operator: Any, counts: tuple[int, ...]) -> Any:
    """With so many tensors written to by each operand that the schema says is; None where a result is no tensor, or a view."""
    schema = operator._schema
    made = _made(operator)
    places = [at for at, each in enumerate(schema.arguments) if each.is_write]
    sets = [_set_of(schema.arguments[at]) for at in places]
    if any(str(each.type) != "Tensor" or (each.alias_info and _set_of(each) not in sets) for each in schema.returns):
        return None
    names = [each.name for each in schema.arguments]
    given = _ALIAS.sub("Tensor", str(schema).partition("(")[2].rpartition(") -> ")[0])
    name = "_".join([re.sub(r"\W", lambda sign: f"_{ord(sign[0])}_", operator.name().replace("_", "__")), *map(str, counts)])
    while name in _NAMES:  # a library was registered anew; of two operators names differ, also in another process
        name += "_"
    _NAMES.add(name)
    LIBRARY.define(f"{name}({given}) -> ({', '.join(['Tensor'] * (len(made) + sum(counts)))})")

    def run(*args: Any, **kwargs: Any) -> Any:
        changed = [
            operand for at in places for operand in _tensors(args[at] if at < len(args) else kwargs.get(names[at]))
        ]
        copies = {id(tensor): _copy(tensor) for tensor in changed}
        put = lambda data: _with_copies(data, copies)  # noqa: E731
        result = operator(
            *(put(each) if at in places else each for at, each in enumerate(args)),
            **{key: put(each) if names.index(key) in places else each for key, each in kwargs.items()},
        )
        returned = result if isinstance(result, tuple) else (result,)
        results = (*(returned[at] for at in made), *(copies[id(tensor)] for tensor in changed))
        return results if len(results) > 1 else next(iter(results), None)

    LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    LIBRARY.impl(name, run, "Meta")
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _made(operator: Any) -> list[int]:
    """The places among its results of those that are tensors of their own."""
    return [at for at, each in enumerate(operator._schema.returns) if each.alias_info is None]


def _set_of(argument: Any) -> Any:
    return frozenset(argument.alias_info.before_set)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Of the same strides."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _with_copies(data: Any, copies: dict[int, torch.Tensor]) -> Any:
    if isinstance(data, torch.Tensor):
        return copies[id(data)]
    return [_with_copies(each, copies) for each in data] if isinstance(data, (list, tuple)) else data


def _tensors(data: Any) -> list[torch.Tensor]:
    if isinstance(data, torch.Tensor):
        return [data]
    return [each for each in data if isinstance(each, torch.Tensor)] if isinstance(data, (list, tuple)) else []
