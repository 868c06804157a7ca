"""Numbers computed of ints and floats that vary, with Python's functions: each is that of its call, as an operand and as a result."""

from __future__ import annotations

import math
import random

import dynascope
import pytest
import torch
from torch import nn

BINARY = ["({} + {})", "({} - {})", "({} * {})", "({} / (2.5 + abs({})))", "max({}, {})", "min({}, {})"]
UNARY = ["math.cos({})", "math.sqrt(abs({}))", "math.exp(-abs({}))", "abs({})", "-{}", "round({})", "float({})", "({} ** 2)", "int({})"]
LEAVES = ["n", "m", "s", "t", "2", "0.25", "math.pi", "x.shape[0]"]


def expression(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.1:
        return rng.choice(LEAVES)
    if rng.random() < 0.4:
        return rng.choice(UNARY).format(expression(rng, depth - 1))
    return rng.choice(BINARY).format(expression(rng, depth - 1), expression(rng, depth - 1))


def program(rng: random.Random, name: str):
    first, second, third = (expression(rng, rng.randint(1, 4)) for _ in range(3))
    results = f"x[:n] * scale + {second}, scale, {third}, x[: n + m].sum() * ({third})"
    text = f"def {name}(x, n, m, s, t):\n    scale = {first}\n    return {results}\n"
    space = {"math": math}
    exec(text, space)
    return space[name], text


CALLS = [(8, 2, 3, 0.5, 1.5), (8, 3, 2, 0.25, 1.5), (9, 4, 3, 0.75, -0.5)]
CALLS += [(10, 2, 5, 1.25, 2.0), (11, 5, 4, -0.5, 0.125), (9, 6, 2, 3.0, 1.0)]


@pytest.mark.may_break
def test_random_expressions():
    seed = 29
    rng = random.Random(seed)
    for number in range(12):
        function, text = program(rng, f"program_{number}")
        backend = "eager" if number % 4 else "aot_eager"  # which has the numbers as torch's symbols; it takes ten times as long
        compiled = dynascope.compile(function, backend=backend, dynamic=rng.choice([None, True]))
        for length, *numbers in CALLS:
            x = torch.arange(float(length))
            ours, theirs = compiled(x, *numbers), function(x, *numbers)
            for one, other in zip(ours, theirs, strict=True):
                assert type(one) is type(other), (seed, text)
                one, other = (torch.as_tensor(each, dtype=torch.float64) for each in (one, other))
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4, msg=lambda words: f"{words}\nseed {seed}\n{text}")  # noqa: B023


SCHEDULES = {
    "cosine": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
    "restarts": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3),
    "one cycle": lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20),
    "steps": lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2),
    "by a function": lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (epoch + 1)),
    "exponential": lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
    "linear": lambda optimizer: torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 4),
    "polynomial": lambda optimizer: torch.optim.lr_scheduler.PolynomialLR(optimizer, 6, 2.0),
    "cyclic": lambda optimizer: torch.optim.lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, step_size_up=2),
}


@pytest.mark.compiler
@pytest.mark.may_break
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_learning_rates_of_schedules_that_step_inside(schedule):
    found = []
    for compiler in (dynascope.compile, lambda function: function):
        torch.manual_seed(0)
        model = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        scheduler = SCHEDULES[schedule](optimizer)

        def step(x, model=model, optimizer=optimizer, scheduler=scheduler):
            loss = model(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            return loss.detach()

        compiled, rates = compiler(step), []
        for number in range(7):
            compiled(torch.randn(2, 4, generator=torch.Generator().manual_seed(number)))
            rates.append(optimizer.param_groups[0]["lr"])
        found.append((rates, scheduler.get_last_lr(), [each.detach() for each in model.parameters()]))
    torch.testing.assert_close(*found)


def test_floats_that_vary_leave_the_sizes_of_others_alone():
    """Each value of `scale` was a compilation of its own: the sizes of what is made with it were not known for others."""

    def program(x, scale):
        y = x * scale
        return (y / len(y)).view(y.shape[0], -1) + sum(y.unbind(0))

    seen = []
    compiled = dynascope.compile(program, backend=lambda graph, inputs: seen.append(graph) or graph.forward)
    for scale in (0.5, 0.25, 2.0, 1.75, -1.0):
        x = torch.randn(3, 4)
        torch.testing.assert_close(compiled(x, scale), program(x, scale))
    assert len(seen) == 2
