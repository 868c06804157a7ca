"""`dynascope compare-captures`: what each way of capturing has of a function, and proofs of where it does not hold."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys

import dynascope
import pytest
import torch
from dynascope.captures.calls import _same_leaf
from torch import nn

pytestmark = [pytest.mark.may_break, pytest.mark.turns(3)]


def rows_of(function, *arguments, **keywords):
    comparison = dynascope.compare_captures(function, *arguments, **keywords)
    text = str(comparison)  # which the command prints
    assert "a call of eager's takes" in text and all(name in text for name in ("torch.jit.trace", "torch.export", "dynascope"))
    return {row.system: row for row in comparison.rows}


def branching(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def test_a_frozen_branch_is_proved():
    rows = rows_of(branching, torch.ones(3))
    assert not rows["torch.jit.trace"].is_sound
    proof = next(proof for proof in rows["torch.jit.trace"].proofs if proof.found)
    assert proof.call == "the signs of its tensors changed" and proof.lines and "other values" in proof.found
    assert rows["torch.jit.script"].is_sound and "prim::If" in rows["torch.jit.script"].pieces[0]
    assert not rows["torch.fx"].captured and "control flow" in rows["torch.fx"].failure
    assert not rows["torch.export"].captured
    ours = rows["dynascope"]
    assert ours.captured and ours.is_sound and len(ours.pieces) == 2 and ours.seconds > 0 and ours.overhead is not None
    assert "needs the value of a tensor" in ours.notes[0]


def printing(x):
    print("largest", x.max().item())
    return x * 2


def test_a_print_that_is_lost_is_proved():
    rows = rows_of(printing, torch.ones(3))
    assert rows["torch.jit.trace"].proofs[0].found == "does not print what eager prints"
    assert rows["dynascope"].is_sound


def sized(x):
    return x.reshape(x.shape[0] * 2, -1) * x.shape[0]


def test_a_size_that_is_baked_in_is_proved():
    rows = rows_of(sized, torch.ones(3, 4))
    assert any(proof.call == "4 rows instead of 3" and proof.is_said for proof in rows["torch.export"].proofs)
    assert rows["dynascope"].is_sound and all(proof.found is None for proof in rows["dynascope"].proofs)


def scaled(x, scale, flag=True):
    x.mul_(scale)
    return x if flag else -x


def test_numbers_and_flags_that_are_baked_in():
    rows = rows_of(scaled, torch.ones(3), 2.0)
    wrong = {proof.call for proof in rows["torch.jit.trace"].proofs if proof.found and not proof.is_said}
    assert "3.0 instead of 2.0" in wrong and "1 argument that is no tensor is a constant" in rows["torch.jit.trace"].notes[0]
    assert rows["dynascope"].is_sound


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 3), nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(self.linear(x)).relu()


def test_a_module_and_lazy_tensors_or_the_reason_why_not():
    rows = rows_of(Counting(), torch.randn(5, 4))
    assert all(rows[name].captured for name in ("torch.jit.trace", "torch.jit.script", "torch.fx", "torch.export", "dynascope"))
    lazy = rows["LazyTensor"]
    assert (lazy.is_missing and "no backend for lazy tensors" in lazy.failure) or lazy.captured


def test_what_is_put_into_an_argument_is_no_fault_of_lazy_tensors():
    def noting(x, seen):
        seen["last"] = x.sum()
        return x + 1

    lazy = rows_of(noting, torch.ones(3), {})["LazyTensor"]
    assert lazy.is_missing or lazy.captured
    assert lazy.is_sound, "the caller's dictionary is changed, as by eager"


def test_all_that_is_lost_is_said():
    seen = []

    def step(x, log):
        log.append(x.shape[0])
        seen.append(x)
        print("step", len(log))
        return x.mul_(2)

    rows = rows_of(step, torch.ones(3), [])
    lost = "does not print what eager prints, does not change its arguments as eager does, does not change `seen`, which eager does"
    assert lost in {proof.found for proof in rows["torch.jit.trace"].proofs}
    assert rows["dynascope"].is_sound and (rows["LazyTensor"].is_missing or rows["LazyTensor"].is_sound)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, is_doubled=True):
        return self.one(x) * (2 if is_doubled else 1) if x.mean() > 0 else self.other(x)


def test_a_module_that_takes_more_than_tensors_is_traced_with_its_parameters():
    """Traced as a plain function its parameters would be constants, which those that require gradients may not be."""
    traced = rows_of(Gated(), torch.ones(2, 4), True)["torch.jit.trace"]
    assert traced.captured and not traced.is_sound and "aten::linear" in traced.pieces[0]
    wrong = {proof.call for proof in traced.proofs if proof.found}
    assert {"the signs of its tensors changed", "False instead of True"} <= wrong


PROGRAM = """
import sys
import torch

