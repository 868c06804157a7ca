"""Training scripts as people write them, for `models.py`: the step with everything that belongs to it is compiled."""

from __future__ import annotations

import copy
import functools
import importlib
import math
import random
from collections import deque, namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from model_programs import Program, stepping
from scripts import numbers, perceptron
from torch import nn
from torch.nn import functional as F
from torch.optim.optimizer import Optimizer
from training_modules import (
    ActorCritic,
    Contrastive,
    Field,
    Flow,
    Focal,
    Graph,
    Knowledge,
    Ordinary,
    Radiance,
    Recognizer,
    Translator,
    Tree,
)

LABELS = torch.tensor([0, 2, 1, 1])


def annealed_vae(model: nn.Module) -> Callable[..., Any]:
    optimizer, at = torch.optim.Adam(model.parameters(), 1e-2), 0

    def step(x: torch.Tensor) -> dict[str, float]:
        nonlocal at
        weight = min(1.0, at / 2)
        mean, variance = model[0](x).chunk(2, -1)
        made = model[1](mean + torch.randn_like(mean) * (0.5 * variance).exp())
        divergence = -0.5 * torch.mean(1 + variance - mean.pow(2) - variance.exp())
        rebuilt = F.mse_loss(made, x)
        loss = rebuilt + weight * divergence
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        at += 1
        return {"loss": loss.detach(), "kl": divergence.detach()}

    return step


def contrastive(model: nn.Module) -> Callable[..., Any]:
    optimizer = torch.optim.AdamW([
        {"params": [p for n, p in model.named_parameters() if "bias" in n or p.ndim < 2], "weight_decay": 0.0},
        {"params": [p for n, p in model.named_parameters() if not ("bias" in n or p.ndim < 2)], "weight_decay": 0.1},
    ], lr=1e-2)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model.temperature.clamp_(0, math.log(100))
        return loss.detach()

    return step


