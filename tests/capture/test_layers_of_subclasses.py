"""A layer whose weights have behaviour of their own (tensor parallel's DTensor) is one break, at its call, in the program's words."""

import dynascope
import pytest
import torch
from dynascope import recording
from dynascope.report.findings import findings
from torch import nn
from torch.utils._pytree import tree_map


class Logged(torch.Tensor):
    """A weight that is more than its elements, as a DTensor is."""

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, requires_grad=False)

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        bare = [tree_map(lambda each: each.held if isinstance(each, Logged) else each, given) for given in (args, kwargs or {})]
        result = function(*bare[0], **bare[1])
        return cls(result) if function is torch.ops.aten.detach.default else result


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(4), nn.Linear(4, 8), nn.Linear(8, 4)
        for layer in (self.up, self.down):
            layer.weight = nn.Parameter(Logged(layer.weight.detach()), requires_grad=False)
            layer.register_forward_pre_hook(lambda module, args: args)
            layer.register_forward_hook(lambda module, args, result: result * 1)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


@pytest.mark.expects("tensor-subclass")
def test_it_is_one_break_at_its_call(tmp_path):
    model = nn.Sequential(Block(), Block())
    x = torch.randn(3, 4)
    recorder = recording.Recorder(__file__)
    before = recording.use(recorder)
    try:
        torch.testing.assert_close(dynascope.compile(model, backend="eager")(x), model(x))
    finally:
        recording.use(before)
    breaks = [each for each in findings(recorder.report()) if each.kind == "break"]
    own = [each.message.partition(" computes with")[0] for each in breaks]
    assert sorted(own) == ["`self.down(torch.relu(self.up(self.norm(x))))`", "`self.up(self.norm(x))`"]
    assert all("its `weight`, a Logged" in each.message for each in breaks), "hooks are no part of it"