class Model(torch.nn.Module):
    def forward(self, x, limit=0):
        print("inside")
        return x * 2 if x.sum() > limit else x

class Scale:
    @staticmethod
    def twice(x):
        return x + x

@torch.compile
def f(x):
    return Scale.twice(x) + 1

model = torch.compile(Model())
print(model(torch.ones(3)), f(torch.ones(2)), sys.argv[1:])
model(-torch.ones(3))
"""


def command(path, *words):
    return subprocess.run(
        [sys.executable, "-m", "dynascope", "compare-captures", *words], capture_output=True, text=True, check=False, cwd=path.parent
    )


def test_the_command(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = command(path, "--output-format", "json", f"{path}::Model.forward", "word")
    assert done.returncode == 0, done.stderr
    comparison = json.loads(done.stdout)
    assert comparison["function"] == "Model" and comparison["eager_seconds"] > 0
    rows = {row["system"]: row for row in comparison["rows"]}
    assert "call 2 of the program" in {proof["call"] for proof in rows["torch.jit.trace"]["proofs"] if proof["found"]}
    assert rows["dynascope"]["is_sound"] and not rows["torch.jit.trace"]["is_sound"]
    text = command(path, f"{path}::f").stdout
    assert text.startswith("f, a call of eager's takes") and "x + x" in text
    assert "captured: no" not in text, "the source of the program's class is found, as in the program"
    missing = command(path, f"{path}::nothing")
    assert missing.returncode == 1 and "Model.forward, Scale.twice, f" in missing.stderr
    assert command(path, f"{path}").returncode == 2


calls = []
latest = {}


def remembers(x):
    calls.append(x.shape[0])
    latest["x"] = x * 2
    return latest["x"] + 1


@pytest.mark.compiler
def test_what_a_function_leaves_outside_is_looked_at():
    rows = rows_of(remembers, torch.ones(3))
    for lost in ("torch.jit.trace", "torch.fx", "torch.export"):
        assert not rows[lost].is_sound and "`calls` and `latest`" in rows[lost].proofs[0].found
    assert rows["dynascope"].is_sound and rows["dynascope"].captured
    assert calls == [] and latest == {}


class Counter:
    def __init__(self):
        self.count, self.seen = 0, [[]]


counter = Counter()


def counting(x, log=None, **others):
    counter.count += 1
    counter.seen[0].append(x.shape[0])
    return x * counter.count + sum(others.values()) + (0 if log is None else log["by"])


@pytest.mark.compiler
def test_each_run_finds_the_objects_of_the_program_as_the_first_one_did():
    rows = rows_of(counting, torch.ones(3))
    ours = rows["dynascope"]
    assert ours.is_sound and ours.proofs and all(proof.found is None for proof in ours.proofs)
    assert "`counter`" in rows["torch.jit.trace"].proofs[0].found
    assert (counter.count, counter.seen) == (0, [[]])


def by_chance(x):
    mask = torch.rand_like(x) > 0.5
    return x * mask if random.random() > 0.5 else x * ~mask


def test_random_numbers_of_python_begin_alike():
    state = random.getstate()
    ours = rows_of(by_chance, torch.ones(64))["dynascope"]
    assert ours.is_sound and ours.proofs and random.getstate() == state


turns = itertools.count()


def never_the_same(x):
    return x + next(turns)


@pytest.mark.compiler
@pytest.mark.parametrize("draw", [random.random, lambda: torch.randn(2)], ids=["python", "torch"])
def test_a_random_number_that_a_capture_keeps_is_found(draw):
    """It was the very number that each call was compared with: captures and calls began from one seed."""

    def noisy(x):
        return x + draw()

    rows = {row.system: row for row in dynascope.compare_captures(noisy, torch.ones(2)).rows}
    assert not rows["torch.fx"].is_sound
    assert rows["torch.jit.trace"].is_sound == (draw is not random.random), "a trace has torch's own draws, and no others"
    assert rows["dynascope"].is_sound


def test_where_eager_is_not_the_same_twice_nothing_is_proved():
    comparison = dynascope.compare_captures(never_the_same, torch.ones(3))
    assert "nothing is proved" in str(comparison) and not any(row.proofs for row in comparison.rows)
    assert "not tried" in str(comparison) and "UNSOUND" not in str(comparison)


def test_a_function_without_arguments():
    ours = rows_of(lambda: torch.ones(3) * 2)["dynascope"]
    assert ours.captured and ours.is_sound


NAMED = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, **scales):
        return x * scales.get("by", 1)

def items(x):
    yield x
    yield x * 2

model = Model()
print(model(torch.ones(3), by=3), sum(items(torch.ones(2))))
"""


