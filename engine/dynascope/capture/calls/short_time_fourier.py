"""`torch.istft` as the operators that it is made of: its own kernel asks at the end whether the windows leave a gap, which no meta
tensor says. In a graph that question is an assertion, and what it finds torch says itself, when the region runs as it was written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import equivalents
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function
from dynascope.capture.values import TensorValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

LEAST_OVERLAP = 1e-11


@meaning(torch.istft, torch.Tensor.istft)
def istft(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    if not arguments or not isinstance(machine.realize(arguments[0]), TensorValue):
        return apply_function(machine, torch.istft, arguments, keywords)
    return equivalents.enter(machine, inverse, arguments, keywords)


def inverse(
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    normalized=False,
    onesided=None,
    length=None,
    return_complex=False,
):
    """From aten/src/ATen/native/SpectralOps.cpp."""
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if not input.is_complex() or input.dim() not in (2, 3) or not 0 < hop <= width <= n_fft:
        return as_it_is(input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex)
    bins, frames = input.shape[-2], input.shape[-1]
    one_sided = bins != n_fft if onesided is None else onesided
    expected = n_fft + hop * (frames - 1)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else expected - start
    is_window = window is not None and window.dim() == 1 and window.shape[0] == width and window.device == input.device
    fits = bins == (n_fft // 2 + 1 if one_sided else n_fft) and start < end <= expected
    if not is_window or not fits or (one_sided if return_complex else window.is_complex()):
        return as_it_is(input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex)
    if width != n_fft:
        left = (n_fft - width) // 2
        window = torch.constant_pad_nd(window, [left, n_fft - width - left], 0)
    spectrum = (input if input.dim() == 3 else input.unsqueeze(0)).transpose(1, 2)
    norm = "ortho" if normalized else "backward"
    pieces = torch.fft.ifft(spectrum, n_fft, -1, norm) if return_complex else torch.fft.irfft(spectrum, n_fft, -1, norm)
    pieces = pieces * window.view(1, 1, n_fft)
    signal = torch.ops.aten.unfold_backward(pieces, [pieces.shape[0], expected], 1, n_fft, hop)
    squares = window.pow(2).expand(1, frames, n_fft)
    envelope = torch.ops.aten.unfold_backward(squares, [1, expected], 1, n_fft, hop)[:, start:end]
    torch._assert_async((envelope.abs() >= LEAST_OVERLAP).all(), "window overlap add min: 1")
    signal = signal[:, start:end] / envelope
    return signal if input.dim() == 3 else signal.squeeze(0)


def as_it_is(*arguments):
    return torch.istft(*arguments)


@meaning(as_it_is)
def call_as_it_is(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """What torch refuses, or warns of."""
    return apply_function(machine, torch.istft, arguments, keywords)
