"""A PPO epoch: stopped by the divergence, advantages normalised where there are several."""

import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Linear(4, 3)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.5)


@torch.compile
def update(obs, act, adv, old_logp, target_kl=0.02):
    info = {}
    if adv.std() > 0:
        adv = (adv - adv.mean()) / adv.std()
    for _i in range(3):
        logp = torch.distributions.Categorical(logits=policy(obs)).log_prob(act)
        ratio = (logp - old_logp).exp()
        loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        kl = (old_logp - logp).mean().item()
        info["kl"] = kl
        if kl > 1.5 * target_kl:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return info


obs, act = torch.randn(8, 4), torch.randint(0, 3, (8,))
with torch.no_grad():
    old = torch.distributions.Categorical(logits=policy(obs)).log_prob(act)
print(sorted(update(obs, act, torch.randn(8), old)))
