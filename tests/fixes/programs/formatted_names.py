"""Messages are formatted out of tensors."""

import torch

messages = []


@torch.compile
def clip_by_norm(grads, limit):
    total = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    messages.append(f"norm {total:.3f} of {len(grads)}")
    factor = limit / (total + 1e-6)
    if factor < 1:
        grads = [g * factor for g in grads]
    return grads, total


torch.manual_seed(0)
clip_by_norm([torch.randn(4), torch.randn(3, 3)], 1.0)
clip_by_norm([0.1 * torch.randn(4), 0.1 * torch.randn(3, 3)], 1.0)
print(messages)
