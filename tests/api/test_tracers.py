"""Compiled functions and modules under the tools that read, trace or copy programs: those get the program that was compiled."""

import copy
import inspect
import io
import pickle
import subprocess
import sys

import dynascope
import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

pytestmark = pytest.mark.turns(2)

X = torch.randn(3, 4)


def by_name(x, scale=2):
    return (x * scale).sin()


@dynascope.compile(backend="eager")
def decorated(x):
    return x * 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x, scale: int = 2):
        return self.linear(x).relu() * scale


def targets():
    for warm in (False, True):
        for make in (lambda: by_name, Net):
            yield pytest.param(make, warm, id=f"{make().__class__.__name__}-{'warm' if warm else 'cold'}")


TOOLS = {
    "symbolic_trace": lambda f: torch.fx.symbolic_trace(f),
    "symbolic_trace around": lambda f: torch.fx.symbolic_trace(lambda x: f(x)),
    "jit.trace": lambda f: torch.jit.trace(f, (X,)),
    "jit.trace around": lambda f: torch.jit.trace(lambda x: f(x), (X,)),
    "make_fx": lambda f: make_fx(lambda x: f(x))(X),
    "torch.compile": lambda f: torch.compile(f, backend="eager"),
    "torch.compile around": lambda f: torch.compile(lambda x: f(x), backend="eager"),
    "torch.compile around, one graph": lambda f: torch.compile(lambda x: f(x), backend="eager", fullgraph=True),
    "vmap": lambda f: torch.vmap(f),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("make, warm", targets())
def test_tools_read_the_program(make, warm, tool):
    torch._dynamo.reset() if "torch._dynamo" in sys.modules else None
    target = make()
    if isinstance(target, nn.Module) and tool in ("symbolic_trace around", "jit.trace around"):
        pytest.skip("they do not take a module from outside, compiled or not")
    compiled = dynascope.compile(target, backend="eager")
    if warm:
        compiled(X)
    made = TOOLS[tool](compiled)
    for x in (X, X + 1):
        torch.testing.assert_close(made(x), target(x))
        torch.testing.assert_close(compiled(x), target(x))


@pytest.mark.filterwarnings("ignore")
def test_scripting_and_exporting():
    net = Net()
    compiled = dynascope.compile(net, backend="eager")
    torch.testing.assert_close(torch.jit.script(compiled)(X), net(X))
    with dynascope.expected("foreign-call"):
        torch.testing.assert_close(dynascope.compile(torch.jit.script(net), backend="eager")(X), net(X))
    for strict in (False, True):
        torch.testing.assert_close(torch.export.export(compiled, (X,), strict=strict).module()(X), net(X))


def test_a_graph_traced_over_a_compiled_module_has_its_layers():
    traced = torch.fx.symbolic_trace(dynascope.compile(Net(), backend="eager"))
    assert [node.target for node in traced.graph.nodes if node.op == "call_module"] == ["_orig_mod.linear"]


def test_what_inspection_says():
    compiled, net = dynascope.compile(by_name), dynascope.compile(Net())
    assert inspect.isfunction(compiled) and not inspect.ismethod(compiled)
    assert str(inspect.signature(compiled)) == "(x, scale=2)"
    assert str(inspect.signature(net.forward)) == "(x, scale: int = 2)"
    assert inspect.getsource(compiled) == inspect.getsource(by_name)
    assert compiled.__name__ == "by_name" and compiled.__code__ is by_name.__code__
    assert isinstance(net, nn.Module) and type(net).__name__ == "CompiledModule"


# Copies


def test_a_function_is_pickled_by_its_name():
    compiled = pickle.loads(pickle.dumps(dynascope.compile(by_name, backend="eager", dynamic=False)))
    assert torch.equal(compiled(X), by_name(X)) and compiled.__wrapped__ is by_name
    assert compiled is not by_name
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(decorated, protocol)) is decorated
        assert torch.equal(pickle.loads(pickle.dumps(compiled, protocol))(X), by_name(X))


def test_a_function_without_a_name_is_refused_as_it_is_without_us():
    local = lambda x: x  # noqa: E731
    with pytest.raises((pickle.PicklingError, AttributeError)) as expected:
        pickle.dumps(local)
    with pytest.raises(expected.type, match="local object|pickle"):
        pickle.dumps(dynascope.compile(local))