def test_a_class_is_its_forward_and_every_keyword_is_noted(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(NAMED)
    comparison = json.loads(command(path, "--output-format", "json", f"{path}::Model").stdout)
    assert comparison["function"] == "Model" and comparison["notes"] == []
    rows = {row["system"]: row for row in comparison["rows"]}
    assert rows["dynascope"]["is_sound"] and "x * 3" in rows["dynascope"]["pieces"][0]
    missing = command(path, f"{path}::items")
    assert missing.returncode == 1 and "was not called" in missing.stderr


MODEL = nn.Linear(4, 2)
OPTIMIZER = torch.optim.Adam(MODEL.parameters(), 1e-2)


def training_step(x):
    loss = MODEL(x).square().mean()
    OPTIMIZER.zero_grad()
    loss.backward()
    OPTIMIZER.step()
    return loss.item()


@pytest.mark.compiler
def test_each_run_of_a_training_step_finds_weights_gradients_and_state_as_the_first_one_did():
    before = [parameter.detach().clone() for parameter in MODEL.parameters()]
    ours = rows_of(training_step, torch.randn(3, 4))["dynascope"]
    assert ours.captured and ours.is_sound and len(ours.proofs) > 2, ours
    assert all(map(torch.equal, before, MODEL.parameters()))
    assert all(parameter.grad is None for parameter in MODEL.parameters()) and not OPTIMIZER.state_dict()["state"]


def test_numbers_that_are_taken_out_of_tensors_differ_by_rounding():
    assert _same_leaf(0.5000001, 0.5) and not _same_leaf(0.51, 0.5)
    assert _same_leaf(float("nan"), float("nan")) and not _same_leaf(float("nan"), 0.5) and not _same_leaf(1, 2)


class Remembering(nn.Module):
    """What a call leaves behind in the module: a number that the next call reads, a list, buffers that torch's layers write."""

    def __init__(self):
        super().__init__()
        self.norm, self.calls, self.seen = nn.BatchNorm1d(4), 0, []

    def forward(self, x):
        self.calls += 1
        self.seen.append(x.shape[0])
        return self.norm(x) / self.calls


def test_each_call_finds_a_module_as_the_first_one_did_and_the_second_what_the_first_left():
    module = Remembering()
    rows = rows_of(module, torch.randn(5, 4))
    assert module.calls == 0 and not module.seen and not module.norm.num_batches_tracked
    assert rows["dynascope"].is_sound and all(proof.found is None for proof in rows["dynascope"].proofs)
    for name in ("torch.jit.trace", "torch.fx", "torch.export"):
        found = {proof.call: proof.found for proof in rows[name].proofs}
        assert found["the first call"] == "does not change `self.calls` and `self.seen`, which eager does"
        assert "other values" in found["the first call, made twice"]


class Stepping(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.calls = nn.Linear(4, 4), 0

    def forward(self, x):
        self.calls += 1
        return self.linear(x) / self.calls


def test_a_script_keeps_numbers_of_its_own_and_parameters_are_lazy_tensors_too():
    rows = rows_of(Stepping(), torch.randn(5, 4))
    assert rows["torch.jit.script"].is_sound and rows["torch.jit.script"].captured
    assert rows["LazyTensor"].is_missing or (rows["LazyTensor"].captured and rows["LazyTensor"].is_sound)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(4), nn.Linear(4, 8)

    def forward(self, x):
        return nn.functional.gelu(self.up(self.norm(x)))


def test_eager_is_timed_beside_each_way_on_a_module_that_no_capture_has_touched():
    """Lazy tensors leave a module's parameters on their device: eager's call of that one ends the process."""
    rows = rows_of(Block(), torch.ones(2, 4))
    assert rows["dynascope"].overhead is not None
    assert rows["LazyTensor"].is_missing or rows["LazyTensor"].overhead is not None
