"""A detector's head: scores are filtered, boxes suppressed one by one."""

import torch


def iou(box, boxes):
    lt = torch.maximum(box[:2], boxes[:, :2])
    rb = torch.minimum(box[2:], boxes[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, 0] * wh[:, 1]
    area = (box[2] - box[0]) * (box[3] - box[1])
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return inter / (area + areas - inter)


@torch.compile
def nms(boxes, scores, threshold):
    order = scores.argsort(descending=True)
    keep = []
    while order.numel() > 0:
        i = order[0].item()
        keep.append(i)
        if order.numel() == 1:
            break
        overlap = iou(boxes[i], boxes[order[1:]])
        order = order[1:][overlap <= threshold]
    return torch.tensor(keep)


@torch.compile
def postprocess(logits, boxes, min_score=0.3):
    scores, labels = logits.softmax(-1).max(-1)
    mask = scores > min_score
    if not mask.any():
        print("no detections")
        return boxes[:0], scores[:0], labels[:0]
    return boxes[mask], scores[mask], labels[mask]


torch.manual_seed(0)
corners = torch.rand(12, 2) * 4
boxes = torch.cat([corners, corners + 1 + torch.rand(12, 2)], dim=1)
logits = torch.randn(12, 4) * 2
kept, scores, labels = postprocess(logits, boxes)
print(nms(kept, scores, 0.3).tolist(), labels.shape)
