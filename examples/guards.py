"""What compiled code assumes, and when it is compiled again. `dynascope run --guards examples/guards.py` prints the guards."""

import torch


@torch.compile
def scaled(x, factor, flag):
    y = x * factor
    return y.relu() if flag else y


def main():
    x = torch.linspace(-1, 1, 6)
    print(scaled(x, 2.0, True))  # compiled: x is f32[6], factor is 2.0, flag is True
    print(scaled(x, 2.0, True))  # every guard holds: nothing is compiled
    print(scaled(x, 3.0, True))  # factor varies: compiled once more, as an input now
    print(scaled(x, 4.0, True))  # nothing is compiled
    print(scaled(x, 4.0, False))  # another path through the function: compiled for it
    print(scaled(x.double(), 4.0, False))  # another dtype: compiled for it


if __name__ == "__main__":
    main()