def test_copies_of_a_function_are_the_function():
    compiled = dynascope.compile(by_name)
    assert copy.copy(compiled) is compiled and copy.deepcopy(compiled) is compiled
    assert copy.deepcopy({"f": compiled})["f"] is compiled


@pytest.mark.parametrize("travel", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copied_module_is_compiled_and_its_own(travel):
    compiled = dynascope.compile(Net(), backend="eager")
    with torch.no_grad():
        compiled.linear.bias.fill_(100)  # above what `relu` cuts off
    compiled(X)
    made = travel(compiled)
    assert type(made) is type(compiled) and vars(made)["_options"].backend == "eager"
    torch.testing.assert_close(made(X), compiled(X))
    with torch.no_grad():
        made.linear.weight.zero_()
    assert compiled.linear.weight.abs().sum() > 0 and not torch.equal(made(X), compiled(X))


def test_a_module_is_saved_and_loaded():
    compiled, file = dynascope.compile(Net(), backend="eager"), io.BytesIO()
    torch.save(compiled, file)
    file.seek(0)
    torch.testing.assert_close(torch.load(file, weights_only=False)(X), compiled(X))


def test_a_compiled_function_goes_to_a_spawned_process(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, torch, dynascope\n"
        "def double(x): return x * 2\n"
        "compiled = dynascope.compile(double, backend='eager')\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.apply(compiled, (torch.ones(2),)).tolist())\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[2.0, 2.0]\n", done.stderr


def test_torchs_compiler_first_imported_by_a_compiled_function(tmp_path):
    """Its modules are there once, and what they took from torch during the capture knows symbolic sizes."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, torch, dynascope\n"
        "def check(x): return x * 2 if torch._dynamo.is_dynamo_supported() else x\n"
        "dynascope.compile(check, backend='eager')(torch.ones(2))\n"
        "def tail(x): return x.view(-1, x.shape[1] * 2).sum(0) * (2 if x.shape[0] > 3 else 3)\n"
        "compiled = torch.compile(tail, backend='aot_eager', dynamic=True)\n"
        "print([torch.equal(compiled(torch.ones(n, 3)), tail(torch.ones(n, 3))) for n in (2, 4, 6)])\n"
        "loaded = sys.modules\n"
        "print(loaded['torch._dynamo.convert_frame'].TensorifyState is loaded['torch._dynamo.symbolic_convert'].TensorifyState)\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[True, True, True]\nTrue\n", done.stderr


# Training mode


def test_training_mode_is_the_originals():
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(1.0))
    compiled = dynascope.compile(net, backend="eager")
    for change in (compiled.eval, net.train, net.eval, compiled.train, lambda: compiled.train(False), net.train):
        change()
        assert net.training == compiled.training == net[1].training
        assert torch.equal(compiled(X) == 0, net(X) == 0)
    compiled.training = False
    assert not net.training


# explain


def test_explain_uses_the_backend_asked_for():
    assert dynascope.explain(by_name, X).report.kernels
    explanation = dynascope.explain(dynascope.compile(by_name, backend="eager"), X)
    assert not explanation.report.kernels and explanation.graph_count == 1
    seen = []

    def backend(graph, inputs):
        seen.append(graph)
        return graph.forward

    explanation = dynascope.explain(dynascope.compile(Net(), backend=backend), X)
    assert len(seen) == 1 and explanation.graphs[0] is seen[0]
    torch.testing.assert_close(dynascope.explain(by_name)(X).result, by_name(X))


@pytest.mark.filterwarnings("ignore")
def test_after_torchs_own_compiler_was_used():
    """It wraps functions of optimizers and the making of modules, in the whole process."""
    torch.compile(Net(), backend="eager")(X)
    layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
    optimizer = torch.optim.SGD(layers.parameters(), 0.1, momentum=0.9)

    def program(x):
        for layer in layers[:2]:
            x = layer(x)
        optimizer.step()
        return x

    before = program(X)
    assert torch.equal(dynascope.compile(program, backend="eager")(X), before)
