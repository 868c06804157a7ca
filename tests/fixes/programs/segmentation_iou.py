"""Mean IoU over the classes that occur, in a compiled validation step."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Conv2d(3, 4, 1)


@torch.compile
def validate(images, masks):
    logits = net(images)
    predicted = logits.argmax(1)
    ious = []
    for c in range(4):
        inter = ((predicted == c) & (masks == c)).sum()
        union = ((predicted == c) | (masks == c)).sum()
        if union > 0:
            ious.append(inter / union)
    loss = nn.functional.cross_entropy(logits, masks)
    print(f"val loss {loss.item():.3f}")
    return loss, sum(ious) / len(ious)


for _ in range(2):
    loss, iou = validate(torch.randn(2, 3, 4, 4), torch.randint(0, 4, (2, 4, 4)))
    print(f"{loss:.3f} {iou:.3f}")
