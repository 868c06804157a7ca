"""A k-means update that re-seeds empty clusters."""

import torch


@torch.compile
def update(x, centers):
    assigned = torch.cdist(x, centers).argmin(1)
    new = []
    for k in range(centers.shape[0]):
        members = assigned == k
        if members.any():
            new.append((x * members[:, None]).sum(0) / members.sum())
        else:
            new.append(centers[k])
    return torch.stack(new)


torch.manual_seed(0)
x, centers = torch.randn(20, 2), torch.randn(4, 2) * 3
for _ in range(3):
    centers = update(x, centers)
print(f"{centers.sum():.3f}")
