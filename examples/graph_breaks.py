"""Lines that break the graph, each for another reason, and one of NumPy that does not. Run it and read what is said beside them."""

import numpy as np
import torch


@torch.compile
def data_dependent_branch(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


@torch.compile
def with_numpy(a, b):
    a = a + 2
    b = torch.from_numpy(np.add(b, 1))
    return a + b


@torch.compile
def printing(x):
    y = torch.relu(x)
    print("the largest is", y.max())
    return y * 2


@torch.compile
def value_needed(x):
    for _ in range(int(x.max())):
        x = x / 2
    return x


def main():
    a, b = torch.ones(4), torch.arange(4.0)
    print(data_dependent_branch(a, b))
    print(data_dependent_branch(a, -b))
    print(with_numpy(a, b.numpy()))
    print(printing(a))
    print(value_needed(b))


if __name__ == "__main__":
    main()
