"""The public functions, as a person uses them."""

import copy
import functools
import importlib.util
import pickle
import re
import threading

import dynascope
import pytest
import torch
from dynascope import api, backends
from dynascope.configuration import config
from dynascope.frame import hook
from dynascope.watching import watch_folder
from torch import nn


def double(x):
    return x * 2


def keeping(graphs):
    def backend(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    return backend


def test_as_function_and_as_decorator():
    x = torch.randn(4)

    @dynascope.compile
    def plain(x):
        """Its own words."""
        return x + 1

    @dynascope.compile(dynamic=False, fullgraph=True)
    def with_arguments(x, *, scale=3):
        return x * scale

    assert torch.equal(plain(x), x + 1) and torch.equal(with_arguments(x, scale=4), x * 4)
    assert torch.equal(dynascope.compile(double)(x), x * 2)
    assert (plain.__name__, plain.__doc__) == ("plain", "Its own words.")


def test_a_partials_keywords_may_change_later():
    scaled = functools.partial(lambda x, shift, scale: x * scale + shift, torch.ones(3), scale=2.0)
    compiled, x = dynascope.compile(scaled), torch.ones(3)
    for scale in (2.0, 5.0, torch.full((3,), 7.0)):
        scaled.keywords["scale"] = scale
        assert torch.equal(compiled(x), scaled(x))


def test_methods_partials_and_callable_objects():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def apply(self, x):
            return x * self.factor

        __call__ = apply

    x, scale = torch.randn(3), Scale(3)
    assert torch.equal(dynascope.compile(scale.apply)(x), x * 3)
    assert torch.equal(dynascope.compile(scale)(x), x * 3)
    assert torch.equal(dynascope.compile(functools.partial(torch.add, alpha=2))(x, x), x * 3)


def test_a_decorated_method_binds():
    class Model:
        weight = 5

        @dynascope.compile
        def run(self, x):
            return x * self.weight

    x = torch.randn(3)
    assert torch.equal(Model().run(x), x * 5)


def test_arity_errors_are_python_s_own():
    compiled = dynascope.compile(double)
    with pytest.raises(TypeError, match=r"double\(\) missing 1 required positional argument: 'x'"):
        compiled()
    with pytest.raises(TypeError, match=r"double\(\) got an unexpected keyword argument 'y'"):
        compiled(torch.ones(1), y=1)


def test_module_keeps_its_own_face():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    compiled = dynascope.compile(model)
    x = torch.randn(2, 3)
    torch.testing.assert_close(compiled(x), model(x))
    assert isinstance(compiled, nn.Module) and len(list(compiled.parameters())) == 2
    assert compiled[0] is model[0] and len(compiled) == 2
    assert set(compiled.state_dict()) == {f"_orig_mod.{key}" for key in model.state_dict()}
    compiled.eval()
    assert not model.training and not model[1].training
    compiled.note = "kept"
    assert model.note == "kept"
    assert torch.equal(pickle.loads(pickle.dumps(compiled))(x), model(x))
    torch.testing.assert_close(copy.deepcopy(model)(x), compiled(x))


@pytest.mark.parametrize("names", [lambda module, compiled: module, lambda module, compiled: compiled])
def test_functional_call_of_a_compiled_module(names):
    """By the names of either; the parameters are back afterwards."""
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).eval()
    x = torch.randn(4, 3)
    for original in (module, module[0]):
        compiled = dynascope.compile(original, backend="eager")
        given = {name: value.detach() * 2 for name, value in original.named_parameters()}
        expected = torch.func.functional_call(original, given, (x,))
        named = {name: value.detach() * 2 for name, value in names(original, compiled).named_parameters()}
        assert torch.equal(torch.func.functional_call(compiled, named, (x,)), expected)
        assert torch.equal(compiled(x), original(x))
        assert all(isinstance(each, torch.nn.Parameter) for each in original.parameters())
    with pytest.raises(TypeError, match="cannot assign"):
        compiled.weight = torch.ones(2, 3)


