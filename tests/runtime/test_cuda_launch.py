"""The launcher's C side, as far as a machine without a GPU can go."""

from __future__ import annotations

import functools

import pytest
import torch
from dynascope.codegen.triton.kernel import Parameter, TritonKernel
from dynascope.native import toolchain
from dynascope.native.toolchain import find_compiler
from dynascope.runtime import cuda_launch, launching
from dynascope.runtime.cubins import Target

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(find_compiler("c") is None, reason="no C compiler"),
]


@pytest.fixture(scope="module")
def extension():
    return cuda_launch.build_extension()


def plan(extension, kinds, launches=(), **callbacks):
    names = ("stream_of", "workspace_of", "misaligned")
    defaults = {"stream_of": lambda device: 0, "workspace_of": None, "misaligned": lambda *a: "misaligned"}
    return extension.LaunchPlan(kinds, list(launches), 0, *({**defaults, **callbacks}[name] for name in names))


def test_it_is_built_while_the_program_is_compiled(tmp_path, monkeypatch):
    """Begun with the first graph on a GPU, and built once."""
    monkeypatch.setenv("DYNASCOPE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cuda_launch, "build_extension", functools.cache(cuda_launch.build_extension.__wrapped__))
    monkeypatch.setattr(cuda_launch, "target_of", lambda device: Target(90))
    monkeypatch.setattr(toolchain, "_begun", {})  # where there is a GPU, another test may have begun, in a folder of its own
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    launching.begin([torch.device("cuda", 0)])
    built = cuda_launch.build_extension()
    launching.begin([torch.device("cuda", 0), torch.device("cpu")])
    assert built.LaunchPlan
    assert len(list(tmp_path.rglob("cuda_launch-*.so"))) == 1


def test_pointers_are_read_in_c_and_agree(extension):
    x = torch.arange(100.0)
    assert cuda_launch.learn_pointers(extension, x)
    for tensor in (x, x[3:], torch.nn.Parameter(x), torch.empty(0), x.t(), torch.zeros(3, dtype=torch.bool)):
        assert extension.pointer(tensor) == tensor.data_ptr()


def test_pointer_of_something_else_is_asked_for(extension):
    class Pointed:
        def data_ptr(self):
            return 4096

    assert extension.pointer(Pointed()) == 4096
    with pytest.raises(AttributeError):
        extension.pointer(3)


def test_a_wrong_sample_is_refused(extension):
    x = torch.zeros(4)
    library = str(cuda_launch.torch_library())
    assert extension.read_tensors(x, torch._C.TensorBase, library, x._cdata, x.data_ptr() + 16) is False
    assert extension.read_tensors(x, torch._C.TensorBase, "/nowhere.so", x._cdata, x.data_ptr()) is False


def test_misaligned_pointers_go_to_the_other_plan(extension):
    x = torch.zeros(100)
    assert plan(extension, "pq")(x[1:], x) == "misaligned"


def test_sizes_that_are_no_multiples_go_to_another_plan(extension):
    assert plan(extension, "m")(17) == plan(extension, "mi")(-8, 16) == "misaligned"
    assert plan(extension, "8")(20) == plan(extension, "4")(-6) == plan(extension, "2")(7) == "misaligned"
    with pytest.raises(RuntimeError, match="driver"):  # on its way to the GPU
        plan(extension, "mi842")(32, 17, -8, 20, 6)


def test_each_set_of_odd_sizes_has_a_plan_that_keeps_the_rest(monkeypatch):
    parameters = [Parameter("x", "*fp32", "x"), Parameter("n", "i32", "rows"), Parameter("m", "i32", "columns"), Parameter("k", "i32", "k")]
    kernel = TritonKernel("k", "", tuple(parameters), (1, 1, 1), 1, divisors=(("m", 8), ("n", 16), ("x", 16)))
    planned = []

    def make(plans, kernels, misaligned):
        planned.append(dict(kernels[0].divisors))
        return lambda *arguments: misaligned(*arguments) if plans.odd_among(arguments) else None

    monkeypatch.setattr(cuda_launch._Plans, "_plan", make)
    launch = cuda_launch._Plans(None, (kernel,), ("x", "k", "rows", "columns"), torch.device("cuda", 0)).build()
    for rows, columns in ((16, 24), (17, 32), (33, 48), (17, 31), (16, 16), (20, 24), (40, 8), (44, 33)):
        launch("x", 5, rows, columns)
    assert planned == [{"m": 8, "n": 16, "x": 16}, {"m": 8, "x": 16}, {"x": 16}, {"m": 8, "n": 4, "x": 16}, {"n": 4, "x": 16}]


def test_arguments_are_counted_and_typed(extension):
    x = torch.zeros(4)
    with pytest.raises(TypeError):
        plan(extension, "qq")(x)
    with pytest.raises(TypeError):
        plan(extension, "q")(x, x)
    with pytest.raises(TypeError):
        plan(extension, "qi")(x, "three")
    with pytest.raises(OverflowError):
        plan(extension, "i")(1 << 70)
    with pytest.raises(ValueError):
        plan(extension, "x")
    with pytest.raises(ValueError):
        plan(extension, "q", [(0, "k", (1, 1, 1), 32, 0, (3,))])


def test_no_driver_is_an_error_and_not_a_crash(extension):
    if torch.cuda.is_available():
        pytest.skip("there is a driver")
    with pytest.raises(OSError):
        extension.open_driver()
    with pytest.raises(RuntimeError):
        extension.load(b"", "kernel", 0, 0)
    with pytest.raises(RuntimeError):
        plan(extension, "q")(torch.zeros(4))
