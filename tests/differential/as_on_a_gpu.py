"""Started by the test, in a process of its own: programs run as on a GPU, without one, and each prints whether it equals eager."""

from __future__ import annotations

import copy

from interpreting_for_gpu import run_as_on_a_gpu  # isort: skip: before anything imports Triton
import dynascope
import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """With a mask that is looked up at computed places, as transformers' does, and a cache that grows."""

    def __init__(self):
        super().__init__()
        self.table, self.norm, self.project, self.out = nn.Embedding(50, 16), nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 50)

    def forward(self, tokens, kept, cache):
        rows, columns = torch.arange(tokens.shape[0]), torch.arange(tokens.shape[1] + cache.shape[1])
        seen = kept[rows[:, None], columns + 0]
        query, key, value = self.project(self.norm(self.table(tokens))).chunk(3, -1)
        key = torch.cat([cache, key], 1)
        scores = query @ key.transpose(1, 2) / 4
        scores = scores.masked_fill(~seen[:, None], -torch.inf).softmax(-1)
        return self.out(scores @ torch.cat([cache, value], 1)), key


def attention():
    model, total = Attention(), 0.0
    cache = torch.zeros(2, 3, 16)
    step = yield model
    for length in (4, 1, 5):
        kept = torch.ones(2, cache.shape[1] + length, dtype=torch.bool)
        kept[1, 0] = False
        result, cache = step(torch.arange(2 * length).reshape(2, length) % 50, kept, cache)
        total = total + result.square().sum()
        cache = cache.detach()
    total.backward()
    yield [total, cache, *(each.grad for each in model.parameters())]


def training(make):
    def program():
        image = nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()
        model = nn.Sequential(*image, nn.Linear(4 * 16, 8), nn.Linear(8, 8))
        optimizer = make(model.parameters(), 1e-2)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.detach()

        step = yield step
        losses = [step(torch.randn(5, 1, 6, 6), torch.arange(5)) for _ in range(3)]
        yield [*losses, *model.state_dict().values()]

    return program


def caches():
    cache = torch.zeros(2, 3, 10, 4)

    def write(cache, token, position):
        cache[:, :, position] = token
        return (cache.sum(-1) * 2).amax(1)

    write = yield write
    results = [write(cache, torch.full((2, 3, 4), float(position)), position) for position in (1, 2, 3, 4)]
    yield [*results, cache]


PROGRAMS = {
    "attention": attention,
    "SGD": training(lambda parameters, rate: torch.optim.SGD(parameters, rate, momentum=0.9)),
    "AdamW": training(torch.optim.AdamW),
    "AdamW by lists": training(lambda parameters, rate: torch.optim.AdamW(parameters, rate, foreach=True)),
    "caches": caches,
}


def played(program, compile):
    torch.manual_seed(0)
    playing = program()
    target = next(playing)
    return [copy.copy(each.detach()) for each in playing.send(compile(target))]


if __name__ == "__main__":
    run_as_on_a_gpu()
    for name, program in PROGRAMS.items():
        expected = played(program, lambda target: target)
        found = played(program, dynascope.compile)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-4)
        print(name, "equal", flush=True)
