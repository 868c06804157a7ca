"""Many operators, one kernel: `dynascope profile examples/fusion.py` says what each costs, `dynascope show kernels` prints them."""

import torch


@torch.compile
def normalized(x, weight, bias):
    """Eager runs ten operators and writes nine tensors in between. Here each row is read once and written once."""
    mean = x.mean(-1, keepdim=True)
    centered = x - mean
    scale = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + 1e-5)
    return torch.nn.functional.gelu(centered * scale * weight + bias)


def main():
    torch.manual_seed(0)
    x, weight, bias = torch.randn(256, 512), torch.ones(512), torch.zeros(512)
    for _ in range(3):
        y = normalized(x, weight, bias)
    print(f"{y.mean().item():.4f}")


if __name__ == "__main__":
    main()