def test_module_has_the_special_methods_of_its_class_and_no_others():
    plain, named = dynascope.compile(nn.Linear(2, 2)), dynascope.compile(nn.ModuleDict({"a": nn.ReLU()}))
    layers = dynascope.compile(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert plain and not hasattr(plain, "__len__") and not hasattr(plain, "__iter__")
    assert "a" in named and "b" not in named and list(named) == ["a"] and isinstance(named["a"], nn.ReLU)
    layers[1] = nn.Tanh()
    before = layers
    layers += nn.Sequential(nn.ReLU())
    assert (
        layers is before and [type(layer) for layer in layers] == [nn.Linear, nn.Tanh, nn.ReLU] and len(layers[:2]) == 2
    )

    class Empty(nn.Module):
        def __bool__(self):
            return False

    assert not dynascope.compile(Empty())


def test_module_hooks_run():
    model = nn.Linear(3, 3)
    compiled = dynascope.compile(model)
    seen = []
    handle = model.register_forward_hook(lambda module, arguments, result: seen.append(module))
    x = torch.randn(2, 3)
    torch.testing.assert_close(compiled(x), model(x))
    assert seen == [model, model]
    handle.remove()
    compiled(x)
    assert len(seen) == 2


def test_changed_parameters_are_seen():
    model = nn.Linear(3, 3)
    compiled = dynascope.compile(model)
    x = torch.randn(2, 3)
    compiled(x)
    with torch.no_grad():
        model.weight.zero_()
    torch.testing.assert_close(compiled(x), model(x))
    model.weight = nn.Parameter(torch.ones(3, 3))
    torch.testing.assert_close(compiled(x), model(x))


def test_dtype_shape_and_scalar_make_new_entries_and_old_ones_serve():
    graphs = []
    compiled = dynascope.compile(lambda x, n: x * n, backend=keeping(graphs), dynamic=False)
    x = torch.randn(3)
    for arguments in ((x, 2), (x.double(), 2), (torch.randn(4), 2), (x, 3)) * 2:
        assert torch.equal(compiled(*arguments), arguments[0] * arguments[1])
    assert len(graphs) == 4


def test_fullgraph_names_place_and_remedy():
    @dynascope.compile(fullgraph=True)
    def f(x):
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(RuntimeError, match="data-dependent-branch") as caught:
        f(torch.ones(3))
    text = str(caught.value)
    assert "x.sum() > 0" in text and "torch.where" in text and __file__ in text


@pytest.mark.expects("recompile-limit")
def test_recompile_limit_ends_in_eager_not_in_silence():
    graphs = []
    compiled = dynascope.compile(double, backend=keeping(graphs), dynamic=False, options={"recompile_limit": 3})
    for size in range(1, 9):
        x = torch.randn(size)
        assert torch.equal(compiled(x), x * 2)
    assert len(graphs) == 3


@pytest.mark.expects("disabled-function")
def test_disable_keeps_a_function_out():
    graphs = []

    @dynascope.disable
    def outside(x):
        return x + 1

    compiled = dynascope.compile(lambda x: outside(x * 2) * 3, backend=keeping(graphs))
    x = torch.randn(3)
    assert torch.equal(compiled(x), (x * 2 + 1) * 3)
    assert len(graphs) == 2


@pytest.mark.parametrize("recursive", [True, False])
def test_what_a_disabled_function_calls_is_compiled_only_where_it_is_not_recursive(recursive):
    graphs = []
    inner = dynascope.compile(lambda x: x.sin() + 1, backend=keeping(graphs))

    @dynascope.disable(recursive=recursive)
    def outside(x):
        return inner(x) * 2

    x = torch.randn(3)
    assert torch.equal(outside(x), (x.sin() + 1) * 2)
    assert len(graphs) == (0 if recursive else 1)


def skipped_by_torch(function):
    """As torch's `skip` leaves it, whose module imports torch's compiler."""
    function._torchdynamo_disable = True
    return function


@pytest.mark.parametrize("skip", [dynascope.skip, dynascope.skip(), skipped_by_torch])
def test_what_a_skipped_function_calls_is_found_where_functions_are(skip, tmp_path):
    (tmp_path / "program_that_skips.py").write_text("def inner(x):\n    return x.sin() + 1\n\ndef outer(x):\n    return inner(x * 3) * 2\n")
    spec = importlib.util.spec_from_file_location("program_that_skips", tmp_path / "program_that_skips.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    outer, graphs, x = skip(program.outer), [], torch.randn(3)
    assert watch_folder(str(tmp_path), config.options(backend=keeping(graphs))) is None
    try:
        found = outer(x)
    finally:
        hook.unwatch()
    assert torch.equal(found, ((x * 3).sin() + 1) * 2)
    assert [[node.name for node in graph.graph.nodes if node.op.startswith("call")] for graph in graphs] == [["sin", "add"]]


@pytest.mark.may_break
@pytest.mark.parametrize("skip", [dynascope.skip, skipped_by_torch])
def test_a_skipped_function_is_called_by_its_word(skip):
    @skip
    def outside(x):
        return x + 1

    assert "`outside` is marked with `skip`" in str(dynascope.explain(lambda x: outside(x * 2) * 3, torch.ones(3)))


@pytest.mark.compiler
def test_without_the_cache_every_kernel_is_built_anew(monkeypatch, tmp_path):
    monkeypatch.setenv("DYNASCOPE_CACHE_DIR", str(tmp_path))

    def paths(cache):
        function = dynascope.compile(lambda x: x.sin() * 3 + 1, options={"cache": cache})
        return [kernel.path for kernel in dynascope.explain(function, torch.ones(5)).report.kernels]

    (kept,), (again,), (anew,) = paths(True), paths(True), paths(False)
    assert kept == again and kept.startswith(str(tmp_path)) and not anew.startswith(str(tmp_path))


def test_reset_forgets():
    graphs = []
    compiled = dynascope.compile(double, backend=keeping(graphs))
    compiled(torch.ones(2)), compiled(torch.ones(2))
    dynascope.reset()
    compiled(torch.ones(2))
    assert len(graphs) == 2


def test_backends():
    @dynascope.register_backend
    def mirror(graph, example_inputs):
        return graph.forward

    assert "mirror" in dynascope.list_backends()
    x = torch.randn(3)
    assert torch.equal(dynascope.compile(double, backend="mirror")(x), x * 2)
    assert torch.equal(dynascope.compile(double, backend="aot_eager")(x), x * 2)
    with pytest.raises(ValueError, match="Did you mean 'inductor'"):
        dynascope.compile(double, backend="indutcor")


@pytest.mark.expects("backend-failed")
def test_a_failing_backend_is_said_and_the_answer_is_right():
    def broken(graph, example_inputs):
        raise RuntimeError("no such device")

    compiled = dynascope.compile(double, backend=broken)
    line = broken.__code__.co_firstlineno + 1
    with pytest.warns(UserWarning, match=rf"RuntimeError at .*test_compile.py:{line} on a captured graph: no such device") as said:
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))
    assert [warning.filename for warning in said] == [__file__], "at the call, not in the compiler"


