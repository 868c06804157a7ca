"""Random calls of what torch offers on tensors, right and wrong ones, compiled against eager.

    written(7)                     ->  ("torch.rand(2, 3)", "subject.sum(dim=1, keepdim=True)")
    differs(7, "dynascope")        ->  None, or what the two gave

Names are those that `dir` finds, arguments are drawn. Compared are values, dtypes, shapes, strides, which results are the
subject's memory, the subject afterwards, and the kind of the exception.
"""

from __future__ import annotations

import inspect
import random
import warnings
from typing import Any

import dynascope
import torch
from calls_of_python import DEFECTS
from dynascope.command.explain import codes

SUBJECTS = [
    *("torch.arange(6.0).reshape(2, 3) - 2", "torch.arange(6.0).reshape(3, 2).t()", "torch.tensor([0.5, -1.5, 2.0])"),
    *("torch.tensor(1.5)", "torch.empty(0, 3)", "torch.ones(1, 3).expand(2, 3)", "torch.arange(24.0).reshape(2, 3, 4)[:, 1:, ::2]"),
    *("torch.arange(6).reshape(2, 3)", "torch.tensor([3, 0, 2])", "torch.tensor(2)", "torch.tensor([[True, False], [False, True]])"),
    *("torch.arange(4.0).to(torch.bfloat16)", "torch.tensor([1.0, 2.0], dtype=torch.float64)", "torch.tensor([1 + 2j, 3 - 1j])"),
    *("torch.arange(16.0).reshape(1, 2, 2, 4)", "torch.eye(3) + 0.1", "torch.tensor([1, 2], dtype=torch.uint8)"),
]
NUMBERS = ["0", "1", "2", "-1", "3", "0.5", "-2.0", "True", "None"]
ARGUMENTS = [
    *NUMBERS,
    *("(0, 1)", "(1,)", "[2, 3]", "(-1,)", "()", "'mean'", "'ij,jk->ik'", "float('nan')", "slice(0, 2)"),
    *("torch.float64", "torch.int64", "torch.bool", "torch.float32"),
    *("torch.tensor([0, 1])", "torch.tensor([True, False, True])", "torch.tensor([[0, 1, 0]])", "torch.tensor(2)"),
    *("[subject, subject]", "(subject, torch.ones(2, 3))", "lambda v: v"),
]
KEYWORDS = ["dim=0", "dim=-1", "dim=(0, 1)", "dim=1", "keepdim=True", "dtype=torch.float64", "dtype=torch.int32", "value=2", "out=other"]
KEYWORDS += ["alpha=2", "rounding_mode='floor'", "descending=True", "unbiased=False", "correction=0", "right=True", "inplace=True"]
NOT_TRIED = """
    cuda xpu ipu hpu mtia cpu share_memory_ is_shared data_ptr untyped_storage storage backward register_hook retain_grad grad
    set_ resize_ resize_as_ resize map_ map2_ apply_ numpy tolist item pin_memory is_pinned to_sparse to_mkldnn __reduce_ex__
    __reduce__ __setstate__ __class__ __new__ __init__ __init_subclass__ __subclasshook__ __dir__ __doc__ __dict__ __weakref__
    __module__ __torch_function__ __torch_dispatch__ __deepcopy__ __format__ __repr__ __str__ __hash__ __array__ __array_wrap__
    __dlpack__ __dlpack_device__ __getattribute__ __setattr__ __delattr__ __sizeof__ __getstate__ __cuda_array_interface__
    detach_ requires_grad requires_grad_ data names rename rename_ align_to refine_names volatile shape imag real empty_like empty
    empty_strided empty_permuted new_empty new_empty_strided empty_quantized dropout dropout_ register_post_accumulate_grad_hook
    random_ uniform_ normal_ exponential_ cauchy_ geometric_ log_normal_ bernoulli bernoulli_ multinomial to_dense T H mT mH
    module_load as_subclass grad_fn _version to_padded_tensor dequantize q_scale q_zero_point int_repr eig lstsq solve symeig
    """.split()  # noqa: SIM905
WORDS_NOT_TRIED = ("quant", "ptr", "sparse", "rand", "storage", "_cuda", "coalesce", "indices", "values", "crow", "ccol", "_grad")


