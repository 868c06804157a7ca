"""A function of the C library in the loss."""

import ctypes
import ctypes.util

import torch

libm = ctypes.CDLL(ctypes.util.find_library("m"))
libm.tgamma.restype = ctypes.c_double
libm.tgamma.argtypes = [ctypes.c_double]


@torch.compile
def normaliser(x, df):
    scale = libm.tgamma((df + 1) / 2) / libm.tgamma(df / 2)
    return scale * (1 + x * x / df) ** (-(df + 1) / 2)


print(f"{normaliser(torch.linspace(-2, 2, 9), 4.0).sum().item():.4f}")