@pytest.mark.expects("backend-failed")
def test_a_failing_compiler_of_functional_graphs_too():
    def broken(graph, example_inputs):
        raise RuntimeError("no such device")

    compiled = dynascope.aot(double, forward_compiler=broken)
    line = broken.__code__.co_firstlineno + 1
    with pytest.warns(UserWarning, match=rf"RuntimeError at .*test_compile.py:{line} on a captured graph: no such device") as said:
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))
    assert [warning.filename for warning in said] == [__file__]


def test_a_package_that_is_missing_comes_with_its_install_line():
    for known in backends.KNOWN:
        if known.missing():
            with pytest.raises(backends.UnknownBackend, match=f"needs .*{known.modules[0]}.*: {re.escape(known.how_to_install())}"):
                dynascope.compile(double, backend=known.name)


def test_settings():
    with pytest.raises(AttributeError, match="recompile_limit"):
        dynascope.config.recompil_limit = 3
    with pytest.raises(ValueError, match="no setting 'speed'"):
        dynascope.compile(double, options={"speed": "high"})
    with pytest.raises(ValueError, match="mode is one of"):
        dynascope.compile(double, mode="fast")
    with pytest.raises(TypeError):
        dynascope.compile(3)


def test_exceptions_pass_through():
    @dynascope.compile
    def f(x):
        y = x * 2
        raise ValueError(f"of size {y.shape[0]}")

    with pytest.raises(ValueError, match="of size 3"):
        f(torch.ones(3))