def written(seed: int) -> tuple[str, str]:
    source = random.Random(seed)
    given = [_argument(source) for _ in range(source.choice((0, 0, 1, 1, 1, 2, 2, 3)))]
    if source.random() < 0.3:
        given.append(source.choice(KEYWORDS))
    where, names = source.choice(PLACES)
    name = source.choice(names)
    if where == "subject":
        call = f"subject.{name}({', '.join(given)})" if callable(getattr(torch.Tensor, name, None)) else f"subject.{name}"
    else:
        call = f"{where}.{name}({', '.join(['subject', *given])})"
    return source.choice(SUBJECTS), call


def _argument(source: random.Random) -> str:
    kind = source.random()
    if kind < 0.25:
        return source.choice(("other", "subject"))
    return source.choice(NUMBERS if kind < 0.7 else ARGUMENTS)


def _names(place: Any) -> list[str]:
    found = [name for name in dir(place) if name not in NOT_TRIED and not any(word in name for word in WORDS_NOT_TRIED)]
    if place is torch.Tensor:
        return [name for name in found if not name.startswith("_") or name.startswith("__")]
    kinds = (torch.nn.functional.relu, torch.add, torch.nn.functional.linear, torch.relu)
    return [
        name for name in found
        if not name.startswith("_") and isinstance(getattr(place, name), tuple({type(each) for each in kinds}))
        and _takes_tensors(getattr(place, name))
    ]  # fmt: skip


def _takes_tensors(function: Any) -> bool:
    """torch's namespace holds much that is about its own state."""
    in_python = inspect.isfunction(function)
    if not in_python:
        return function in OVERRIDABLE
    return function in OVERRIDABLE and "generator" not in inspect.signature(function).parameters


OVERRIDABLE = {function for functions in torch.overrides.get_overridable_functions().values() for function in functions}
PLACES = [
    ("subject", _names(torch.Tensor)),
    ("torch", _names(torch)),
    ("torch.nn.functional", _names(torch.nn.functional)),
    ("torch.linalg", _names(torch.linalg)),
    ("torch.special", _names(torch.special)),
]
PROGRAM = """
def program(subject, other):
    try:
        found = {call}
    except Exception as error:
        found = type(error).__name__
    return found
"""


def differs(seed: int, backend: str = "eager") -> str | None:
    subject, call = written(seed)
    space = {"torch": torch}
    exec(compile(PROGRAM.format(call=call), f"<call of seed {seed}>", "exec"), space)
    plain, ours = (_given_by(space["program"], subject, each) for each in (None, backend))
    return None if plain == ours else f"seed {seed}: subject = {subject}; {call}\n  plain {plain}\n  ours  {ours}"


def _given_by(program: Any, subject: str, backend: str | None) -> Any:
    torch.manual_seed(0)
    given = [eval(subject, {"torch": torch}), torch.arange(6.0).reshape(2, 3)]
    function = dynascope.compile(program, backend=backend, options={"strict": True}) if backend else program
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with dynascope.expected(*set(codes()) - set(DEFECTS), required=False):
                found = function(*given)
            return _facts(found, given), [_facts(each, given) for each in given]
        except Exception as error:
            return "raised", type(error).__name__, str(error)[:600]
        finally:
            dynascope.reset()


def _facts(thing: Any, given: list[torch.Tensor]) -> Any:
    if isinstance(thing, torch.Tensor):
        memory = [thing.untyped_storage().data_ptr() == each.untyped_storage().data_ptr() for each in given] if thing.numel() else []
        values = thing.detach().cpu().to(torch.complex128 if thing.is_complex() else torch.float64).reshape(-1).tolist()
        rounded = [_rounded(value, thing.dtype) for value in values]
        return type(thing).__name__, str(thing.dtype), tuple(thing.shape), thing.stride(), memory, rounded
    if isinstance(thing, (list, tuple)):
        return type(thing).__qualname__, [_facts(each, given) for each in thing]
    if isinstance(thing, float):
        return "float", _rounded(thing, torch.float32)
    return type(thing).__qualname__, repr(thing) if isinstance(thing, (int, str, torch.dtype, torch.device, type(None))) else ""


def _rounded(value: complex, dtype: torch.dtype) -> str:
    """Kernels may round otherwise in the last places."""
    digits = {torch.float64: 9, torch.complex128: 9, torch.bfloat16: 1, torch.float16: 2}.get(dtype, 4)
    if isinstance(value, complex):
        return f"{_rounded(value.real, dtype)}+{_rounded(value.imag, dtype)}j"
    return f"{value:.{digits}g}" if value else "0"