def distillation(model: nn.Module) -> Callable[..., Any]:
    student, teacher = model[0], model[1].eval()
    optimizer = torch.optim.SGD(student.parameters(), 0.1, momentum=0.9, nesterov=True)

    def step(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            taught = teacher(x)
        told = student(x)
        heat = 2.0
        soft = F.kl_div(F.log_softmax(told / heat, -1), F.softmax(taught / heat, -1), reduction="batchmean") * heat**2
        loss = 0.7 * soft + 0.3 * F.cross_entropy(told, labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


Transition = namedtuple("Transition", ("state", "action", "following", "reward"))


class Memory:
    def __init__(self, capacity: int) -> None:
        self.kept: deque[Transition] = deque([], maxlen=capacity)

    def push(self, *parts: torch.Tensor) -> None:
        self.kept.append(Transition(*parts))

    def sample(self, size: int) -> list[Transition]:
        return random.sample(self.kept, size)

    def __len__(self) -> int:
        return len(self.kept)


def deep_q(model: nn.Module) -> Callable[..., Any]:
    policy, target = model[0], model[1]
    target.load_state_dict(policy.state_dict())
    optimizer, memory = torch.optim.AdamW(policy.parameters(), 1e-2, amsgrad=True), Memory(10)
    random.seed(0)

    def step(states: torch.Tensor) -> torch.Tensor:
        for at in range(len(states) - 1):
            action = policy(states[at : at + 1]).max(1).indices.view(1, 1).detach()
            memory.push(states[at : at + 1], action, states[at + 1 : at + 2], torch.tensor([float(at)]))
        batch = Transition(*zip(*memory.sample(3), strict=True))
        state, action, reward = torch.cat(batch.state), torch.cat(batch.action), torch.cat(batch.reward)
        values = policy(state).gather(1, action)
        with torch.no_grad():
            following = target(torch.cat(batch.following)).max(1).values
        loss = nn.SmoothL1Loss()(values, (following * 0.99 + reward).unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        kept, new = target.state_dict(), policy.state_dict()
        for key in new:
            kept[key] = new[key] * 0.005 + kept[key] * 0.995
        target.load_state_dict(kept)
        return loss.detach()

    return step


Saved = namedtuple("Saved", ["log_prob", "value"])


def actor_critic(model: nn.Module) -> Callable[..., Any]:
    """The example of torch's own repository, with an environment made of numbers."""
    optimizer = torch.optim.Adam(model.parameters(), 3e-2)

    def select(state: Any) -> int:
        probabilities, value = model(torch.from_numpy(state).float())
        chosen = torch.distributions.Categorical(probabilities)
        action = probabilities.argmax()
        model.saved.append(Saved(chosen.log_prob(action), value))
        return action.item()

    def episode(states: Any) -> float:
        for state in states:
            model.rewards.append(float(select(state)) + 0.5)
        total, policies, values, returns = 0, [], [], []
        for reward in model.rewards[::-1]:
            total = reward + 0.99 * total
            returns.insert(0, total)
        gains = torch.tensor(returns)
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        for (log_prob, value), gain in zip(model.saved, gains, strict=True):
            advantage = gain - value.item()
            policies.append(-log_prob * advantage)
            values.append(F.smooth_l1_loss(value, torch.tensor([gain])))
        optimizer.zero_grad()
        loss = torch.stack(policies).sum() + torch.stack(values).sum()
        loss.backward()
        optimizer.step()
        del model.rewards[:]
        del model.saved[:]
        return loss.detach()

    return episode


def meta_learning(model: nn.Module) -> Callable[..., Any]:
    """MAML, with torch.func."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)

    def inner(parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        loss = F.mse_loss(torch.func.functional_call(model, parameters, (x,)), y)
        gradients = torch.autograd.grad(loss, list(parameters.values()), create_graph=True)
        return {name: p - 0.1 * g for (name, p), g in zip(parameters.items(), gradients, strict=True)}

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        losses = []
        for task in range(2):
            fast = inner(dict(model.named_parameters()), x[task], y[task])
            losses.append(F.mse_loss(torch.func.functional_call(model, fast, (x[task + 1],)), y[task + 1]))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def mixed(model: nn.Module) -> Callable[..., Any]:
    """Mixup and cutmix over pictures."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        share = float(np.random.default_rng(0).beta(0.4, 0.4))
        order = torch.randperm(len(x))
        if share > 0.5:
            blended = share * x + (1 - share) * x[order]
        else:
            side = int(x.shape[-1] * math.sqrt(1 - share))
            blended = x.clone()
            blended[:, :, :side, :side] = x[order, :, :side, :side]
            share = 1 - side * side / (x.shape[-1] * x.shape[-2])
        told = model(blended)
        loss = share * F.cross_entropy(told, y) + (1 - share) * F.cross_entropy(told, y[order])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


class Averaged:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay, self.steps = copy.deepcopy(model).requires_grad_(False), decay, 0

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        for kept, new in zip(self.model.parameters(), model.parameters(), strict=True):
            kept.lerp_(new, 1 - decay)
        for kept, new in zip(self.model.buffers(), model.buffers(), strict=True):
            kept.copy_(new)


def averaged(model: nn.Module) -> Callable[..., Any]:
    optimizer, average = torch.optim.SGD(model.parameters(), 1e-2), Averaged(model, 0.9)
    swa = torch.optim.swa_utils.AveragedModel(model)

    def step(x: torch.Tensor) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update(model)
        swa.update_parameters(model)
        return loss.detach(), average.model(x), swa(x).detach()

    return step


class Sharpness(Optimizer):
    """SAM, as its repository has it."""

    def __init__(self, parameters: Any, base: type[Optimizer], rho: float = 0.05, **settings: Any) -> None:
        super().__init__(parameters, dict(rho=rho, **settings))
        self.base = base(self.param_groups, **settings)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def first_step(self) -> None:
        norm = torch.norm(
            torch.stack([p.grad.norm(p=2) for g in self.param_groups for p in g["params"] if p.grad is not None]), p=2
        )
        for group in self.param_groups:
            scale = group["rho"] / (norm + 1e-12)
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.state[p]["old_p"] = p.data.clone()
                p.add_(p.grad * scale.to(p))
        self.zero_grad()

    @torch.no_grad()
    def second_step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.data = self.state[p]["old_p"]
        self.base.step()
        self.zero_grad()


def sharpness(model: nn.Module) -> Callable[..., Any]:
    optimizer = Sharpness(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.first_step()
        F.cross_entropy(model(x), y).backward()
        optimizer.second_step()
        return loss.detach()

    return step


def accumulated(model: nn.Module) -> Callable[..., Any]:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: min(1.0, (at + 1) / 4))
    scaler = torch.amp.GradScaler("cpu", enabled=False)

    def step(batches: list[torch.Tensor]) -> float:
        total = 0.0
        for at, batch in enumerate(batches):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(batch).float().square().mean() / 2
            scaler.scale(loss).backward()
            total += loss.item()
            if (at + 1) % 2 == 0:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
                scheduler.step()
        return torch.tensor(total / len(batches)), torch.tensor(scheduler.get_last_lr())

    return step


class Lion(Optimizer):
    def __init__(
        self, parameters: Any, lr: float = 1e-2, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.1
    ) -> None:
        super().__init__(parameters, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in filter(lambda p: p.grad is not None, group["params"]):
                p.data.mul_(1.0 - group["lr"] * group["weight_decay"])
                state = self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p)
                kept, (one, two) = state["exp_avg"], group["betas"]
                p.add_(torch.sign(kept * one + p.grad * (1 - one)), alpha=-group["lr"])
                kept.mul_(two).add_(p.grad, alpha=1 - two)
        return loss


class Lamb(Optimizer):
    def __init__(
        self, parameters: Any, lr: float = 1e-2, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6
    ) -> None:
        super().__init__(parameters, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p.grad.is_sparse:
                    raise RuntimeError("Lamb does not support sparse gradients")
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
                state["step"] += 1
                one, two = group["betas"]
                state["m"].mul_(one).add_(p.grad, alpha=1 - one)
                state["v"].mul_(two).addcmul_(p.grad, p.grad, value=1 - two)
                size = p.pow(2).sum().sqrt().clamp(0, 10)
                change = state["m"] / state["v"].sqrt().add(group["eps"])
                norm = change.pow(2).sum().sqrt()
                trust = torch.where((size > 0) & (norm > 0), size / norm, torch.ones_like(size))
                p.add_(change * trust * -group["lr"])


def stepped_by(make: Callable[..., Optimizer], model: nn.Module) -> Callable[..., Any]:
    optimizer = make(model.parameters())

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def with_closure(make: Callable[..., Optimizer], model: nn.Module) -> Callable[..., Any]:
    optimizer = make(model.parameters())

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        return optimizer.step(closure).detach()

    return step


def viterbi(model: nn.Module) -> Callable[..., Any]:
    @torch.no_grad()
    def decode(words: torch.Tensor) -> list[list[int]]:
        scores = model.out(model.layer(model.words(words))[0])
        best, back = model.first + scores[:, 0], []
        for at in range(1, words.size(1)):
            value, index = (best.unsqueeze(2) + model.moves).max(1)
            best = value + scores[:, at]
            back.append(index)
        found = best.argmax(-1)
        path = [found]
        for index in reversed(back):
            found = index.gather(1, found.unsqueeze(1)).squeeze(1)
            path.append(found)
        return [torch.tensor(row) for row in torch.stack(path[::-1], 1).tolist()]

    return decode


def beams(model: nn.Module) -> Callable[..., Any]:
    @torch.no_grad()
    def search(source: torch.Tensor, width: int = 2, most: int = 4) -> Any:
        keys, state = model.encoder(model.words(source))
        running = [([1], 0.0, state[0])]
        for _ in range(most):
            following = []
            for words, score, state in running:
                weights = model.attend(torch.cat([keys, state[:, None].expand_as(keys)], -1)).softmax(1)
                state = model.cell(
                    torch.cat([model.words(torch.tensor([words[-1]])), (weights * keys).sum(1)], -1), state
                )
                values, places = model.out(state).log_softmax(-1)[0].topk(width)
                for value, place in zip(values.tolist(), places.tolist(), strict=True):
                    following.append((words + [place], score + value, state))
            following.sort(key=lambda each: each[1], reverse=True)
            running = following[:width]
        return torch.tensor([words for words, _, _ in running]), torch.tensor([score for _, score, _ in running])

    return search


def policy_of_environment(model: nn.Module) -> Callable[..., Any]:
    """REINFORCE in an environment of gymnasium."""
    environment = importlib.import_module("gymnasium").make("CartPole-v1")
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)

    def episode() -> torch.Tensor:
        state, _ = environment.reset(seed=0)
        logs, rewards = [], []
        for _ in range(6):
            chosen = torch.distributions.Categorical(logits=model(torch.as_tensor(state, dtype=torch.float32)))
            action = chosen.sample()
            logs.append(chosen.log_prob(action))
            state, reward, ended, cut, _ = environment.step(action.item())
            rewards.append(reward)
            if ended or cut:
                break
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.insert(0, total)
        loss = -(torch.stack(logs) * torch.tensor(returns, dtype=torch.float32)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return episode


def lightning(model: nn.Module) -> Callable[..., Any]:
    """A trainer by hand: hooks, a progress bar's numbers, early stopping, checkpoints in memory."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    history: dict[str, list[float]] = {"train": [], "best": []}

    def fit(x: torch.Tensor, y: torch.Tensor) -> Any:
        model.train()
        seen = 0
        for start in range(0, len(x), 2):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[start : start + 2]), y[start : start + 2])
            loss.backward()
            optimizer.step()
            seen += loss.item() * 2
        model.eval()
        with torch.no_grad():
            told = model(x)
            checked = F.cross_entropy(told, y).item()
            right = (told.argmax(-1) == y).float().mean().item()
        scheduler.step(checked)
        history["train"].append(seen / len(x))
        if not history["best"] or checked < history["best"][-1]:
            history["best"].append(checked)
            best = {name: value.clone() for name, value in model.state_dict().items()}
        else:
            best = {}
        return torch.tensor([seen, checked, right]), best

    return fit


def losses(model: nn.Module) -> Callable[..., Any]:
    """The model gives its loss. What is drawn by Python is the same at each side."""
    optimizer = torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9)
    random.seed(0)

    def step(**inputs: Any) -> torch.Tensor:
        loss = model(**inputs)
        loss = loss if loss.dim() == 0 else loss.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def convolutions() -> nn.Module:
    features = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()
    return nn.Sequential(*features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def of_more_scripts() -> Iterator[Program]:
    four, two = numbers(4, 8), lambda: nn.ModuleList([perceptron(8, 3)(), perceptron(8, 3)()])  # noqa: E731

    def script(name: str, make: Callable[[], nn.Module], inputs: dict[str, Any], step: Callable[..., Any]) -> Program:
        return Program(name, make, inputs, stepping(step), backend="dynascope")

    yield script(
        "VAE, annealed", lambda: nn.ModuleList([perceptron(8, 8)(), perceptron(4, 8)()]), dict(x=four), annealed_vae
    )
    yield script("contrastive, temperature", Contrastive, dict(x=four, y=four.flip(0) ** 2), contrastive)
    yield script("distillation", two, dict(x=four, labels=LABELS), distillation)
    yield script(
        "DQN", lambda: nn.ModuleList([perceptron(4, 2)(), perceptron(4, 2)()]), dict(states=numbers(5, 4)), deep_q
    )
    yield script("actor-critic", ActorCritic, dict(states=numbers(4, 4).numpy()), actor_critic)
    yield script("MAML", perceptron(3, 1), dict(x=numbers(3, 5, 3), y=numbers(3, 5, 1).sin()), meta_learning)
    yield script("mixup and cutmix", convolutions, dict(x=numbers(4, 3, 8, 8), y=LABELS), mixed)
    normed = lambda: nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))  # noqa: E731
    yield script("EMA, SWA", normed, dict(x=four), averaged)
    yield script("SAM", perceptron(8, 3), dict(x=four, y=LABELS), sharpness)
    yield script(
        "accumulation, autocast, scaler",
        perceptron(8, 3),
        dict(batches=[four, four * 2, four**2, four - 1]),
        accumulated,
    )
    makes: dict[str, Callable[..., Optimizer]] = {
        "Lion": Lion,
        "LAMB": Lamb,
        "RAdam": torch.optim.RAdam,
        "ASGD": torch.optim.ASGD,
        "Adafactor": torch.optim.Adafactor,
        "NAdam": torch.optim.NAdam,
        "Rprop": torch.optim.Rprop,
        "Adadelta": torch.optim.Adadelta,
        "Adam, not foreach": functools.partial(torch.optim.Adam, foreach=False),
        "Adam, fused": functools.partial(torch.optim.Adam, fused=True),
        "Adam, capturable rate": lambda parameters: torch.optim.Adam(parameters, lr=torch.tensor(0.01)),
    }
    for name, make in makes.items():
        yield script(f"step of {name}", perceptron(8, 3), dict(x=four, y=LABELS), functools.partial(stepped_by, make))
    yield script(
        "closure, LBFGS",
        perceptron(8, 3),
        dict(x=four, y=LABELS),
        functools.partial(with_closure, functools.partial(torch.optim.LBFGS, max_iter=2)),
    )
    yield script("closure, Lion", perceptron(8, 3), dict(x=four, y=LABELS), functools.partial(with_closure, Lion))
    yield script("focal loss", Focal, dict(x=four, y=LABELS), losses)
    yield script(
        "CTC",
        Recognizer,
        dict(x=numbers(2, 6, 8), targets=torch.tensor([[1, 2, 3], [4, 5, 0]]), lengths=torch.tensor([3, 2])),
        losses,
    )
    words = torch.arange(12).reshape(2, 6) * 7 % 19 + 1
    mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    yield script("CRF", Field, dict(words=words, tags=words % 4, mask=mask), losses)
    yield script("CRF, Viterbi", Field, dict(words=words), viterbi)
    yield script("seq2seq, forced", Translator, dict(source=words, target=words.flip(1), forcing=1.0), losses)
    yield script("seq2seq, half forced", Translator, dict(source=words, target=words.flip(1)), losses)
    yield script("beam search", Translator, dict(source=words[:1]), beams)
    yield script("tree LSTM", Tree, dict(x=numbers(6, 4), tree=(0, [(1, [(3, []), (4, [])]), (2, [(5, [])])])), losses)
    yield script("neural ODE", functools.partial(Ordinary, False), dict(x=numbers(3, 4)), losses)
    yield script("neural ODE, adapting", functools.partial(Ordinary, True), dict(x=numbers(3, 4)), losses)
    yield script("normalizing flow", Flow, dict(x=numbers(5, 4)), losses)
    yield script(
        "NeRF", Radiance, dict(origins=numbers(4, 3), ways=numbers(4, 3).cos(), pixels=numbers(4, 3).abs()), losses
    )
    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
    yield script("GNN by hand", Graph, dict(x=four, edges=edges), losses)
    yield script("knowledge graph", Knowledge, dict(triples=torch.tensor([[0, 1, 2], [3, 0, 4], [5, 2, 9]])), losses)
    yield script("REINFORCE, gymnasium", perceptron(4, 2), {}, policy_of_environment)
    yield script("trainer by hand", perceptron(8, 3), dict(x=four, y=LABELS), lightning)


FAMILIES = (of_more_scripts,)
