"""A detector's postprocessing that gives None where nothing is found."""

import torch


@torch.compile
def postprocess(boxes, scores, threshold):
    keep = scores > threshold
    if keep.sum() == 0:
        return None
    weights = scores * keep
    center = (boxes * weights[:, None]).sum(0) / weights.sum()
    return center


torch.manual_seed(0)
for threshold in (0.2, 0.5):
    found = postprocess(torch.rand(6, 4), torch.rand(6), threshold)
    print(None if found is None else f"{found.sum():.3f}")
