"""Steps and samplers, for `models.py`, in which the data or drawn numbers decide what is computed with: experts, chosen rows,
minibatches in shuffled order, temperatures read out of tensors, schedules that Python goes through."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from model_programs import Program, stepping, whole
from scripts import numbers
from torch import nn
from torch.distributions import Bernoulli, Categorical, Independent, MultivariateNormal, Normal
from torch.nn import functional as F

Inputs = dict[str, Any]


class Experts(nn.Module):
    """Each token goes to two of four experts, which take so many and no more; with a loss that spreads them."""

    def __init__(self, width: int = 8, count: int = 4, chosen: int = 2, capacity: float = 1.25) -> None:
        super().__init__()
        self.gate, self.chosen, self.capacity = nn.Linear(width, count, bias=False), chosen, capacity
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, width)) for _ in range(count)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shares = self.gate(x).softmax(-1)
        weights, places = shares.topk(self.chosen, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        routed = F.one_hot(places, len(self.experts))
        order = routed.view(-1, len(self.experts)).cumsum(0).view_as(routed) * routed - 1
        room = int(self.capacity * len(x) * self.chosen / len(self.experts))
        spread = len(self.experts) * (shares.mean(0) * routed.float().sum(1).mean(0)).sum()
        out = torch.zeros_like(x)
        for at, expert in enumerate(self.experts):
            taken = ((order[:, :, at] >= 0) & (order[:, :, at] < room)).any(-1)
            rows = torch.where(taken)[0]
            share = (weights * routed[:, :, at]).sum(-1)[rows].unsqueeze(-1)
            out = out.index_add(0, rows, expert(x[rows]) * share)
        return out, spread


def of_experts(model: nn.Module) -> Callable[..., Any]:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step(x: torch.Tensor) -> dict[str, float]:
        out, spread = model(x)
        loss = F.mse_loss(out, x.flip(0)) + 0.01 * spread
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return {"loss": loss.detach(), "norm": norm}

    return step


class Convolution(nn.Module):
    """Over the edges of a graph, by degrees."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 8), nn.Linear(8, 3)
        self.register_buffer("train_mask", torch.tensor([True, True, False, True, False, True]))

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        loops = torch.arange(len(x)).repeat(2, 1)
        source, target = torch.cat([edges, loops], 1)
        degree = torch.zeros(len(x)).scatter_add_(0, target, torch.ones(len(target))).pow(-0.5)
        scale = (degree[source] * degree[target]).unsqueeze(-1)
        for layer in (self.first, self.second):
            given = layer(x)
            x = torch.zeros_like(given).index_add_(0, target, given[source] * scale)
            x = F.relu(x) if layer is self.first else x
        return F.log_softmax(x, -1)


def node_classification(model: nn.Module) -> Callable[..., Any]:
    optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=5e-4)

    def step(x: torch.Tensor, edges: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        optimizer.zero_grad()
        out = model(x, edges)
        loss = F.nll_loss(out[model.train_mask], labels[model.train_mask])
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach(), "right": (out.argmax(1) == labels).sum()}

    return step


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
        self.critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x: torch.Tensor, action: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        choices = Categorical(logits=self.actor(x))
        action = choices.sample() if action is None else action
        return action, choices.log_prob(action), choices.entropy(), self.critic(x).flatten()


