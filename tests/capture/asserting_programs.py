"""Programs with `assert`, in a file whose statements pytest does not rewrite."""

import torch


def make_step(net, optimizer):
    def step(x):
        assert (x.abs() < 100).all(), f"too large: {x.max().item()}"
        loss = net(x).pow(2).mean()
        assert not torch.isnan(loss), "diverged"
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def make_counting(log, total):
    def function(x):
        log.append("begun")
        total.add_(1)
        y = x + torch.rand(3)
        assert (x > 0).all()
        log.append("ended")
        return y

    return function


def by_numbers(x):
    assert x.max().item() < 50, "big"
    assert x[x > 0].shape[0] > 1
    return x * 2


def caught(x):
    try:
        assert (x > 0).all()
        return x * 2
    except AssertionError:
        return x * 3


def both(x):
    assert x.isfinite().all() and (x > 0).all(), "positive"
    return x.log()
