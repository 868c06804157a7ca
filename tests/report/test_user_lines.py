"""Where facts land when the work is done by library code: the call, `torch.compile`, the line that built the layer."""

import textwrap

import dynascope
import pytest
import torch
from dynascope import recording
from dynascope.capture.layers import note_registrations
from dynascope.report.findings import findings
from dynascope.report.user_files import user_places
from dynascope.report.variants import chosen_variant, fitted_title, one_variant, variants_of
from torch import nn

PROGRAM = """
import torch
from torch import nn
import dynascope

def train(model, batch):
    return model(batch)

model = nn.Sequential(
    nn.Linear(4, 8),
    nn.ReLU(),
    nn.Linear(8, 2),
)
compiled = dynascope.compile(model, backend=BACKEND)
train(compiled, torch.ones(3, 4))
train(compiled, torch.ones(5, 4))
with torch.no_grad():
    train(compiled, torch.ones(3, 4))
"""


@pytest.fixture
def report_of(tmp_path):
    """Of a program that is a file of its own, run with a recorder as `dynascope run` does."""
    note_registrations()

    def run(text, backend="eager"):
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(text).strip() + "\n")
        recorder = recording.Recorder(str(file))
        before = recording.use(recorder)
        try:
            exec(compile(file.read_text(), str(file), "exec"), {"__name__": "__main__", "BACKEND": backend})
        finally:
            recording.use(before)
        return recorder.report()

    return run


def line_of(text, report):
    with open(report.program.file) as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def test_library_work_lands_on_the_call_and_on_the_layers(report_of):
    report = report_of(PROGRAM)
    (function,) = report.functions
    assert function.compiled_at.line == line_of("dynascope.compile", report)
    call = line_of("return model(batch)", report)
    for entry in function.entries:
        assert [frame.span.line for frame in entry.callers][-1] == call
    places = {
        value.operation: [span.line for span in user_places(value.span, value.stack)]
        for value in report.graphs[0].values
    }
    assert places["relu"] == [call, line_of("nn.ReLU()", report)]
    linears = [v for v in report.graphs[0].values if v.operation == "linear"]
    assert [user_places(v.span, v.stack)[1].line for v in linears] == [
        line_of("nn.Linear(4, 8)", report),
        line_of("nn.Linear(8, 2)", report),
    ]


def test_kernels_and_library_calls_land_there_too(report_of):
    pytest.importorskip("shutil").which("g++") or pytest.skip("no compiler")
    report = report_of(PROGRAM, backend="dynascope")
    call, relu = line_of("return model(batch)", report), line_of("nn.ReLU()", report)
    assert {call, relu} <= {span.line for kernel in report.kernels for span in kernel.spans}
    externs = [extern for graph in report.graphs for extern in graph.externs]
    assert line_of("nn.Linear(4, 8)", report) in {span.line for extern in externs for span in extern.spans}


def test_the_arguments_of_a_librarys_function_have_the_users_names(report_of):
    report = report_of(PROGRAM)
    checks = [guard.check for entry in report.functions[0].entries for guard in entry.guards]
    assert any(check.startswith("`batch` is a float32 tensor of shape [3, 4]") for check in checks)
    assert any(check.startswith("`model[0].weight`") for check in checks)
    assert not any("`input`" in check or "`self" in check for check in checks)


def test_variants_say_what_sets_them_apart(report_of):
    report = report_of(PROGRAM)
    variants = variants_of(report.functions[0])
    assert [variant.number for variant in variants] == [1, 2, 3]
    assert "batch f32[3, 4]" in variants[0].label and "batch f32[s0, 4]" in variants[1].label
    assert "gradients off" in variants[2].label
    assert chosen_variant(report.functions[0]).number == 3, "the last used"
    chosen = one_variant(report, {"f0.e1"})
    assert [graph.identifier for graph in chosen.graphs] == ["g1"]
    assert {value.description for value in chosen.graphs[0].values} == {"f32[s0, 8]", "f32[s0, 2]"}


def test_variants_of_one_shape_are_told_apart_by_what_was_asked_of_a_number(report_of):
    report = report_of("""
        import torch, dynascope

        class Options:
            name = "relu"

        @dynascope.compile(backend="eager")
        def f(x, step, options):
            return getattr(torch, options.name)(x) * step if step % 5 == 0 else x + step

        options = Options()
        for step in (1, 2, 3, 5, 10):
            f(torch.ones(3), step, options)
    """)
    labels = [variant.label for variant in variants_of(report.functions[0])]
    assert len(labels) == 3 and labels[0].startswith("step = 1")
    assert "(step % 5) != 0" in labels[1] and "(step % 5) == 0" in labels[2]
    assert not any("options" in label for label in labels)


def test_a_short_title_begins_with_what_sets_the_variant_apart(report_of):
    report = report_of("""
        import torch, dynascope

        @dynascope.compile(backend="eager")
        def decode(tokens, past, cache):
            return tokens.sum() + past if cache is None else cache[0].sum() * tokens.sum() + past

        decode(torch.ones(1, 5), 0, None)
        for n in (5, 6, 7):
            decode(torch.ones(1, 1), n, (torch.ones(n, 2), torch.ones(n, 2)))
    """)
    variants = variants_of(report.functions[0])
    titles = [fitted_title(variant, 50) for variant in variants]
    assert len(set(titles)) == len(variants) == 3 and all(len(title) <= 50 for title in titles)
    assert fitted_title(variants[0], 500) == variants[0].title


def test_one_finding_a_cause(report_of):
    report = report_of("""
        import torch, dynascope

        @dynascope.compile(backend="eager")
        def f(x, flag):
            return x + 1 if flag == "a" else x - 1

        for flag in ("a", "b", "c", "d"):
            f(torch.ones(3), flag)
    """)
    (finding,) = findings(report)
    assert finding.kind == "recompile" and finding.times == 3
    assert "`flag` was 'a', 'b', 'c', 'd' (a varying value)" in finding.message
    changes = [entry.change for entry in report.functions[0].entries]
    assert changes[0] is None and changes[1].cause == "value"


def test_stack_slots_have_the_users_words(report_of):
    report = report_of("""
        import torch, dynascope

        @dynascope.compile(backend=lambda graph, inputs: graph.forward)
        def f(x, y):
            return x.exp() * y[x > 0].sum() + [print(n) or x * n for n in (1, 2)][0]

        f(torch.ones(3), torch.ones(3))
        f(torch.tensor([1.0, -1.0, 1.0]), torch.ones(3))
    """)
    told = [guard.check for function in report.functions for entry in function.entries for guard in entry.guards]
    told += [finding.message for finding in findings(report)]
    assert not [text for text in told if "__stack" in text]
    assert any("`y[x > 0]`" in text for text in told) and any("`x.exp()`" in text for text in told)


def test_a_variable_is_called_as_the_line_calls_it(report_of):
    report = report_of("""
        import torch, dynascope

        @dynascope.compile(backend="eager")
        def f(x):
            q, k = x.split(2)
            total = (q @ k.T).sum()
            return total + 1

        f(torch.ones(4, 2))
    """)
    names = {value.name: value.variable for value in report.graphs[0].values}
    assert {"q", "k", "total"} <= set(names.values())


def test_a_librarys_names_are_not_the_users():
    report = dynascope.explain(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), torch.ones(4, 2)).report
    values = [value for graph in report.graphs for value in graph.values]
    assert values and {value.variable for value in values} == {None}
