"""Anchors are matched to boxes; an image without boxes is background."""

import torch


def iou(a, b):
    low = torch.maximum(a[:, None, :2], b[None, :, :2])
    high = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = (high - low).clamp(min=0).prod(-1)
    def area(box):
        return (box[:, 2:] - box[:, :2]).prod(-1)
    return inter / (area(a)[:, None] + area(b)[None] - inter)


@torch.compile
def match(anchors, boxes, threshold=0.3):
    overlap = iou(anchors, boxes)
    best, which = overlap.max(dim=1)
    positive = best > threshold
    num_pos = positive.sum().item()
    if num_pos == 0:
        return torch.zeros(len(anchors)), torch.full_like(which, -1)
    labels = positive.float()
    which = torch.where(positive, which, -1)
    return labels, which


torch.manual_seed(0)


def boxes(n):
    corner = torch.rand(n, 2)
    return torch.cat([corner, corner + 0.3 + torch.rand(n, 2)], -1)


match(boxes(6), boxes(3))
match(boxes(6), boxes(3) + 10)
