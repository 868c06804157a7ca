"""Modules of libraries that a program calls itself, in a program that asks for no compilation: compiled where it calls them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from dynascope.watched_modules import MOST_AT_A_PLACE

pytestmark = pytest.mark.turns(2)
ENGINE = Path(__file__).parents[2] / "engine"

PROGRAM = """
import copy
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.size = self.body(torch.ones(1, 4)).numel()
        self.head = nn.Linear(self.size, 1)

    def forward(self, x):
        return self.head(self.body(x))

torch.manual_seed(0)
model, own = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), Net()
optimizer = torch.optim.SGD([*model.parameters(), *own.parameters()], 0.1)
loss_of = nn.MSELoss()

def train(model, batches):
    for batch in batches:
        loss = loss_of(own(model(batch)), torch.ones(3, 1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

def readings():
    for number in range(2):
        yield model(torch.full((3, 4), float(number))).sum().item()

train(model, iter(torch.ones(4, 3, 4)))
print([round(number, 4) for number in readings()], round(own(model(torch.ones(3, 4))).sum().item(), 4))
print(torch.equal(copy.deepcopy(model)(torch.ones(3, 4)), model(torch.ones(3, 4))), list(model.state_dict()))
try:
    model(torch.ones(3, 5))
except RuntimeError as error:
    print(error)
"""

WRAPPED = """
import torch
from torch import nn
from torch.distributed import init_process_group, destroy_process_group
from torch.nn.parallel import DistributedDataParallel

init_process_group("gloo", "file://" + __file__ + ".store", rank=0, world_size=1)
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
for _ in range(3):
    made_at_each_call = nn.Softmax(-1)(model(torch.ones(2, 4)))
    made_at_each_call.max().backward()
for _ in range(20):
    copied = nn.Sequential(nn.Linear(1, 1, bias=False))(torch.ones(1, 1))
print(made_at_each_call.tolist(), copied.shape, [each.grad.abs().sum().item() for each in model.parameters()])
destroy_process_group()
"""

READ_BY_OTHERS = """
import torch
from torch import nn

torch.manual_seed(0)
x = torch.ones(2, 4)
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
results = [model(x)]
results.append(torch.jit.trace(model, x)(x))
results.append(torch.jit.script(model)(x))
results.append(torch.fx.symbolic_trace(model)(x))
results.append(torch.export.export(model, (x,)).module()(x))
results.append(torch.func.functional_call(model, dict(model.named_parameters()), (x,)))
print([round(result.sum().item(), 4) for result in results], torch.vmap(model)(torch.ones(3, 4)).shape)
"""

BREAKS = """
import torch
from torch import nn

layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
calls = []

class Refused(nn.Linear):
    def __call__(self, x):
        calls.append(sorted(globals()))
        return super().__call__(x)

refused = Refused(4, 4)

def step(x):
    print(len(calls), end=" ")
    return refused(layers(x)).sum()

for _ in range(3):
    step(torch.ones(2, 4))
"""

LIBRARY = """
import torch
from torch import nn

class Sized(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body
        self.size = body(torch.ones(1, 4)).numel()

    def forward(self, x):
        return self.body(x) * self.size

class Loop:
    def __init__(self, model, steps):
        self.model, self.steps = model, steps

    def fit(self, batches):
        for number in range(self.steps):
            loss = self.step(batches[number % 2])
            loss.backward()
        return loss.item()

    def step(self, batch):
        return self.model(batch).sum()

    @torch.no_grad()
    def predict(self, x):
        return torch.func.functional_call(self.model, dict(self.model.named_parameters()), (x,)), self.model(x)
"""

CALLED_BY_A_LIBRARY = """
import pathlib, sys
sys.path.insert(0, str(pathlib.Path(__file__).parent / "site-packages"))
import torch
from torch import nn
from loops import Loop, Sized

torch.manual_seed(0)
inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
model = Sized(inner)
batches = [torch.ones(3, 4), torch.ones(5, 4)]
print(round(Loop(model, 3).fit(batches), 4), inner[0].weight.grad.sum().item())
print(Loop(nn.Sequential(nn.Linear(4, 1)), 0).predict(torch.ones(2, 4))[1].shape)
"""


@pytest.fixture
def run(tmp_path):
    def run_file(text):
        file, report = tmp_path / "program.py", tmp_path / "report.json"
        file.write_text(text)
        environment = {**os.environ, "PYTHONPATH": str(ENGINE)}
        plain = subprocess.run([sys.executable, file], capture_output=True, text=True, cwd=tmp_path)
        command = [sys.executable, "-m", "dynascope", "run", "--json", report, file]
        compiled = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120)
        assert compiled.stdout == plain.stdout and compiled.returncode == plain.returncode, compiled.stderr
        return json.loads(report.read_text())

    return run_file


def text_at(place):
    lines = Path(place["file"]).read_text().splitlines()
    return lines[place["line"] - 1][place["column"] : place["end_column"]]


def test_they_are_compiled_where_the_program_calls_them(run):
    report = run(PROGRAM)
    found = {text_at(each["compiled_at"]): each for each in report["functions"] if each["compiled_at"]}
    assert found.keys() == {"loss_of", "model", "copy.deepcopy(model)"}
    assert [each["name"] for each in report["functions"] if not each["compiled_at"]] == ["Net.forward"]
    assert all(entry["status"] == "compiled" for each in report["functions"] for entry in each["entries"])


def test_what_a_wrapper_of_processes_holds(run):
    found, *copies = run(WRAPPED)["functions"]
    assert found["name"] == "Sequential.forward" and text_at(found["compiled_at"]) == "model"
    assert sum(len(each["entries"]) for each in copies) == MOST_AT_A_PLACE


def test_others_read_them_as_they_were(run):
    assert "model" in [text_at(each["compiled_at"]) for each in run(READ_BY_OTHERS)["functions"]]


@pytest.mark.expects_in_children("print-call", "foreign-call")
def test_not_in_a_function_that_is_compiled_itself(run):
    report = run(BREAKS)
    assert not any(each["compiled_at"] for each in report["functions"])


def test_a_loop_of_a_library_calls_them(run, tmp_path):
    """The outermost modules only, and neither what `__init__` tries out nor what torch calls with other parameters."""
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "loops.py").write_text(LIBRARY)
    report = run(CALLED_BY_A_LIBRARY)
    assert [(each["name"], len(each["entries"])) for each in report["functions"]] == [("Sized.forward", 2), ("Sequential.forward", 1)]
    (again,) = [each["change"]["expression"] for each in report["functions"][0]["entries"] if each["change"]]
    assert again == "x"  # not `batches`, which is what the library was given
