"""Metrics at the end of an epoch."""

import numpy as np
import torch


@torch.compile
def confusion(preds, targets, num_classes):
    matrix = torch.zeros(num_classes, num_classes, dtype=torch.long)
    for t, p in zip(targets, preds, strict=True):
        matrix[t, p] += 1
    return matrix


@torch.compile
def f1_score(matrix):
    tp = matrix.diag().float()
    precision = tp / matrix.sum(0).clamp(min=1)
    recall = tp / matrix.sum(1).clamp(min=1)
    f1 = 2 * precision * recall / (precision + recall + 1e-8)
    print("per class:", [round(v.item(), 3) for v in f1])
    return f1.mean()


@torch.compile
def auc(scores, labels):
    order = np.argsort(scores.numpy())
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    pos = labels.numpy() == 1
    n_pos, n_neg = pos.sum(), (~pos).sum()
    if n_pos == 0 or n_neg == 0:
        return 0.5
    return (ranks[pos].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


@torch.compile
def topk_report(logits, targets):
    correct = logits.topk(2, -1).indices == targets[:, None]
    acc = correct.any(-1).float().mean().item()
    if acc < 0.5:
        print(f"accuracy is only {acc:.0%}")
    return acc


torch.manual_seed(0)
logits, targets = torch.randn(20, 4), torch.randint(0, 4, (20,))
m = confusion(logits.argmax(-1), targets, 4)
print(f"{f1_score(m).item():.3f} {auc(logits[:, 0], (targets == 0).long()):.3f} {topk_report(logits, targets):.2f}")
