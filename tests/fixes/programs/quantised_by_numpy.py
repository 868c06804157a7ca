import numpy as np
import torch


@torch.compile
def quantised(x, bits=8):
    low, high = float(x.min()), float(x.max())
    scale = (high - low) / (2**bits - 1)
    levels = np.round((x.numpy() - low) / scale)
    levels = np.clip(levels, 0, 2**bits - 1).astype(np.float32)
    return torch.from_numpy(levels * scale + low) * 1.0


for _ in range(3):
    print(quantised(torch.randn(64)).sum())
