"""The operators `dynascope::draw_seed` and `dynascope::uniform`, with an implementation that runs anywhere.

    seed = torch.ops.dynascope.draw_seed(device("cpu"))                           once a call of a compiled graph
    u = torch.ops.dynascope.uniform(seed, 0, [4, 8], [8, 1], device("cpu"))       f32 in [0, 1), the same each time

`draw_seed` takes from torch's default generator of the device: on the CPU one 64-bit number (what a one-element int64
`random_()` takes); on a GPU it moves the generator's offset on by 4 and mixes seed and offset, without a kernel. So
`torch.manual_seed` makes runs repeat, two calls differ, and nothing else of the generator's sequence is used, however
many random tensors the graph makes. Each of them has an `offset` of its own, which is known when it is compiled.
"""

from __future__ import annotations

import threading

import torch

from dynascope.random_numbers.philox import uniform_at

LIBRARY = torch.library.Library("dynascope", "DEF")
LIBRARY.define("draw_seed(Device on) -> int", tags=(torch.Tag.nondeterministic_seeded,))
LIBRARY.define("uniform(int seed, int offset, int[] sizes, int[] strides, Device on) -> Tensor")

_BOXES = threading.local()
OFFSETS_A_CALL = 4
"""CUDA's generator counts in fours."""


def draw_seed(on: torch.device) -> int:
    """A number of 63 bits."""
    if on.type == "cpu":
        return _box().random_().item()
    module = torch.get_device_module(on)
    index = module.current_device() if on.index is None else on.index
    module.init()
    generator = module.default_generators[index]
    offset = generator.get_offset()
    generator.set_offset(offset + OFFSETS_A_CALL)
    return mixed(generator.initial_seed(), offset)


def _box() -> torch.Tensor:
    """One element of memory for each thread."""
    box = getattr(_BOXES, "box", None)
    if box is None:
        box = _BOXES.box = torch.empty((), dtype=torch.int64)
    return box


def mixed(seed: int, offset: int) -> int:
    """Neighbouring seeds and offsets far apart (SplitMix64), and no key that eager's own kernels use."""
    bits = (seed + (offset + 1) * 0x9E3779B97F4A7C15) % 2**64
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % 2**64
    return (bits ^ (bits >> 31)) >> 1


def uniform(seed: int, offset: int, sizes: list[int], strides: list[int], on: torch.device) -> torch.Tensor:
    """The element at row-major place i is number i of the stream, wherever `strides` puts it."""
    count = torch.Size(sizes).numel()
    places = torch.arange(count, dtype=torch.int64, device=on)
    result = torch.empty_strided(sizes, strides, dtype=torch.float32, device=on)
    return result.copy_(uniform_at(seed, offset, places).view(sizes))


LIBRARY.impl("draw_seed", draw_seed, "CompositeExplicitAutograd")
LIBRARY.impl("uniform", uniform, "CompositeExplicitAutograd")

DRAW_SEED = torch.ops.dynascope.draw_seed.default
UNIFORM = torch.ops.dynascope.uniform.default
