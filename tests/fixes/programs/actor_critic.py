"""Advantages and an update with an early stop on the KL divergence."""

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


def discounted(rewards, dones, gamma=0.99):
    returns, running = [], 0.0
    for reward, done in zip(reversed(rewards.tolist()), reversed(dones.tolist()), strict=True):
        running = reward + gamma * running * (1.0 - done)
        returns.insert(0, running)
    return torch.tensor(returns)


@torch.compile
def advantages(values, rewards, dones):
    returns = discounted(rewards, dones)
    adv = returns - values
    if adv.std() > 0:
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    return adv, returns


@torch.compile
def policy_loss(policy, states, actions, old_log_probs, adv, target_kl=0.02):
    dist = Categorical(logits=policy(states))
    ratio = (dist.log_prob(actions) - old_log_probs).exp()
    approx_kl = ((ratio - 1) - ratio.log()).mean()
    if approx_kl > 1.5 * target_kl:
        print("early stop")
        return None, approx_kl
    clipped = torch.clamp(ratio, 0.8, 1.2) * adv
    return -torch.min(ratio * adv, clipped).mean(), approx_kl


@torch.compile
def act(policy, state, epsilon):
    if np.random.rand() < epsilon:
        return torch.randint(0, 3, ())
    return policy(state).argmax()


torch.manual_seed(0)
np.random.seed(0)
policy = nn.Linear(4, 3)
states, actions = torch.randn(10, 4), torch.randint(0, 3, (10,))
with torch.no_grad():
    old = Categorical(logits=policy(states)).log_prob(actions)
adv, returns = advantages(torch.zeros(10), torch.rand(10), (torch.arange(10) % 5 == 4).float())
loss, kl = policy_loss(policy, states, actions, old, adv)
loss.backward()
print(f"{loss.item():.4f}", act(policy, states[0], 0.1).item())
