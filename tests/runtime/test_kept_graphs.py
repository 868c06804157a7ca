"""A second process runs what the first made of a graph, and nothing else than that: lower, fuse and emit are skipped."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope.codegen import launches
from dynascope.runtime import compile_aten, kept_graphs, modes
from dynascope.runtime.graph_calls import as_built
from torch import nn


def loss_of(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = torch.dropout(x @ w, 0.5, True)
    return torch.logsumexp(F.layer_norm(h, h.shape[-1:]), -1).sum() + torch.where(h > 0, h, float("inf")).amin()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm, self.out = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(F.relu(self.norm(self.convolution(x))).mean((2, 3)))


def step(parameter: torch.Tensor, momentum: torch.Tensor, gradient: torch.Tensor) -> None:
    momentum.mul_(0.9).add_(gradient)
    parameter.sub_(momentum, alpha=0.1)


def sorted_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values, places = torch.sort(x.to(torch.float64), dim=-1, descending=True)
    return values.cumsum(-1), places + torch.arange(x.shape[-1], dtype=torch.int32)


X = torch.randn(4, 6)
PROGRAMS = {
    "loss": (loss_of, lambda: (torch.randn(8, 16, requires_grad=True), torch.randn(16, 16, requires_grad=True))),
    "net": (Net, lambda: (torch.randn(2, 3, 6, 6, requires_grad=True),)),
    "step": (step, lambda: (torch.randn(5), torch.randn(5), torch.randn(5))),
    "sorted": (sorted_rows, lambda: (torch.randn(4, 6),)),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DYNASCOPE_CACHE_DIR", str(tmp_path))
    return tmp_path / "graphs"


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The graphs for which text was written."""
    names, generate = [], compile_aten._generate

    def noted(graph, *rest):
        names.append(type(graph).__name__)
        return generate(graph, *rest)

    monkeypatch.setattr(compile_aten, "_generate", noted)
    return names


def ran(name: str, compiled: bool, **options) -> list[torch.Tensor]:
    """Results, what became of the inputs, and gradients, of two calls of a function that is compiled anew."""
    torch.manual_seed(0)
    made, inputs = PROGRAMS[name]
    function = made() if isinstance(made, type) else made
    call = dynascope.compile(function, options={"strict": False, **options}) if compiled else function
    found = []
    for _ in range(2):
        given = inputs()
        results = call(*given)
        results = results if isinstance(results, tuple) else () if results is None else (results,)
        if any(result.requires_grad for result in results):
            sum(result.sum() for result in results).backward()
        found += [*results, *given, *(each.grad for each in given if each.grad is not None)]
    return [each.detach() for each in found]


def same(name: str, **options) -> None:
    for mine, eagers in zip(ran(name, True, **options), ran(name, False), strict=True):
        torch.testing.assert_close(mine, eagers)
        assert mine.stride() == eagers.stride()


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_made_once_runs_again(name: str, folder: Path, generated: list[str]) -> None:
    same(name)
    count = len(generated)
    assert count and len(list(folder.iterdir())) == count
    same(name)
    assert len(generated) == count


@pytest.mark.compiler
@pytest.mark.parametrize("options", [{"numerics": "strict"}, {"random": "device"}], ids=str)
def test_another_setting_is_another_graph(options: dict, folder: Path, generated: list[str]) -> None:
    ran("loss", True)
    count = len(generated)
    ran("loss", True, **options)
    assert len(generated) > count


@pytest.mark.compiler
@pytest.mark.parametrize("options", [{"cache": False}, {"strict": True}, {"mode": "max-autotune"}, {"profile": True}], ids=str)
def test_settings_that_keep_nothing(options: dict, folder: Path, generated: list[str]) -> None:
    with dynascope.expected("mode-not-honoured", required=False):
        ran("step", True, **options)
        count = len(generated)
        ran("step", True, **options)
    assert len(generated) == 2 * count and not folder.exists()


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[compile_aten.CompiledAten]:
    """What a mode is asked about."""
    found = []

    def noted(options, forward, backwards, told):
        found.append(forward)
        return as_built(forward, len(backwards))

    monkeypatch.setattr(modes, "in_mode", noted)
    return found


@pytest.mark.compiler
def test_a_mode_that_records_launches_takes_up_what_was_kept(
    folder: Path, generated: list[str], built: list[compile_aten.CompiledAten]
) -> None:
    for _ in range(2):
        ran("step", True, mode="reduce-overhead")
    first, second = (each.launches for each in built)
    assert len(generated) == 1 and first == second
    assert len(first.written) == 2 and first.obstacle == "it runs on the processor" and not first.is_on_gpu


@pytest.mark.compiler
def test_random_numbers_that_fill_a_tensor_only_launch_kernels(folder: Path, built: list[compile_aten.CompiledAten]) -> None:
    def sample(x):
        return x / torch.empty_like(x).exponential_(1)

    dynascope.compile(sample, mode="reduce-overhead", options={"strict": False})(X)
    assert launches._obstacle(built[0].module.schedule, {torch.device("cuda", 0)}) == ""


@pytest.mark.compiler
def test_a_report_has_all_stages(folder: Path, generated: list[str]) -> None:
    compiled = dynascope.compile(sorted_rows, options={"strict": False})
    compiled(X)
    explained = dynascope.explain(compiled, X)
    assert len(generated) == 2 and "def graph" in explained.show("wrapper")


