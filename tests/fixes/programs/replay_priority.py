"""A DQN step with priorities and a target network that follows now and then."""

import torch
import torch.nn.functional as F
from torch import nn


class Agent:
    def __init__(self):
        self.q = nn.Linear(4, 2)
        self.target = nn.Linear(4, 2)
        self.target.load_state_dict(self.q.state_dict())
        self.steps = 0
        self.history = []

    def loss(self, s, a, r, s2, done):
        self.steps += 1
        with torch.no_grad():
            best = self.target(s2).max(-1).values
            goal = r + 0.99 * best * (1 - done)
        td = self.q(s).gather(-1, a[:, None]).squeeze(-1) - goal
        priorities = td.abs().detach().cpu().numpy() + 1e-5
        self.history.append(float(priorities.mean()))
        if self.steps % 2 == 0:
            print(f"step {self.steps}: td error {td.abs().mean().item():.3f}")
        return F.smooth_l1_loss(td, torch.zeros_like(td)), priorities


torch.manual_seed(0)
agent = Agent()
loss_of = torch.compile(agent.loss)
for _ in range(4):
    batch = torch.randn(6, 4), torch.randint(0, 2, (6,)), torch.randn(6), torch.randn(6, 4), torch.zeros(6)
    loss, priorities = loss_of(*batch)
    loss.backward()
