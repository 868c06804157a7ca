"""Metrics go to a line of JSON."""

import json

import torch


@torch.compile
def step(x):
    loss = (x * x).mean()
    print(json.dumps({"loss": round(loss.item(), 3)}))
    return loss * 2


step(torch.ones(4))
