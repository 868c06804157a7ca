"""Training and inference scripts as people write them, for `models.py`: (name, model, inputs, what is compiled).

The inputs of a step are the same at each; what it draws and what a policy does is made of numbers that are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Script = tuple[str, Callable[[], nn.Module], dict[str, Any], Callable[[nn.Module], Callable[..., Any]]]


def perceptron(inputs: int, outputs: int) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(inputs, 16), nn.Tanh(), nn.Linear(16, outputs))


def numbers(*sizes: int) -> torch.Tensor:
    return torch.linspace(-1, 1, torch.Size(sizes).numel()).reshape(sizes)


def reinforce(model: nn.Module) -> Callable[..., Any]:
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)

    def update(states: torch.Tensor, actions: torch.Tensor, rewards: list[float]) -> torch.Tensor:
        total, returns = 0.0, []
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.insert(0, total)
        gains = torch.tensor(returns)
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        policy = torch.distributions.Categorical(logits=model(states))
        loss = -(policy.log_prob(actions) * gains).mean() - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return update


def proximal(model: nn.Module) -> Callable[..., Any]:
    """PPO's update over an environment's arrays."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)

    def update(states: Any, actions: torch.Tensor, rewards: Any, before: torch.Tensor) -> torch.Tensor:
        outputs = model(torch.from_numpy(states).float())
        logits, values = outputs[:, :3], outputs[:, 3]
        returns = torch.as_tensor(rewards[::-1].cumsum()[::-1].copy()).float()
        advantages = returns - values.detach()
        policy = torch.distributions.Categorical(logits=logits)
        ratio = (policy.log_prob(actions) - before).exp()
        clipped = torch.clamp(ratio, 0.8, 1.2) * advantages
        loss = -torch.min(ratio * advantages, clipped).mean() + 0.5 * F.mse_loss(values, returns)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.detach()

    return update


def diffusion(model: nn.Module) -> Callable[..., Any]:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    betas = torch.linspace(1e-4, 0.02, 10)
    kept = (1 - betas).cumprod(0)

    def update(x: torch.Tensor, at: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        share = kept[at][:, None]
        noisy = share.sqrt() * x + (1 - share).sqrt() * noise
        loss = F.mse_loss(model(torch.cat([noisy, at[:, None].float() / 10], 1)), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return update


def sampling(model: nn.Module) -> Callable[..., Any]:
    betas = torch.linspace(1e-4, 0.02, 10)
    kept = (1 - betas).cumprod(0)

    @torch.no_grad()
    def sample(x: torch.Tensor) -> torch.Tensor:
        for at in reversed(range(10)):
            noise = model(torch.cat([x, torch.full((x.shape[0], 1), at / 10)], 1))
            x = (x - betas[at] / (1 - kept[at]).sqrt() * noise) / (1 - betas[at]).sqrt()
            if at > 0:
                x = x + betas[at].sqrt() * 0.1
        return x

    return sample


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 8), nn.Linear(4, 8)

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        mean, variance = self.encoder(x).chunk(2, -1)
        posterior = torch.distributions.Normal(mean, variance.mul(0.5).exp())
        pixels = torch.distributions.Bernoulli(logits=self.decoder(mean + posterior.stddev * noise))
        prior = torch.distributions.Normal(0.0, 1.0)
        divergence = torch.distributions.kl_divergence(posterior, prior).sum(-1)
        return (divergence - pixels.log_prob((x > 0).float()).sum(-1)).mean()


def stepped(model: nn.Module) -> Callable[..., Any]:
    """The model gives its loss."""
    optimizer = torch.optim.Adamax(model.parameters(), 1e-2)

    def step(**inputs: torch.Tensor) -> torch.Tensor:
        loss = model(**inputs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.layer = nn.Embedding(20, 8), nn.LSTM(8, 16, 2, batch_first=True)
        self.out = nn.Linear(16, 20)

    def forward(self, identifiers: torch.Tensor) -> torch.Tensor:
        following = self.out(self.layer(self.words(identifiers))[0])
        return F.cross_entropy(following[:, :-1].flatten(0, 1), identifiers[:, 1:].flatten())


def adversaries(model: nn.Module) -> Callable[..., Any]:
    maker, judge = model[0], model[1]
    of_maker, of_judge = torch.optim.Adam(maker.parameters(), 1e-2), torch.optim.Adam(judge.parameters(), 1e-2)

    def step(real: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        of_judge.zero_grad()
        made = maker(noise)
        told = F.binary_cross_entropy_with_logits
        judged = told(judge(real), ones) + told(judge(made.detach()), zeros)
        judged.backward()
        of_judge.step()
        of_maker.zero_grad()
        fooled = told(judge(made), ones)
        fooled.backward()
        of_maker.step()
        return judged.detach(), fooled.detach()

    return step


def scripts() -> Iterator[Script]:
    states, actions = numbers(5, 4), torch.arange(5) % 3
    yield "REINFORCE", perceptron(4, 3), dict(states=states, actions=actions, rewards=[1.0, 0.0, 2.0, 0.5, 1.5]), reinforce
    played = dict(states=states.double().numpy(), actions=actions, rewards=states[:, 0].double().numpy())
    yield "PPO, NumPy", perceptron(4, 4), dict(played, before=numbers(5) - 2), proximal
    noisy = dict(x=numbers(4, 8), at=torch.arange(4) * 2, noise=numbers(4, 8) ** 2)
    yield "DDPM, training", perceptron(9, 8), noisy, diffusion
    yield "DDPM, sampling", perceptron(9, 8), dict(x=numbers(4, 8)), sampling
    yield "VAE", Autoencoder, dict(x=numbers(4, 8), noise=numbers(4, 4) ** 2), stepped
    yield "LSTM language model", Language, dict(identifiers=torch.arange(12).reshape(2, 6) * 7 % 20), stepped
    both = lambda: nn.ModuleList([perceptron(4, 8)(), perceptron(8, 1)()])  # noqa: E731
    yield "GAN", both, dict(real=numbers(4, 8), noise=numbers(4, 4)), adversaries
