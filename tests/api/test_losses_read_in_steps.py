"""Training steps that read their loss as a number, as loops write them: forward, backward and optimizer stay kernels."""

from __future__ import annotations

import math

import dynascope
import pytest
import torch
import torch.nn.functional as F
from torch import nn

HISTORY: list[float] = []


class Meter:
    total, count = 0.0, 0


METER = Meter()


def appended(loss, outputs):
    HISTORY.append(float(loss))
    return loss.detach()


def with_its_history(loss, outputs):
    HISTORY.append(loss.item())
    return loss


def added_up(loss, outputs):
    METER.total += loss.item() * len(outputs)
    METER.count += len(outputs)
    return METER.total / METER.count


def with_an_accuracy(loss, outputs):
    right = (outputs.argmax(1) == 0).sum().item()
    return loss.item(), right / len(outputs)


def checked(loss, outputs):
    if not math.isfinite(loss.item()):
        raise ValueError("no number")
    return loss.detach()


def with_the_outputs(loss, outputs):
    return {"loss": loss.item(), "outputs": outputs.detach(), "best": outputs.max().item()}


def made_step(read, optimizer_of, compiler):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))
    optimizer = optimizer_of(model.parameters())
    HISTORY.clear()
    METER.total, METER.count = 0.0, 0

    def step(x):
        optimizer.zero_grad()
        outputs = model(x)
        loss = F.cross_entropy(outputs, torch.zeros(len(x), dtype=torch.long))
        loss.backward()
        optimizer.step()
        return read(loss, outputs)

    return model, compiler(step)


OPTIMIZERS = {"sgd": lambda given: torch.optim.SGD(given, 0.1), "adam": lambda given: torch.optim.Adam(given, 0.01)}


@pytest.mark.turns(6)
@pytest.mark.compiler
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    "read", [appended, with_its_history, added_up, with_an_accuracy, with_the_outputs, pytest.param(checked, marks=pytest.mark.may_break)]
)
def test_equal_to_eager_with_kernels(read, optimizer):
    """Strict mode: a graph that runs operator by operator is an error."""
    found = []
    for compiler in (dynascope.compile, lambda function: function):
        model, step = made_step(read, OPTIMIZERS[optimizer], compiler)
        torch.manual_seed(1)
        results = [step(torch.randn(5, 4)) for _ in range(3)]
        if read is with_its_history:
            assert all(each.requires_grad for each in results)
            with pytest.raises(RuntimeError, match="second time"):
                results[0].backward()
            results = [each.detach() for each in results]
        found.append((results, list(HISTORY), [each.detach() for each in model.parameters()]))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)


def totals(model, optimizer, x, loss, outputs):
    METER.total += loss.item()
    HISTORY.extend((outputs.argmax(1) == 0).float().mean(0, keepdim=True).tolist())
    loss.backward()
    optimizer.step()
    return METER.total / len(x)


def parameters_before_they_change(model, optimizer, x, loss, outputs):
    before = model[0].weight.sum().item(), model[2].bias.tolist()
    loss.backward()
    optimizer.step()
    return *before, model[2].bias.tolist()


def used_afterwards(model, optimizer, x, loss, outputs):
    value = loss.item() * 2
    loss.backward()
    optimizer.step()
    return x * value


def between_two_passes(model, optimizer, x, loss, outputs):
    HISTORY.append(loss.item())
    loss.backward()
    HISTORY.append(model[0].weight.grad.norm().item())
    optimizer.step()
    optimizer.zero_grad()
    again = model(x).square().mean()
    HISTORY.append(again.item())
    again.backward()
    optimizer.step()
    return again.detach()


def used_before(model, optimizer, x, loss, outputs):
    (loss * loss.item()).backward()
    optimizer.step()
    return loss.detach()


BEFORE = [totals, parameters_before_they_change, used_afterwards, between_two_passes]


@pytest.mark.compiler
@pytest.mark.parametrize("body", [*BEFORE, pytest.param(used_before, marks=pytest.mark.may_break)])
def test_read_before_the_backward_pass(body):
    """Strict mode: a break is an error. What only leaves the graph is read at its end, as it was where the program asked."""
    found = []
    for compiler in (dynascope.compile, lambda function: function):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        HISTORY.clear()
        METER.total = 0.0

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            outputs = model(x)
            loss = F.cross_entropy(outputs, torch.zeros(len(x), dtype=torch.long))
            return body(model, optimizer, x, loss, outputs)

        compiled = compiler(step)
        torch.manual_seed(1)
        results = [compiled(torch.randn(size, 4)) for size in (5, 5, 6, 7)]
        found.append((results, list(HISTORY), METER.total, [each.detach() for each in model.parameters()]))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)
