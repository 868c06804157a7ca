"""`dynascope compare` and `dynascope backends`: every backend in a process of its own, beside eager."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import dynascope
import pytest
import torch
from dynascope import recording
from dynascope.backends import KNOWN, UnknownBackend, backend_states, takes_fixed_sizes
from dynascope.comparing import _difference
from dynascope.report.findings import findings

pytestmark = pytest.mark.turns(3)
PROGRAM = """
import dynascope
import torch

@dynascope.register_backend
def mine(graph, example_inputs):
    return graph.forward

@dynascope.register_backend
def wrong(graph, example_inputs):
    def call(*inputs):
        return [value + 1 for value in graph.forward(*inputs)]
    return call

@dynascope.register_backend
def broken(graph, example_inputs):
    raise ValueError("this graph is too hard")

def f(x, w):
    return torch.relu(x @ w).sum()

f = torch.compile(f)
torch.manual_seed(0)
w = torch.randn(4, 3, requires_grad=True)
for size in (2, 5, 5):
    f(torch.randn(size, 4), w).backward()
print(round(w.grad.sum().item(), 3))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("compared") / "program.py"
    path.write_text(PROGRAM)
    return path


def compare(*words):
    command = [sys.executable, "-m", "dynascope", "compare", "--output-format", "json", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, {row["backend"]: row for row in json.loads(done.stdout)}


@pytest.mark.compiler
@pytest.mark.expects_in_children("backend-failed")
def test_backends_side_by_side(program, monkeypatch):
    monkeypatch.setenv("DYNASCOPE_STRICT", "0")
    code, rows = compare("--backends", "dynascope,mine,wrong,broken,tensorrt", program)
    assert code == 1 and list(rows) == ["eager", "dynascope", "mine", "wrong", "broken", "tensorrt"]
    for name in ("eager", "dynascope", "mine"):
        row = rows[name]
        assert row["is_equal"] and row["results"] == "equal" and row["graphs"] >= 1 and row["same_output"] in (None, True)
        assert row["first_call"] > 0 and row["warm_call"] > 0 and row["peak_bytes"] > 2**20
    assert rows["dynascope"]["kernels"] > 0
    assert rows["wrong"]["results"].startswith("differ")
    assert "this graph is too hard" in rows["broken"]["results"]
    assert "torch-tensorrt" in rows["tensorrt"]["results"] or "GPU" in rows["tensorrt"]["results"]


def test_a_program_that_ends_with_an_error(tmp_path):
    path = tmp_path / "ends.py"
    path.write_text("import torch\nraise SystemExit(3)\n")
    code, rows = compare("--backends", "eager", path)
    assert code == 1 and rows["eager"]["results"].startswith("the program ended with 3")


CANCELLING = """
import torch
from torch import nn

torch.manual_seed(0)
net = torch.compile(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5)))
net(torch.randn(4, 3, 12, 12)).sum().backward()
"""


@pytest.mark.compiler
def test_a_gradient_made_of_roundings_alone_is_no_difference(tmp_path):
    """That of a convolution's bias before a normalization is zero."""
    path = tmp_path / "cancelling.py"
    path.write_text(CANCELLING)
    code, rows = compare("--backends", "dynascope", path)
    assert code == 0 and rows["dynascope"]["results"] == "equal"


def test_with_the_exact_values_what_is_as_far_as_eager_is_equal():
    noise, zeros = torch.tensor([1e-8, -2e-8]), torch.zeros(2, dtype=torch.float64)
    assert _difference([-noise], [noise]) > 1
    assert _difference([-noise], [noise], [zeros]) == 1
    assert _difference([noise + 1], [noise], [zeros]) > 1
    a = torch.randn(8)
    assert _difference([a * 1.01], [a], [a.double()]) > 1


def test_a_name_that_is_no_backends(tmp_path):
    asks, does_not = tmp_path / "asks.py", tmp_path / "does_not.py"
    asks.write_text("import torch\ntorch.compile(lambda x: x + 1)(torch.ones(2))\n")
    does_not.write_text("import torch\ndef f(x): return x + 1\ndef g(x): return f(x) * 2\nprint(g(torch.ones(2)), f(torch.ones(3)))\n")
    for path in (asks, does_not):
        path.write_text(path.read_text() + f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
        command = [sys.executable, "-m", "dynascope", "compare", path, "--backends", "dynascope,nonsens"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "no backend is named 'nonsens'" in done.stderr and not done.stdout
    # Before anything ran.
    assert not (tmp_path / "ran").exists()
    # The text has the word, so that it may be a backend of the program's own: what the run says of it stands in the table.
    asks.write_text(asks.read_text() + "print('nonsens')\n")
    code, rows = compare("--backends", "nonsens", asks)
    assert code == 1 and "no backend is named 'nonsens'" in rows["nonsens"]["results"] and rows["nonsens"]["same_output"] in (None, True)
    asks.unlink()
    command = [sys.executable, "-m", "dynascope", "run", "--backend", "onnxr", does_not]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("tensor([4., 4.])") and done.stderr.count("backend-unknown") == 1 and "engine-error" not in done.stderr
    words = " ".join(done.stderr.split())
    assert "Did you mean 'onnxrt'?" in words and "aot_eager, inductor" in words


@pytest.mark.compiler
def test_each_run_reads_the_same_input(tmp_path):
    path, words = tmp_path / "asks.py", tmp_path / "words.txt"
    path.write_text("import torch\ntorch.compile(lambda x: x + 1)(torch.ones(2))\nprint(input())\n")
    words.write_text("first\nsecond\n")
    # The options may stand after the file.
    command = [sys.executable, "-m", "dynascope", "compare", "--output-format", "json", path, "--backends", "dynascope"]
    with words.open() as given:
        done = subprocess.run(command, stdin=given, capture_output=True, text=True, check=False)
    rows = json.loads(done.stdout)
    assert [row["results"] for row in rows] == ["equal", "equal"] and rows[1]["same_output"] is True


def test_every_backend_has_a_state_and_a_way_to_install_it():
    states = {known.name: state for known, state in backend_states()}
    assert {"dynascope", "eager", "aot_eager", "inductor", "cudagraphs", "onnxrt", "openxla", "tensorrt", "tvm", "ipex"} <= set(states)
    assert states["dynascope"] == states["eager"] == "ready"
    for known in KNOWN:
        if known.missing():
            series = "==" + ".".join(torch.__version__.split(".")[:2]) + '.*"'
            command = f'pip install "{known.packages}{series}' if known.follows_torch else f"pip install {known.packages}"
            assert states[known.name].startswith(f"missing {', '.join(known.missing())}: {command}")
            with pytest.raises(UnknownBackend, match=known.packages.split()[-1]):
                dynascope.compile(lambda x: x, backend=known.name)


def test_the_command_lists_them():
    done = subprocess.run([sys.executable, "-m", "dynascope", "backends"], capture_output=True, text=True, check=True)
    assert "inductor" in done.stdout and "pip install" in done.stdout


def test_what_counts_as_equal():
    a = torch.randn(8)
    assert _difference([a, 1, None], [a * (1 + 1e-6), 1, None]) < 1
    assert _difference([a * 1.01], [a]) > 1
    assert _difference([a.double()], [a]) == _difference([a[:4]], [a]) == _difference([], [a]) == float("inf")
    assert _difference([torch.tensor([1.0, float("nan")])], [torch.tensor([1.0, float("nan")])]) == 0


@pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="needs onnxruntime and onnxscript")
def test_onnxrt_trains():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16))
    compiled = dynascope.compile(model, backend="onnxrt")
    assert [graph.kernels for graph in dynascope.explain(compiled, torch.randn(4, 8)).report.graphs] == [()]
    for size in (4, 4, 6):
        x = torch.randn(size, 8)
        result, expected = compiled(x), model(x)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
        gradients = torch.autograd.grad(result.pow(3).sum(), list(model.parameters()))
        torch.testing.assert_close(gradients, torch.autograd.grad(expected.pow(3).sum(), list(model.parameters())), rtol=1e-3, atol=1e-3)


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.dropout = torch.nn.Linear(16, 48), torch.nn.Dropout(0.2)

    def forward(self, x):
        q, k, v = self.project(x).chunk(3, -1)
        return self.dropout(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)) + self.dropout(x)


@pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="needs onnxruntime and onnxscript")
def test_where_sizes_are_fixed_the_report_says_so():
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        compiled = dynascope.compile(lambda x: x.sin() + 1, backend="onnxrt")
        for size in (3, 4, 5):
            compiled(torch.ones(size))
    finally:
        recording.use(before)
    (finding,) = [each for each in findings(recorder.report()) if each.kind == "recompile"]
    assert "Keep the sizes of `x` the same" in finding.remedy
    assert "The backend `onnxrt` takes none that vary" in finding.remedy and "dynamic=False" not in finding.remedy


def test_which_backends_take_fixed_sizes():
    assert takes_fixed_sizes("onnxrt") and takes_fixed_sizes("tvm") and not takes_fixed_sizes("inductor")
    assert not takes_fixed_sizes(lambda graph, examples: graph.forward)


MODELS = {
    "convolution": (lambda: torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2), torch.nn.BatchNorm2d(8), torch.nn.ReLU()), (2, 3, 9, 9)),
    "attention": (Attention, (2, 4, 8, 16)),
    "dropout": (lambda: torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Dropout(0.5)), (4, 8)),
}


@pytest.mark.turns(6)
@pytest.mark.parametrize("name, package", [("onnxrt", "onnxruntime"), ("tvm", "tvm")])
@pytest.mark.parametrize("kind", sorted(MODELS))
def test_what_an_exporter_does_not_know_is_torchs(name, package, kind):
    pytest.importorskip(package)
    make, size = MODELS[kind]
    torch.manual_seed(0)
    model, x = make(), torch.randn(size)
    compiled = dynascope.compile(model, backend=name)

    def run(call):
        torch.manual_seed(1)
        model.load_state_dict(state)
        result = call(x)
        return [result, *torch.autograd.grad(result.pow(2).sum(), list(model.parameters())), torch.rand(1)]

    state = {key: value.clone() for key, value in model.state_dict().items()}
    torch.testing.assert_close(run(compiled), run(model), rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(importlib.util.find_spec("tvm") is None, reason="needs apache-tvm")
def test_tvm_trains():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Softmax(-1))
    compiled = dynascope.compile(model, backend="tvm")
    x = torch.randn(4, 8)
    explained = dynascope.explain(compiled, x)
    assert [graph.kernels for graph in explained.report.graphs] == [()] and not explained.report.graphs[0].notes
    result, expected = compiled(x), model(x)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
    gradients = torch.autograd.grad(result.pow(3).sum(), list(model.parameters()))
    torch.testing.assert_close(gradients, torch.autograd.grad(expected.pow(3).sum(), list(model.parameters())), rtol=1e-3, atol=1e-3)


def test_compilers_of_functional_graphs_are_found_by_their_name():
    given = []

    def compiler(graph, examples):
        given.append({str(node.target) for node in graph.graph.nodes})
        return graph.forward

    dynascope.backends.register_backend(dynascope.backends.GraphCompilers(compiler, compiler, "core"), name="functional graphs")
    x = torch.ones(4, requires_grad=True)
    dynascope.compile(lambda x: (x * 2).sin(), backend="functional graphs")(x).sum().backward()
    assert len(given) == 2 and "aten.sin.default" in given[0] and "aten.cos.default" in given[1]


def test_a_package_for_another_torch_is_not_ready(tmp_path, monkeypatch):
    (tmp_path / "torch_xla").mkdir()
    (tmp_path / "torch_xla" / "__init__.py").write_text("raise ImportError('undefined symbol')")
    described = tmp_path / "torch_xla-2.4.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_xla\nVersion: 2.4.0\n")
    (described / "top_level.txt").write_text("torch_xla\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "torch_xla 2.4.0 is for torch 2.4" in {known.name: state for known, state in backend_states()}["openxla"]
    with pytest.raises(UnknownBackend, match="is for torch 2.4"):
        dynascope.compile(lambda x: x, backend="openxla")
