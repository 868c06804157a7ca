"""Views that got a history because their base was written, before anybody asked for it.

t = b[0]; b.add_(c); awaits_history(t)      True if `c` requires grad and `b` did not: `t.mul_(2)` raises, `t * 2` does not
"""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import _disable_current_modes


def is_made(view: torch.Tensor, way: str) -> bool:
    """What autograd remembers of how a view was made: it lets nobody write in place to one of several views that one call made
    (`MULTI_OUTPUT_NODE`), nor to a view of it, and with gradients not to one that was made without them (`NO_GRAD_MODE`). `DEFAULT` is
    neither."""
    return torch._C._autograd._get_creation_meta(view).name == way


def awaits_history(tensor: torch.Tensor) -> bool:
    """Until somebody asks such a view for its history, autograd takes it for a leaf, and refuses to write it. Whatever is asked of its
    history, also whether it is a leaf, ends that. So it is asked by a copy that fails either way, and that changes nothing."""
    base = tensor._base
    if base is None or not (tensor.requires_grad and base.requires_grad) or base.is_leaf or not is_made(tensor, "DEFAULT"):
        return False
    too_many = torch.empty((2, *tensor.shape), dtype=tensor.dtype, device="meta")
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.enable_grad():
        try:
            tensor.copy_(too_many)
        except RuntimeError as error:
            return "leaf" in str(error)
    return False


def is_leaf_of_another(tensor: torch.Tensor) -> bool:
    """Whether it is a leaf that requires grad and a view of what requires none: what is taken of it without recording is a view of
    that, and requires none either."""
    return tensor.requires_grad and tensor._is_view() and not tensor._base.requires_grad and tensor.is_leaf
