"""What a report calls the tensors of a graph: as the program does, or not at all."""

import dynascope
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

    def forward(self, batch):
        x = batch["x"]
        scores = torch.exp(self.layers[0](x)) * 0.5
        return torch.sigmoid(self.layers[1](scores)) + 1


def test_inputs_variables_and_what_has_no_name():
    model = Gate()
    explained = dynascope.explain(dynascope.compile(model), {"x": torch.randn(4, 8, requires_grad=True)})
    (graph,) = explained.report.graphs
    forward = [step for step in graph.steps if step.phase == "forward"]
    given = {tensor.called for step in forward for tensor in step.reads if tensor.is_given}
    weights = {f"self.layers[{n}].{name}" for n in (0, 1) for name in ("weight", "bias")}
    assert given == {"batch['x']", *weights}
    made = {tensor.called for step in forward for tensor in step.writes}
    assert made == {"scores", ""}
    backward = [tensor for step in graph.steps if step.phase == "backward" for tensor in step.reads if tensor.is_given]
    assert "batch['x']" in {tensor.called for tensor in backward}
    assert all(not tensor.called for step in graph.steps if step.phase == "backward" for tensor in step.writes)
