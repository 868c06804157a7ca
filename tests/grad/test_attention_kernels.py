"""Which kernel a CUDA attention becomes, and how its gradients are laid out. On meta tensors, so that no GPU is needed."""

from __future__ import annotations

import pytest
import torch
from dynascope.grad.attention import CUDA_ATTENTION, CUDNN, EFFICIENT, FLASH, with_fused_dropout
from dynascope.grad.decompose import table_for
from dynascope.grad.options import GradOptions
from dynascope.grad.record import Recorder
from dynascope.grad.tape import layout_of

OPERATORS = {FLASH: "flash_attention", EFFICIENT: "efficient_attention", CUDNN: "cudnn_attention"}


def operands(size: int, dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    return [torch.empty(2, 4, 32, size, dtype=dtype, device="meta", requires_grad=True) for _ in range(3)]


def options(**given):
    return {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False} | given


class Calls(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def recorded(choice, inputs, given):
    with Calls() as seen:
        out = CUDA_ATTENTION[choice](*inputs, given)
    (call,) = (call for call in seen.calls if "scaled_dot_product" in str(call[0]))
    assert OPERATORS[choice] in str(call[0])
    return out, call


@pytest.mark.parametrize("choice", [FLASH, CUDNN])
def test_gradients_lie_as_the_operands(choice):
    """A sequence of matmuls would give the keys' gradient transposed: strides (8192, 2048, 1, 32)."""
    inputs = operands(64)
    out, _ = recorded(choice, inputs, options(is_causal=True))
    gradients = torch.autograd.grad(out, inputs, torch.empty_like(out))
    assert [g.stride() for g in (out, *gradients)] == [(8192, 2048, 64, 1)] * 4


@pytest.mark.parametrize("choice", [FLASH, CUDNN, EFFICIENT])
def test_a_recording_of_the_kernel_and_its_backward_kernel(choice):
    """The kernels give numbers beside tensors, which their backward kernels take."""
    with Recorder(table_for(GradOptions()), torch.device("cuda")) as recorder:
        leaves = [
            recorder.placeholder(layout_of(tensor, tensor.device), 0, "x")[1].requires_grad_()
            for tensor in operands(64)
        ]
        out = CUDA_ATTENTION[choice](*leaves, options())
        torch.autograd.grad(out, leaves, recorder.wrap(recorder.value(out)))
    targets = [str(step.target) for step in recorder.tape.steps]
    assert any("attention_backward" in target for target in targets)


def test_flash_fills_heads_up_and_keeps_their_scale():
    out, (_, arguments, keywords) = recorded(FLASH, operands(60), options())
    assert arguments[0].shape[-1] == 64 and out.shape[-1] == 60
    assert keywords["scale"] == pytest.approx(60**-0.5)


def test_masks_of_odd_width_are_aligned():
    query, key, value = operands(64)
    key, value = key[:, :, :27], value[:, :, :27]
    mask = torch.empty(32, 27, dtype=torch.bool, device="meta")
    _, (_, arguments, _) = recorded(EFFICIENT, [query, key, value], options(attn_mask=mask))
    assert arguments[3].shape == (2, 4, 32, 27) and arguments[3].stride()[2:] == (32, 1)


def test_cudnn_masks_are_finite(monkeypatch):
    filled = []
    where = torch.where
    monkeypatch.setattr(torch, "where", lambda *arguments: filled.append(arguments[2]) or where(*arguments))
    mask = torch.empty(32, 32, dtype=torch.bool, device="meta")
    recorded(CUDNN, operands(64), options(attn_mask=mask))
    assert filled == [-65504.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(
    "given",
    [{}, {"is_causal": True}, {"scale": 0.3}, {"scale": -2.0}, {"enable_gqa": True}, {"attn_mask": True}],
    ids=lambda given: "-".join(map(str, given)),
)
def test_steps_around_a_fused_dropout_are_torchs(given, dtype):
    """With nothing to drop: values, and how the result and the gradients are laid out."""
    heads = 2 if given.get("enable_gqa") else 4
    torch.manual_seed(0)
    query = torch.randn(2, 6, 4, 8, dtype=dtype).transpose(1, 2)
    key, value = (torch.randn(2, heads, 5, 8, dtype=dtype) for _ in range(2))
    mask = torch.randn(4, 6, 5, dtype=dtype).transpose(0, 2).contiguous().transpose(0, 2) if "attn_mask" in given else None
    inputs = [each.requires_grad_() for each in (query, key, value, *([] if mask is None else [mask]))]
    every = options(**given | {"attn_mask": mask})
    found = with_fused_dropout(query, key, value, every)
    expected = torch.ops.aten._scaled_dot_product_attention_math(query, key, value, **every)[0]
    for one, other in zip(
        (found, *torch.autograd.grad(found.sum(), inputs)), (expected, *torch.autograd.grad(expected.sum(), inputs)), strict=True
    ):
        assert torch.equal(one, other) and one.stride() == other.stride() and one.dtype == other.dtype
