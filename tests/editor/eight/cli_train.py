"""A command line, a log and a bar."""

import argparse
import logging
import sys

import torch
from torch import nn

log = logging.getLogger("train")


class Bar:
    """What tqdm does, without tqdm."""

    def __init__(self, items):
        self.items = items

    def __iter__(self):
        for number, item in enumerate(self.items, 1):
            sys.stderr.write(f"\r{number}/{len(self.items)}")
            yield item
        sys.stderr.write("\n")


class Regressor(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, 1))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        y = self.layers(x)
        if torch.isnan(y).any():
            log.warning("not a number")
        return y


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--width", type=int, default=16)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
    torch.manual_seed(0)
    model = torch.compile(Regressor(args.width))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in Bar(range(args.steps)):
        x = torch.randn(32, 8)
        loss = (model(x).squeeze(-1) - x.sum(-1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    log.info("loss %.3f", loss.item())


if __name__ == "__main__":
    main()
