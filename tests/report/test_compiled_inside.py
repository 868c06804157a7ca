"""What is said of a compiled module that another compiled function calls: the user's own frames and functions, none of ours."""

import dynascope
import pytest
import torch
from dynascope import recording
from dynascope.report.findings import findings


class Gate(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x * 2
        return x


@pytest.mark.expects("data-dependent-branch")
def test_no_frame_and_no_function_is_ours(tmp_path):
    gate = dynascope.compile(Gate(), backend="eager")

    @dynascope.compile(backend="eager")
    def loss(x):
        return gate(x).square().mean()

    recorder = recording.Recorder(__file__)
    before = recording.use(recorder)
    try:
        loss(torch.ones(2))
    finally:
        recording.use(before)
    report = recorder.report()
    (finding,) = [finding for finding in findings(report) if finding.kind == "break"]
    assert [frame.span.file for frame in finding.stack] == [__file__] * 2
    assert {function.span.file for function in report.functions} == {__file__}


def test_a_compiled_module_is_part_of_the_graph_of_its_caller():
    doubled = dynascope.compile(torch.nn.Linear(2, 2), backend="eager")
    explanation = dynascope.explain(lambda x: doubled(x).square().mean())(torch.ones(2))
    assert " 1 graph, 0 breaks" in str(explanation)
