"""k-means and Sinkhorn until they converge."""

import torch


@torch.compile
def kmeans(points, k, iterations=10, tolerance=1e-4):
    centres = points[:k].clone()
    for i in range(iterations):
        assigned = torch.cdist(points, centres).argmin(-1)
        new = []
        for j in range(k):
            members = points[assigned == j]
            new.append(members.mean(0) if len(members) > 0 else centres[j])
        new = torch.stack(new)
        shift = (new - centres).norm()
        centres = new
        if shift < tolerance:
            print("converged after", i + 1)
            break
    return centres, assigned


@torch.compile
def sinkhorn(cost, eps=0.1, iterations=5):
    k = torch.exp(-cost / eps)
    u, v = torch.ones(cost.shape[0]), torch.ones(cost.shape[1])
    for _ in range(iterations):
        previous = u
        u = 1 / (k @ v)
        v = 1 / (k.T @ u)
        if torch.isnan(u).any():
            raise ValueError("numerical problems in sinkhorn")
        if (u - previous).abs().max() < 1e-6:
            break
    return u[:, None] * k * v[None]


torch.manual_seed(0)
points = torch.cat([torch.randn(10, 2), torch.randn(10, 2) + 5])
centres, assigned = kmeans(points, 2)
print(centres.shape, sinkhorn(torch.rand(4, 5)).shape)