def proximal(model: nn.Module) -> Callable[..., Any]:
    """An update of PPO: advantages backwards in time, then epochs of minibatches in an order that NumPy shuffles."""
    optimizer = torch.optim.Adam(model.parameters(), 2.5e-4, eps=1e-5)
    np.random.seed(0)

    def update(observed: torch.Tensor, rewards: torch.Tensor, ends: torch.Tensor) -> dict[str, Any]:
        with torch.no_grad():
            actions, before, _, values = model(observed)
            advantages, last = torch.zeros_like(rewards), 0.0
            for at in reversed(range(len(rewards))):
                following = values[at + 1] if at < len(rewards) - 1 else values[-1]
                error = rewards[at] + 0.99 * following * (1 - ends[at]) - values[at]
                advantages[at] = last = error + 0.99 * 0.95 * (1 - ends[at]) * last
            returns = advantages + values
        order, clipped = np.arange(len(rewards)), []
        for _ in range(2):
            np.random.shuffle(order)
            for begin in range(0, len(order), 4):
                batch = order[begin : begin + 4]
                _, now, entropy, value = model(observed[batch], actions[batch])
                ratio = (now - before[batch]).exp()
                clipped += [((ratio - 1).abs() > 0.2).float().mean().item()]
                gain = advantages[batch]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                policy = torch.max(-gain * ratio, -gain * ratio.clamp(0.8, 1.2)).mean()
                loss = policy - 0.01 * entropy.mean() + 0.5 * (value - returns[batch]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
        return {"loss": loss.detach(), "clipped": torch.tensor(np.mean(clipped))}

    return update


class Soft(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = nn.Linear(3, 4), nn.Linear(5, 1)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.temperature = nn.Parameter(torch.zeros(1))

    def act(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, spread = self.actor(state).chunk(2, -1)
        normal = Normal(mean, spread.tanh().exp())
        drawn = normal.rsample()
        action = drawn.tanh()
        return action, (normal.log_prob(drawn) - torch.log(1 - action.square() + 1e-6)).sum(1, keepdim=True)


def soft_actor_critic(model: nn.Module) -> Callable[..., Any]:
    """A step of SAC, whose temperature is read out of a tensor before anything else."""
    critic = torch.optim.Adam(model.critic.parameters(), 1e-3)
    actor = torch.optim.Adam(model.actor.parameters(), 3e-4)
    warmth = torch.optim.Adam([model.temperature], 1e-3)

    def step(state: torch.Tensor, action: torch.Tensor, reward: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        alpha = model.temperature.exp().item()
        with torch.no_grad():
            after, log = model.act(following)
            wanted = reward + 0.99 * (model.target(torch.cat([following, after], 1)) - alpha * log)
        loss = F.mse_loss(model.critic(torch.cat([state, action], 1)), wanted)
        critic.zero_grad()
        loss.backward()
        critic.step()
        acted, log = model.act(state)
        regret = (alpha * log - model.critic(torch.cat([state, acted], 1))).mean()
        actor.zero_grad()
        regret.backward()
        actor.step()
        cold = (-model.temperature.exp() * (log.detach() - 2)).mean()
        warmth.zero_grad()
        cold.backward()
        warmth.step()
        for new, old in zip(model.critic.parameters(), model.target.parameters(), strict=True):
            old.data.copy_(0.005 * new.data + 0.995 * old.data)
        return loss.detach()

    return step


class Guide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.location, self.scale = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))


def variational(model: nn.Module) -> Callable[..., Any]:
    """Logistic regression by SVI: `torch.distributions` checks what it is given."""
    optimizer = torch.optim.Adam(model.parameters(), 0.05)

    def step(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        guide = Independent(Normal(model.location, F.softplus(model.scale)), 1)
        weights = guide.rsample((4,))
        prior = MultivariateNormal(torch.zeros(3), torch.eye(3))
        likelihood = Bernoulli(logits=weights @ x.T).log_prob(labels).sum(-1)
        loss = -(likelihood + prior.log_prob(weights) - guide.log_prob(weights)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def mixed_by_numpy(model: nn.Module) -> Callable[..., Any]:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    np.random.seed(0)

    def step(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        share, order = np.random.beta(0.2, 0.2), np.random.permutation(len(x))
        out = model(share * x + (1 - share) * x[order])
        loss = share * F.cross_entropy(out, labels) + (1 - share) * F.cross_entropy(out, labels[order])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.time, self.last = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        angles = t.float()[:, None] * torch.exp(-math.log(10000) * torch.arange(4) / 4)
        return self.last(F.silu(self.first(x) + self.time(torch.cat([angles.sin(), angles.cos()], -1))))


class Implicit(Denoiser):
    """DDIM's sampler, over steps that Python goes through."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 20), 0)
        steps = torch.linspace(19, 0, 5).long().tolist()
        for now, then in zip(steps, steps[1:] + [-1], strict=True):
            alpha, after = kept[now], kept[then] if then >= 0 else torch.tensor(1.0)
            noise = super().forward(x, torch.full((len(x),), now))
            clean = ((x - (1 - alpha).sqrt() * noise) / alpha.sqrt()).clamp(-1, 1)
            x = after.sqrt() * clean + (1 - after).sqrt() * noise
        return x


class Heun(Denoiser):
    """EDM's sampler: steps of the second order, with noise where its level lies between two."""

    def forward(self, x: torch.Tensor, churn: float = 1.0, least: float = 0.0, most: float = float("inf")) -> torch.Tensor:
        at = torch.arange(4, dtype=torch.float64) / 3
        levels = (80 ** (1 / 7) + at * (0.002 ** (1 / 7) - 80 ** (1 / 7))) ** 7
        levels = torch.cat([levels, torch.zeros_like(levels[:1])])
        x = x.double() * levels[0]
        for number, (now, then) in enumerate(zip(levels[:-1], levels[1:], strict=True)):
            more = min(churn / 4, 2**0.5 - 1) if least <= now <= most else 0
            noisy = now + more * now
            x = x + (noisy**2 - now**2).sqrt() * torch.randn_like(x)
            slope = (x - super().forward(x.float(), noisy.float().expand(len(x)))) / noisy
            ahead = x + (then - noisy) * slope
            if number < 3:
                other = (ahead - super().forward(ahead.float(), then.float().expand(len(x)))) / then
                ahead = x + (then - noisy) * (slope + other) / 2
            x = ahead
        return x


class Vocoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(4, 18, 3, padding=1)
        self.register_buffer("window", torch.hann_window(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size, phase = self.layer(x).chunk(2, 1)
        spectrum = size.exp().clamp(max=100) * (torch.cos(phase.sin()) + 1j * torch.sin(phase.sin()))
        return torch.istft(spectrum, 16, 4, 16, self.window, center=True)


def of_deciding_data() -> Iterator[Program]:
    def script(name: str, make: Callable[[], nn.Module], inputs: Inputs, step: Callable[..., Any]) -> Program:
        return Program(name, make, inputs, stepping(step), backend="dynascope")

    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    yield script("experts with room for so many", Experts, dict(x=numbers(12, 8)), of_experts)
    yield script(
        "nodes classified by a mask", Convolution, dict(x=numbers(6, 5), edges=edges, labels=labels), node_classification
    )
    played = dict(observed=numbers(8, 4), rewards=numbers(8).sin(), ends=torch.zeros(8))
    yield script("PPO, shuffled minibatches", Agent, played, proximal)
    met = dict(state=numbers(4, 3), action=numbers(4, 2).sin(), reward=numbers(4, 1), following=numbers(4, 3).cos())
    yield script("SAC, temperature", Soft, met, soft_actor_critic)
    observed = dict(x=numbers(8, 3), labels=(numbers(8) > 0).float())
    yield script("SVI", Guide, observed, variational)
    yield script("mixup by NumPy", lambda: nn.Linear(8, 3), dict(x=numbers(6, 8), labels=labels), mixed_by_numpy)
    for name, make, inputs in (("DDIM by hand", Implicit, numbers(4, 8)), ("EDM sampler", Heun, numbers(4, 8))):
        yield Program(name, make, dict(x=inputs), without_gradients, trains=False, backend="dynascope")
    yield Program("vocoder, istft", Vocoder, dict(x=numbers(2, 4, 12)), whole, backend="dynascope")


def without_gradients(model: nn.Module, compile: Callable[..., Any]) -> Callable[..., Any]:
    return torch.no_grad()(compile(model))


FAMILIES = (of_deciding_data,)