def spoiled(data: bytes, how: str) -> bytes:
    if how == "cut off":
        return data[: len(data) // 2]
    if how == "changed":
        return data.replace(b"sort", b"sorx")
    return b"" if how == "empty" else b"\xff\xfe not text"


@pytest.mark.compiler
@pytest.mark.parametrize("how", ["cut off", "changed", "empty", "no text"])
def test_a_spoiled_file_is_made_anew(how: str, folder: Path, generated: list[str]) -> None:
    ran("sorted", True)
    (path,) = folder.iterdir()
    kept = path.read_bytes()
    path.write_bytes(spoiled(kept, how))
    same("sorted")
    assert len(generated) == 2 and path.read_bytes() == kept


@pytest.mark.compiler
def test_of_another_version_nothing_is_used(folder: Path, generated: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ran("sorted", True)
    monkeypatch.setattr(kept_graphs, "versions", lambda: ("another",))
    ran("sorted", True)
    assert len(generated) == 2 and len(list(folder.iterdir())) == 2


def keys_of(function, *inputs, dynamic: bool | None = None) -> list[str | None]:
    """Of the graphs that a call compiles."""
    found, key_of = [], kept_graphs.key_of

    def noted(*given):
        found.append(key_of(*given))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_graphs, "key_of", noted)
        patch.setattr(kept_graphs, "load", lambda key: None)
        patch.setattr(kept_graphs, "keep", lambda key, runnable: None)
        dynascope.compile(function, dynamic=dynamic, options={"strict": False})(*inputs)
    return found


DIFFERENT = {
    "a number": (lambda x: x * 2.0, X, lambda x: x * 3.0, X),
    "its type": (lambda x: x + 1, X.int(), lambda x: x + 1.0, X.int()),
    "the sign of a zero": (lambda x: torch.copysign(x, 0.0), X, lambda x: torch.copysign(x, -0.0), X),
    "a dtype": (lambda x: x * 2.0, X, lambda x: x * 2.0, X.double()),
    "a size": (lambda x: x * 2.0, X, lambda x: x * 2.0, X[:3].clone()),
    "a stride": (lambda x: x * 2.0, X, lambda x: x * 2.0, X.t().contiguous().t()),
    "an operator": (lambda x: x.sum(0), X, lambda x: x.prod(0), X),
    "a dimension": (lambda x: x.softmax(0), X, lambda x: x.softmax(1), X),
    "an overload": (lambda x: x.clone().bernoulli_(0.5), X, lambda x: x.clone().bernoulli_(torch.full((4, 6), 0.5)), X),
    "what is returned": (lambda x: (x.exp(), x.sin()), X, lambda x: (x.sin(), x.exp()), X),
}


@pytest.mark.parametrize("pair", DIFFERENT)
def test_no_two_programs_have_one_key(pair: str, folder: Path) -> None:
    first, given, second, other = DIFFERENT[pair]
    one, two = keys_of(first, given), keys_of(second, other)
    assert one and two and None not in one and not set(one) & set(two)


def test_a_key_is_the_same_each_time(folder: Path) -> None:
    assert keys_of(loss_of, *PROGRAMS["loss"][1]()) == keys_of(loss_of, *PROGRAMS["loss"][1]())


def test_sizes_that_vary_are_not_kept(folder: Path) -> None:
    assert keys_of(lambda x: x * 2.0, X, dynamic=True) == [None]


def test_what_has_no_text_is_not_kept(folder: Path) -> None:
    runnable = kept_graphs._read(
        {"name": "f", "wrapper": "", "values": {"inf": ("literal", float("inf")), "int": ("dtype", "int64")}, "units": [],
         "vector_bytes": 16, "takes_list": False, "cpp": [], "triton": [],
         "launches": {"obstacle": "", "is_on_gpu": True, "device": "cuda:0", "written": [1], "unused": []}}
    )  # fmt: skip
    kept_graphs.keep("one", runnable)
    assert kept_graphs.load("one") == runnable
    kept_graphs.keep("two", replace(runnable, values={"made": object()}))
    kept_graphs.keep("three", replace(runnable, constants={"weight": torch.ones(1)}))
    assert kept_graphs.load("two") is None and kept_graphs.load("three") is None


SECOND = """
    import sys, torch, dynascope
    @dynascope.compile
    def f(x, w):
        return torch.softmax(x @ w, -1).sum(0)
    x, w = torch.ones(4, 4, requires_grad=True), torch.eye(4)
    f(x, w).sum().backward()
    stages = ("dynascope.loops.lower", "dynascope.schedule", "dynascope.codegen.module", "dynascope.account")
    print(x.grad.shape, sorted(name for name in stages if name in sys.modules))
"""


@pytest.mark.compiler
def test_a_second_process_does_not_even_load_the_stages(tmp_path: Path) -> None:
    program = tmp_path / "second.py"
    program.write_text(textwrap.dedent(SECOND))
    environment = {**os.environ, "DYNASCOPE_CACHE_DIR": str(tmp_path / "cache"), "DYNASCOPE_STRICT": "0"}
    texts = [
        subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert "dynascope.loops.lower" in texts[0] and texts[1].strip() == "torch.Size([4, 4]) []"


def test_every_file_that_kernels_are_made_of_has_a_say():
    folder = Path(kept_graphs.__file__).parents[1]
    texts = {str(path) for path in folder.rglob("*") if path.suffix in (".py", ".c", ".h")}
    assert {path for path, _ in kept_graphs._sources(folder)} == texts
