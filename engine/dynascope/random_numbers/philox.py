"""Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011), and how a number in [0, 1) is made from it. The reference.

    uniform_at(seed, offset, index)      the same bits as the loops' `random`, in C++ and in Triton

The recipe, bit for bit:
- key      = (seed's low 32 bits, seed's high 32 bits)
- counter  = (low, high 32 bits of index >> 2; low, high 32 bits of offset)
- word     = number index & 3 of the four that ten rounds make
- result   = (word >> 8) * 2**-24, exact in f32

Four neighbours share a Philox call, so that a vector or a thread that makes them together pays for one.
"""

from __future__ import annotations

import torch

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
LOW = 0xFFFFFFFF


def uniform_at(seed: int, offset: int, index: torch.Tensor) -> torch.Tensor:
    """f32 in [0, 1) for each int64 element of `index`."""
    block = index >> 2
    words = torch.stack(philox((block & LOW, block >> 32 & LOW, offset & LOW, offset >> 32 & LOW), seed))
    word = words.gather(0, (index & 3).unsqueeze(0)).squeeze(0)
    return (word >> 8).to(torch.float32) * 2.0**-24


def philox(counter: tuple, seed: int) -> list[torch.Tensor]:
    """Four 32-bit words, held in int64, for each counter."""
    a, b, c, d = (torch.as_tensor(word) for word in counter)
    key = [seed & LOW, seed >> 32 & LOW]
    for _ in range(ROUNDS):
        (a_high, a_low), (c_high, c_low) = _product(a, MULTIPLIERS[0]), _product(c, MULTIPLIERS[1])
        a, b, c, d = c_high ^ b ^ key[0], c_low, a_high ^ d ^ key[1], a_low
        key = [(word + step) & LOW for word, step in zip(key, KEY_STEPS, strict=True)]
    return list(torch.broadcast_tensors(a, b, c, d))


def _product(word: torch.Tensor, factor: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The high and the low half of a product of 32-bit numbers. int64 wraps, and the bits are right."""
    product = word * torch.tensor(factor, dtype=torch.int64, device=word.device)
    return product >> 32 & LOW, product & LOW
