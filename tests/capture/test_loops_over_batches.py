"""A loop over batches whose body breaks: each turn runs compiled, all turns share the same regions, however many batches there are."""


import dynascope
import pytest
import torch
from harness import recorded
from torch import nn


class Trained:
    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Linear(3, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def over_pairs(self, batches):
        total = 0.0
        for x, y in batches:
            total += self.step(x, y)
        return total

    def over_dictionaries(self, batches):
        losses = []
        for at, batch in enumerate([{"x": x, "y": y} for x, y in batches]):
            losses.append(self.step(batch["x"], batch["y"]) + at)
        return losses

    def over_a_zip(self, batches):
        total = 0.0
        for x, y in zip([x for x, _ in batches], [y for _, y in batches], strict=True):
            total += self.step(x, y)
        return total

    def until(self, batches):
        for turn in enumerate(batches):
            if self.step(*turn[1]) < 0.5:
                break
        else:
            return "all", turn[0]
        return "left", turn[0]

    def items_of_one(self, batches):
        values = iter(batches)
        total = 0.0
        for x, y in values:
            total += self.step(x, y)
            next(values, None)
        return total


PROGRAMS = ("over_pairs", "over_dictionaries", "over_a_zip", "until", "items_of_one")


def batches_of(count):
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(4, 3, generator=generator), torch.randint(2, (4,), generator=generator)) for _ in range(count)]


@pytest.mark.turns(6)
@pytest.mark.may_break
@pytest.mark.parametrize("count", [0, 1, 3, 6, 50])
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_eager(program, count):
    mine, theirs = Trained(), Trained()
    call = dynascope.compile(getattr(mine, program), backend="eager")
    for _ in range(3):
        if count == 0 and program == "until":
            with pytest.raises(UnboundLocalError):
                call(batches_of(count))
            continue
        assert call(batches_of(count)) == pytest.approx(getattr(theirs, program)(batches_of(count)))
    torch.testing.assert_close(mine.model.state_dict(), theirs.model.state_dict())


@pytest.mark.may_break
@pytest.mark.parametrize("program", ["over_pairs", "over_dictionaries", "over_a_zip", "until"])
def test_as_many_regions_for_many_batches_as_for_few(program):
    entries = []
    for count in (6, 50):
        trained = Trained()
        call = dynascope.compile(getattr(trained, program), backend="eager")
        with recorded() as recorder:
            call(batches_of(count))
            call(batches_of(count))
        found = [entry for function in recorder.report().functions for entry in function.entries]
        assert all(entry.status == "compiled" for entry in found)
        entries.append(len(found))
    assert max(entries) <= 8, entries


@pytest.mark.expects("print-call")
def test_numbers_of_a_long_loop():
    def function(x):
        for at in range(100):
            x = x + at
            if at == 50:
                print(end="")
            x = x * 2 % 7
        return x

    call = dynascope.compile(function, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(call(torch.ones(2)), function(torch.ones(2)))
