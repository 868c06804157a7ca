"""More programs bound by memory: sorting, choosing, scanning, resampling, quantizing, spectra and states, as people write them.

They are registered beside those of `memory_programs`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from memory_programs import BF16, program


@program(lambda on: (on.normal(4096, 4096),))
def cummax(x):
    return torch.cummax(x, -1)


@program(lambda on: (on.normal(4096, 4096, grad=True),))
def cummax_grad(x):
    return torch.cummax(x, -1).values


@program(lambda on: (on.normal(1024, 8192),))
def running_minimum(x):
    return x - x.cummin(-1).values


@program(lambda on: (on.normal(512, 64, 512, grad=True),))
def logcumsumexp(x):
    return x.logcumsumexp(-1)


@program(lambda on: (on.weight(100000, 256, grad=True), on.below(100000, 16384, 32)))
def bag_by_hand(table, ids):
    return table[ids].mean(1)


@program(lambda on: (on.weight(100000, 256, grad=True), on.below(100000, 16384, 32), on.normal(16384, 32)))
def weighted_bag(table, ids, weights):
    return (table[ids] * weights[..., None]).sum(1)


@program(lambda on: (on.normal(16, 64, 128, 128, grad=True),))
def bicubic(x):
    return F.interpolate(x, scale_factor=2, mode="bicubic")


@program(lambda on: (on.normal(16, 64, 128, 128),))
def bicubic_inference(x):
    return F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=True)


@program(lambda on: (on.normal(16, 64, 256, 256, grad=True),))
def antialiased_down(x):
    return F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True)


@program(lambda on: (on.normal(8192, 1024, grad=True), on.normal(8192, 1024)))
def sorted_loss(x, y):
    return (x.sort(-1).values - y.sort(-1).values).abs().mean(-1)


@program(lambda on: (on.normal(16384, 4096, dtype=BF16),))
def quantize_rows(x):
    scale = x.abs().amax(-1, keepdim=True).float() / 127
    return (x / scale).round().clamp(-128, 127).to(torch.int8), scale


@program(lambda on: (on.normal(16384, 4096),))
def quantize_groups(x):
    groups = x.view(-1, 128)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale = (high - low).clamp(min=1e-5) / 15
    return ((groups - low) / scale).round().to(torch.uint8), scale, low


@program(lambda on: (on.normal(32, 64, 112, 112, grad=True),))
def avg_pool_pad(x):
    return F.avg_pool2d(x, 3, 1, 1)


@program(lambda on: (on.normal(32, 64, 112, 112, grad=True),))
def avg_pool_alone(x):
    return F.avg_pool2d(x, 2)


@program(lambda on: (on.normal(4096, 8192),))
def expm1_sin(x):
    return torch.expm1(x) * torch.sin(x)


@program(lambda on: (on.normal(4096, 8192, grad=True),))
def log1p_tanh(x):
    return torch.log1p(x.abs()) * torch.tanh(x)


@program(lambda on: (on.normal(32, 512, 512),))
def fft_mix(x):
    return torch.fft.fft2(x).real


@program(lambda on: (on.normal(64, 4096), on.weight(4096, 4096).mul(20).to(torch.int8), on.weight(4096)))
def int8_weight(x, w, scale):
    return x @ (w.float() * scale[:, None]).t()


@program(lambda on: (on.normal(32, 1024, 256, grad=True),))
def top_values(x):
    return x.topk(8, -1).values.sum(-1)


@program(lambda on: (on.normal(4096, 8192),))
def top_p_mask(x):
    ordered, places = x.softmax(-1).sort(-1, descending=True)
    keep = ordered.cumsum(-1) - ordered < 0.9
    return torch.zeros_like(keep).scatter(-1, places, keep)


@program(lambda on: (on.normal(8192, 4096),))
def kth(x):
    return x.kthvalue(16, -1).values


@program(lambda on: (on.normal(65536, 128, grad=True), on.below(512, 65536)))
def segment_mean(x, i):
    total = torch.zeros(512, 128, device=x.device).index_add(0, i, x)
    return total / torch.bincount(i, minlength=512).clamp(min=1)[:, None]


@program(lambda on: (on.normal(262144, 64, grad=True), on.below(16384, 262144)))
def segment_max(x, i):
    return torch.full((16384, 64), -1e30, device=x.device).scatter_reduce(0, i[:, None].expand_as(x), x, "amax")


@program(lambda on: (on.below(1000, 1048576),))
def histogram(i):
    return torch.zeros(1000, device=i.device).scatter_add(0, i, torch.ones_like(i, dtype=torch.float32))


@program(lambda on: (on.normal(16, 64, 128, 128, grad=True), on.normal(16, 128, 128, 2).tanh()))
def warp(x, grid):
    return F.grid_sample(x, grid, align_corners=False)


@program(lambda on: (on.normal(2048, 2048, dtype=BF16, grad=True), on.normal(2048, 2048, dtype=BF16)))
def contrast_rows(a, b):
    return torch.logsumexp(a.float() * b.float() / 0.07, -1) - (a.float() * b.float()).diagonal()


@program(lambda on: (on.normal(16, 4096, 512, grad=True), on.normal(16, 4096, 512, grad=True)))
def gated_halves(x, y):
    return torch.cat([x.tanh() * y.sigmoid(), x * y], -1)


@program(lambda on: (on.normal(64, 3, 256, 256),))
def augment(x):
    x = x.flip(-1)
    grey = (x * torch.tensor([0.299, 0.587, 0.114], device=x.device).view(3, 1, 1)).sum(1, keepdim=True)
    x = (x - grey) * 1.2 + grey
    return ((x - x.mean((2, 3), keepdim=True)) * 0.8 + x.mean((2, 3), keepdim=True)).clamp(0, 1)


@program(lambda on: (on.normal(16384, 2048, grad=True),))
def spectral_gate(x):
    return x * F.softplus(x)


@program(lambda on: (on.normal(8192, 4096, grad=True),))
def quantile_like(x):
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    return (x - low) / (high - low)


@program(lambda on: (on.normal(2048, 64, 128),))
def complex_turn(x):
    pairs = torch.view_as_complex(x.unflatten(-1, (64, 2)))
    turns = torch.polar(torch.ones(64, 64, device=x.device), torch.arange(64, device=x.device)[None] * torch.ones(64, 1, device=x.device))
    return torch.view_as_real(pairs * turns).flatten(2)


@program(lambda on: (on.normal(64, 128, 64, 64, grad=True), on.weight(128, 1, 3, 3, grad=True)))
def depthwise(x, w):
    return F.conv2d(x, w, padding=1, groups=128)


@program(lambda on: (on.normal(64, 128, 64, 64, dtype=BF16, grad=True), on.weight(128, 1, 3, 3, dtype=BF16, grad=True)))
def depthwise_halves(x, w):
    return F.conv2d(x, w, padding=1, groups=128)


@program(lambda on: (on.normal(64, 32, 64, 64, grad=True),))
def pixel_norm_shuffle(x):
    return F.pixel_unshuffle(x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-8), 2)


@program(lambda on: (on.normal(4096, 2048, grad=True), on.normal(4096, 2048), on.below(2, 4096, 2048).bool()))
def masked_huber(x, y, m):
    return (F.smooth_l1_loss(x, y, reduction="none") * m).sum() / m.sum()


@program(lambda on: (on.normal(1024, 2048, grad=True), on.normal(1024, 2048)))
def wasserstein_rows(x, y):
    return (x.softmax(-1).cumsum(-1) - y.softmax(-1).cumsum(-1)).abs().sum(-1).mean()


@program(lambda on: (on.normal(256, 1024, 64, grad=True), on.normal(256, 1024, 64)))
def discounted(rewards, values):
    weights = 0.99 ** torch.arange(1024, device=rewards.device)[:, None]
    return ((rewards * weights).flip(1).cumsum(1).flip(1) / weights - values).square().mean()


@program(lambda on: (on.below(256, 4096, 2048).to(torch.uint8), on.normal(4096, 32), on.normal(4096, 32)))
def unpack_four_bits(q, scale, low):
    q = torch.stack([q & 15, q >> 4], -1).flatten(1).view(q.shape[0], 32, -1)
    return (q.float() * scale[..., None] + low[..., None]).to(BF16)


@program(lambda on: (on.normal(16384, 1024), on.weight(256)))
def codes(x, edges):
    return torch.bucketize(x, edges.sort().values)


@program(lambda on: (on.normal(16384, 1024),))
def mu_law(x):
    x = x.tanh()
    y = x.sign() * torch.log1p(255 * x.abs()) / 5.545177444479562
    return ((y + 1) / 2 * 255 + 0.5).to(torch.uint8)


@program(lambda on: (on.normal(65536, 64, grad=True), on.below(4096, 65536, 16)))
def neighbours_max(x, i):
    return x[i].amax(1)


@program(lambda on: (on.normal(1048576, 3, grad=True), on.weight(3, 3, grad=True)))
def turned_points(x, r):
    return (x[:, None, :] * r).sum(-1)


@program(lambda on: (on.normal(65536, 4, 4), on.normal(65536, 4, 4)))
def small_products(a, b):
    return a @ b


@program(lambda on: (on.normal(65536, 16, grad=True), on.weight(16, 8, grad=True), on.weight(16, 8, grad=True)))
def mixture(x, mean, log_scale):
    z = (x[..., None] - mean) * torch.exp(-log_scale)
    return -torch.logsumexp(-0.5 * z * z - log_scale, -1).sum(-1).mean()


@program(lambda on: (on.normal(16, 2048, 1024, dtype=BF16, grad=True), on.weight(1024, 1, 4, dtype=BF16, grad=True)))
def causal_conv(x, w):
    return F.silu(F.conv1d(F.pad(x.transpose(1, 2), (3, 0)), w, groups=1024)).transpose(1, 2)


@program(lambda on: (on.normal(8192, 4096, grad=True), on.below(4096, 8192)))
def one_hot_targets(x, t):
    return ((x.sigmoid() - F.one_hot(t, 4096)) ** 2).mean()


@program(lambda on: (on.normal(16, 64, 96, 96, grad=True),))
def windows_unfolded(x):
    return F.unfold(x, 3, padding=1).view(x.shape[0], 64, 9, -1).softmax(2).sum(2)


@program(lambda on: (on.normal(8, 32, 32, 64, 64, grad=True),))
def trilinear(x):
    return F.interpolate(x, scale_factor=2, mode="trilinear")


@program(lambda on: (on.normal(16, 64, 128, 128, grad=True),))
def bilinear_training(x):
    return F.interpolate(x, scale_factor=2, mode="bilinear")


@program(lambda on: (on.normal(16, 64, 128, 128, dtype=BF16, grad=True),))
def nearest_training(x):
    return F.interpolate(x, scale_factor=2) * 2


@program(lambda on: (on.normal(8192, 2048),))
def nan_mean(x):
    x = torch.where(x > 2, torch.nan, x)
    return torch.nan_to_num(x - x.nanmean(-1, keepdim=True))


@program(lambda on: (on.normal(8192, 2048, grad=True),))
def differences(x):
    return (x.diff(dim=-1).abs() + x.diff(dim=-1).square()).mean(-1)


@program(lambda on: (on.normal(16, 1024, 1024, grad=True),))
def total_variation(x):
    return (x[:, 1:] - x[:, :-1]).abs().mean() + (x[:, :, 1:] - x[:, :, :-1]).abs().mean()


@program(lambda on: (on.normal(4096, 4096), on.normal(4096, 4096)))
def special_functions(x, y):
    return torch.lgamma(x.abs() + 1) + torch.erfinv(y.tanh()) + torch.special.i0e(x)


@program(lambda on: (on.normal(256, 512, 128, grad=True), on.normal(256, 512, 128, grad=True), on.normal(256, 512, 128)))
def triplet(a, p, n):
    return F.triplet_margin_loss(a.flatten(0, 1), p.flatten(0, 1), n.flatten(0, 1))


@program(lambda on: (on.normal(8192, 512, grad=True), on.below(512, 8192, 512)))
def permuted(x, order):
    return x.gather(1, order).cumsum(1) / torch.arange(1, 513, device=x.device)


@program(lambda on: (on.normal(64, 256, 56, 56, dtype=BF16, grad=True), on.weight(256, grad=True), on.weight(256, grad=True)))
def frozen_norm(x, w, b):
    return F.relu(x * w.to(x.dtype)[:, None, None] + b.to(x.dtype)[:, None, None])


@program(lambda on: (on.normal(2048, 1024), on.normal(2048, 1024)))
def ranks(x, y):
    rx, ry = x.argsort(-1).argsort(-1).float(), y.argsort(-1).argsort(-1).float()
    return F.cosine_similarity(rx - rx.mean(-1, keepdim=True), ry - ry.mean(-1, keepdim=True), dim=-1)
