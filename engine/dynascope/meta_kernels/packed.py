"""Packed sequences: rows of several lengths, laid one step after another.

    data, batch_sizes = torch._pack_padded_sequence(x, lengths, batch_first)      as many rows as the lengths together
    padded, lengths = PADDED(data, batch_sizes, batch_first, 0.0, steps, batch)   torch's own, told how many rows it will give

How many rows and steps there are depends on the lengths: `packed` and `padded` say on meta tensors what the results are for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def packed(arguments: tuple, keywords: Mapping[str, Any], rows: int, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What `_pack_padded_sequence` gives, as autograd sees it."""
    given = arguments[0].flatten(0, 1)
    at = torch.empty(rows, dtype=torch.long, device="meta")
    return given.index_select(0, at).contiguous(), torch.empty(steps, dtype=torch.long, device="meta")


def padded(arguments: tuple, keywords: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    data, _, batch_first, _, steps, batch = arguments
    at = torch.empty(batch * steps, dtype=torch.long, device="meta")
    made = data.index_select(0, at).contiguous().view(steps, batch, *data.shape[1:])
    made = made.transpose(0, 1) if batch_first else made
    return made, torch.empty(batch, dtype=torch.long, device="meta")


class Padded:
    """What a graph calls for `_pad_packed_sequence`."""

    __name__, __module__ = "_pad_packed_sequence", __name__

    def __call__(self, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        if arguments[0].is_meta:
            return padded(arguments, {})
        return torch._pad_packed_sequence(*arguments[:5])


PADDED = Padded()
