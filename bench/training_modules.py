"""The modules of `training_programs.py`: losses, fields, sequences, trees, flows, rays and graphs, as people write them."""

from __future__ import annotations

import math
import random
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Contrastive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(8, 6), nn.Linear(8, 6)
        self.temperature = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        one, other = F.normalize(self.left(x), dim=-1), F.normalize(self.right(y), dim=-1)
        alike = self.temperature.exp().clamp(max=100) * one @ other.t()
        labels = torch.arange(len(x), device=x.device)
        return (F.cross_entropy(alike, labels) + F.cross_entropy(alike.t(), labels)) / 2


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.actor, self.critic = nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(8, 1)
        self.saved: list[Any] = []
        self.rewards: list[float] = []

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = F.relu(self.body(x))
        return F.softmax(self.actor(x), dim=-1), self.critic(x)


class Focal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.gamma, self.alpha = nn.Linear(8, 3), 2.0, [0.2, 0.3, 0.5]

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        log_p = F.log_softmax(self.layer(x), dim=-1)
        log_pt = log_p.gather(1, y.unsqueeze(1)).squeeze(1)
        weight = torch.tensor(self.alpha, device=x.device)[y]
        return (-weight * (1 - log_pt.exp()) ** self.gamma * log_pt).mean()


class Recognizer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.GRU(8, 8, bidirectional=True, batch_first=True), nn.Linear(16, 6)
        self.loss = nn.CTCLoss(blank=0, zero_infinity=True)

    def forward(self, x: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        told = self.out(self.layer(x)[0]).log_softmax(-1).transpose(0, 1)
        heard = torch.full((x.size(0),), told.size(0), dtype=torch.long)
        return self.loss(told, targets, heard, lengths)


class Field(nn.Module):
    """A conditional random field over a recurrent layer."""

    def __init__(self, tags: int = 4) -> None:
        super().__init__()
        self.words, self.layer, self.out = nn.Embedding(20, 8), nn.LSTM(
            8, 4, bidirectional=True, batch_first=True
        ), nn.Linear(8, tags)
        self.moves = nn.Parameter(torch.linspace(-1, 1, tags * tags).reshape(tags, tags))
        self.first = nn.Parameter(torch.zeros(tags))

    def forward(self, words: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = self.out(self.layer(self.words(words))[0])
        rows = torch.arange(words.size(0))
        total = self.first + scores[:, 0]
        said = self.first[tags[:, 0]] + scores[rows, 0, tags[:, 0]]
        for at in range(1, words.size(1)):
            following = torch.logsumexp(total.unsqueeze(2) + self.moves + scores[:, at].unsqueeze(1), dim=1)
            total = torch.where(mask[:, at].unsqueeze(1), following, total)
            said = said + (self.moves[tags[:, at - 1], tags[:, at]] + scores[rows, at, tags[:, at]]) * mask[:, at]
        return (torch.logsumexp(total, 1) - said).mean()


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.encoder, self.cell = nn.Embedding(20, 8), nn.GRU(8, 8, batch_first=True), nn.GRUCell(16, 8)
        self.attend, self.out = nn.Linear(16, 1), nn.Linear(8, 20)

    def forward(self, source: torch.Tensor, target: torch.Tensor, forcing: float = 0.5) -> torch.Tensor:
        keys, state = self.encoder(self.words(source))
        state, word, told = state[0], target[:, 0], []
        for at in range(1, target.size(1)):
            weights = self.attend(torch.cat([keys, state[:, None].expand_as(keys)], -1)).softmax(1)
            state = self.cell(torch.cat([self.words(word), (weights * keys).sum(1)], -1), state)
            logits = self.out(state)
            told.append(logits)
            word = target[:, at] if random.random() < forcing else logits.argmax(-1)
        return F.cross_entropy(torch.stack(told, 1).flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)


class Tree(nn.Module):
    """A child-sum tree LSTM: the tree is nested tuples."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.below, self.forget = nn.Linear(4, 12), nn.Linear(4, 12, bias=False), nn.Linear(8, 4)

    def node(self, x: torch.Tensor, tree: Any) -> tuple[torch.Tensor, torch.Tensor]:
        at, children = tree
        below = [self.node(x, child) for child in children]
        hidden = sum((h for h, _ in below), torch.zeros(4))
        i, o, u = (self.gates(x[at]) + self.below(hidden)).chunk(3)
        cell = i.sigmoid() * u.tanh()
        for h, c in below:
            cell = cell + self.forget(torch.cat([x[at], h])).sigmoid() * c
        return o.sigmoid() * cell.tanh(), cell

    def forward(self, x: torch.Tensor, tree: Any) -> torch.Tensor:
        return self.node(x, tree)[0]


class Ordinary(nn.Module):
    """A neural ODE, by fixed steps of Runge and Kutta, and one whose steps follow the error."""

    def __init__(self, adapts: bool) -> None:
        super().__init__()
        self.field, self.adapts = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4)), adapts

    def slope(self, t: float, y: torch.Tensor) -> torch.Tensor:
        return self.field(torch.cat([y, torch.full_like(y[:, :1], t)], -1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, h, y = 0.0, 0.25, x
        while t < 1.0:
            h = min(h, 1.0 - t)
            a = self.slope(t, y)
            b = self.slope(t + h / 2, y + h / 2 * a)
            c = self.slope(t + h / 2, y + h / 2 * b)
            d = self.slope(t + h, y + h * c)
            following = y + h / 6 * (a + 2 * b + 2 * c + d)
            if self.adapts and (error := (following - y - h * b).abs().max().item()) > 0.05:
                h = 0.9 * h * (0.05 / error) ** 0.5
                continue
            t, y = t + h, following
        return y


class Coupling(nn.Module):
    def __init__(self, size: int, mask: torch.Tensor) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(size, 8), nn.ReLU(), nn.Linear(8, size * 2))
        self.register_buffer("mask", mask)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scale, shift = self.net(x * self.mask).chunk(2, -1)
        scale = scale.tanh() * (1 - self.mask)
        return x * scale.exp() + shift * (1 - self.mask), scale.sum(-1)


class Flow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Coupling(4, torch.tensor([at % 2, 1 - at % 2] * 2).float()) for at in range(3))
        self.prior = torch.distributions.MultivariateNormal(torch.zeros(4), torch.eye(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x.new_zeros(x.shape[0])
        for layer in self.layers:
            x, change = layer(x)
            total += change
        return -(self.prior.log_prob(x) + total).mean()


class Radiance(nn.Module):
    """NeRF: rays, positional encoding, volume rendering, coarse then fine."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.density, self.colour = nn.Sequential(nn.Linear(15, 16), nn.ReLU()), nn.Linear(16, 1), nn.Linear(16 + 3, 3)

    def encoded(self, x: torch.Tensor) -> torch.Tensor:
        found = [x]
        for power in range(2):
            for function in (torch.sin, torch.cos):
                found.append(function(2.0**power * math.pi * x))
        return torch.cat(found, -1)

    def rendered(
        self, origins: torch.Tensor, ways: torch.Tensor, at: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        points = origins[:, None] + ways[:, None] * at[..., None]
        hidden = self.body(self.encoded(points))
        density = F.relu(self.density(hidden)[..., 0])
        colour = torch.sigmoid(self.colour(torch.cat([hidden, ways[:, None].expand_as(points)], -1)))
        gaps = torch.cat([at[..., 1:] - at[..., :-1], torch.full_like(at[..., :1], 1e10)], -1)
        alpha = 1.0 - torch.exp(-density * gaps)
        through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1.0 - alpha + 1e-10], -1), -1)[:, :-1]
        weights = alpha * through
        return (weights[..., None] * colour).sum(1), weights

    def forward(self, origins: torch.Tensor, ways: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
        ways = ways / ways.norm(dim=-1, keepdim=True)
        at = torch.linspace(0.5, 2.0, 8).expand(len(origins), 8)
        middles = 0.5 * (at[..., 1:] + at[..., :-1])
        at = torch.cat([at[..., :1], middles], -1) + torch.rand(at.shape) * 0.1
        coarse, weights = self.rendered(origins, ways, at)
        share = (weights.detach() + 1e-5) / (weights.detach() + 1e-5).sum(-1, keepdim=True)
        summed = torch.cat([torch.zeros_like(share[..., :1]), share.cumsum(-1)], -1)
        places = torch.searchsorted(
            summed.contiguous(), torch.linspace(0.05, 0.95, 6).expand(len(at), 6).contiguous(), right=True
        )
        fine = at.gather(1, (places - 1).clamp(0, 7))
        both, _ = torch.sort(torch.cat([at, fine], -1), -1)
        found, _ = self.rendered(origins, ways, both)
        return F.mse_loss(coarse, pixels) + F.mse_loss(found, pixels)


class Graph(nn.Module):
    """Message passing by hand, with an adjacency that is normalized inside."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.attend = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(16, 1)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        count = x.size(0)
        loops = torch.arange(count)
        source, target = torch.cat([edges, torch.stack([loops, loops])], 1)
        degree = torch.zeros(count).scatter_add_(0, target, torch.ones(len(target)))
        norm = degree.pow(-0.5)[source] * degree.pow(-0.5)[target]
        x = F.relu(torch.zeros(count, 8).index_add_(0, target, self.one(x)[source] * norm[:, None]))
        scores = F.leaky_relu(self.attend(torch.cat([x[source], x[target]], -1))).squeeze(-1)
        scores = (scores - scores.max()).exp()
        weights = scores / torch.zeros(count).index_add(0, target, scores)[target]
        return self.two(torch.zeros_like(x).index_add(0, target, x[source] * weights[:, None])).log_softmax(-1)


class Knowledge(nn.Module):
    """TransE and RotatE with negatives that are drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.things, self.relations = nn.Embedding(10, 8, max_norm=1.0), nn.Embedding(3, 4)

    def forward(self, triples: torch.Tensor) -> torch.Tensor:
        drawn = torch.randint(0, 10, (len(triples), 4))
        head, relation, tail = self.things(triples[:, 0]), self.relations(triples[:, 1]), self.things(triples[:, 2])
        wrong = self.things(drawn)
        (re, im), (cos, sin) = head.chunk(2, -1), (relation.cos(), relation.sin())
        turned = torch.cat([re * cos - im * sin, re * sin + im * cos], -1)
        good, bad = (turned - tail).norm(dim=-1), (turned[:, None] - wrong).norm(dim=-1)
        weights = F.softmax(-bad, -1).detach()
        return -(F.logsigmoid(1.0 - good) + (weights * F.logsigmoid(bad - 1.0)).sum(-1)).mean()