def test_gradients_of_parameters():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
    compiled = dynascope.compile(model)
    x = torch.randn(5, 8, requires_grad=True)
    compiled(x).pow(2).sum().backward()
    ours = [x.grad, *(p.grad for p in model.parameters())]
    x.grad = None
    model.zero_grad()
    model(x).pow(2).sum().backward()
    torch.testing.assert_close(ours, [x.grad, *(p.grad for p in model.parameters())])


def test_threads_may_call_at_once():
    compiled = dynascope.compile(lambda x: torch.relu(x) * 2 + 1)
    wrong = []

    def work(size):
        for _ in range(20):
            x = torch.randn(size)
            if not torch.allclose(compiled(x), torch.relu(x) * 2 + 1):
                wrong.append(size)

    threads = [threading.Thread(target=work, args=(size,)) for size in (3, 4, 5, 3)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not wrong


def test_explain_prints_lines():
    def f(x):
        y = x * 2
        print("between")
        return y + 1

    explanation = dynascope.explain(f)(torch.ones(3))
    assert explanation.graph_count == 2 and explanation.graph_break_count == 1
    assert "print-call" in str(explanation) and 'print("between")' in str(explanation)


def test_a_default_device_is_captured():
    """`meta` stands for an accelerator here: what matters is that factories land there, compiled."""
    graphs = []
    torch.set_default_device("meta")
    try:
        compiled = dynascope.compile(lambda x: x + torch.ones(3) * torch.arange(3.0), backend=keeping(graphs))
        result = compiled(torch.zeros(3))
    finally:
        torch.set_default_device(None)
    assert result.device.type == "meta" and len(graphs) == 1
    assert compiled(torch.zeros(3)).tolist() == [0.0, 1.0, 2.0]


def test_a_module_that_compiles_itself(monkeypatch):
    """`module.compile()` asks torch.compile for its own call, which is ours under `dynascope run`."""
    monkeypatch.setattr(torch, "compile", api.torch_compile)
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    x, seen = torch.randn(2, 3), []
    expected = module(x)
    module.compile(backend="eager")
    assert [name for name, _ in module.named_modules()] == ["", "0", "1"]
    torch.testing.assert_close(module.eval()(x), expected)
    module.register_forward_hook(lambda *_: seen.append("hook"))
    torch.testing.assert_close(module(x), expected)
    assert seen == ["hook"]
    torch.testing.assert_close(copy.deepcopy(module)(x), expected)


def test_a_module_that_compiled_itself_is_read_by_others_as_it_was(monkeypatch):
    monkeypatch.setattr(torch, "compile", api.torch_compile)
    module, x = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()).eval(), torch.randn(2, 3)
    expected = module(x)
    module.compile(backend="eager")
    module(x)
    monkeypatch.undo()
    for read in (
        lambda: torch.export.export(module, (x,)).module(),
        lambda: torch.export.export(module, (x,), strict=True).module(),
        lambda: torch.fx.symbolic_trace(module),
        lambda: torch.jit.trace(module, x),
    ):
        torch.testing.assert_close(read()(x), expected)


def test_hooks_of_the_compiled_and_of_the_original_module_run_once_each():
    module, seen = torch.nn.Linear(3, 3), []
    compiled = dynascope.compile(module, backend="eager")
    x = torch.randn(2, 3)
    compiled(x)
    compiled.register_forward_hook(lambda *_: seen.append("compiled"))
    module.register_forward_hook(lambda *_: seen.append("original"))
    torch.testing.assert_close(compiled(x), torch.nn.functional.linear(x, module.weight, module.bias))
    assert seen == ["original", "compiled"]
