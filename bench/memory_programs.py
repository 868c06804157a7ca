"""Programs bound by memory, as people write them: losses, norms, gates, pooling, graphs, optimizers, diffusion. None was made for a kernel.

    PROGRAMS["geglu"].function(*PROGRAMS["geglu"].make(Sizes("cuda")))

Inputs that require grad are differentiated with it. On a processor the first size is divided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

BF16, F32 = torch.bfloat16, torch.float32


@dataclass(frozen=True)
class Sizes:
    """Makes inputs on a device, with a first size that is divided by `parts`; weights are whole."""

    device: str
    parts: int = 1

    def normal(self, first: int, *sizes: int, dtype: torch.dtype = F32, grad: bool = False) -> torch.Tensor:
        return self.weight(max(first // self.parts, 1), *sizes, dtype=dtype, grad=grad)

    def weight(self, *sizes: int, dtype: torch.dtype = F32, grad: bool = False) -> torch.Tensor:
        return torch.randn(*sizes, device=self.device).to(dtype).requires_grad_(grad)

    def weights(self, count: int) -> list[torch.Tensor]:
        return [self.normal(1024, 1024) for _ in range(count)]

    def below(self, high: int, first: int, *sizes: int) -> torch.Tensor:
        return torch.randint(0, high, (max(first // self.parts, 1), *sizes), device=self.device)


@dataclass(frozen=True)
class Program:
    function: Callable[..., Any]
    make: Callable[[Sizes], tuple]


PROGRAMS: dict[str, Program] = {}


def program(make: Callable[[Sizes], tuple]) -> Callable:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = Program(function, make)
        return function

    return register


@program(lambda on: (on.normal(16, 256, 64, 64, grad=True), on.weight(256, grad=True), on.weight(256, grad=True)))
def group_norm_f32(x, w, b):
    return F.group_norm(x, 32, w, b)


@program(lambda on: (on.normal(16, 256, 64, 64, dtype=BF16),))
def group_norm_nhwc(x):
    return F.silu(F.group_norm(x.to(memory_format=torch.channels_last), 32))


@program(lambda on: (on.normal(32, 64, 128, 128, grad=True),))
def instance_norm(x):
    return F.leaky_relu(F.instance_norm(x), 0.2)


@program(lambda on: (on.normal(65536, 512, grad=True),))
def batch_norm1d(x):
    return F.relu(F.batch_norm(x, None, None, training=True))


@program(lambda on: (on.normal(32, 64, 56, 56),))
def local_response(x):
    return F.local_response_norm(x, 5)


@program(lambda on: (on.normal(262144, 10, grad=True), on.below(10, 262144)))
def ce_10(x, t):
    return F.cross_entropy(x, t)


@program(lambda on: (on.normal(131072, 100, grad=True), on.below(100, 131072)))
def ce_100_smooth(x, t):
    return F.cross_entropy(x, t, label_smoothing=0.1)


@program(lambda on: (on.normal(16, 21, 256, 256, grad=True), on.below(21, 16, 256, 256)))
def ce_segmentation(x, t):
    return F.cross_entropy(x, t)


@program(lambda on: (on.normal(16, 21, 256, 256),))
def softmax_channels(x):
    return x.softmax(1)


@program(lambda on: (on.normal(1024, 16384),))
def softmax_dim0(x):
    return x.softmax(0)


@program(lambda on: (on.normal(64, 512, 28, 28, dtype=BF16),))
def spatial_mean(x):
    return x.mean((2, 3))


@program(lambda on: (on.normal(64, 512, 28, 28, dtype=BF16),))
def se_gate(x):
    return x * torch.sigmoid(x.mean((2, 3), keepdim=True))


@program(lambda on: (on.normal(8192, 4096),))
def standardise(x):
    return (x - x.mean(0)) / (x.std(0) + 1e-6)


@program(lambda on: (on.normal(16, 64, 256, 256),))
def max_channels(x):
    return x.max(1)


@program(lambda on: (on.normal(65536, 256, grad=True),))
def l2_normalize(x):
    return F.normalize(x, dim=-1)


@program(lambda on: (on.normal(65536, 512, grad=True), on.normal(65536, 512, grad=True)))
def cosine(x, y):
    return F.cosine_similarity(x, y, dim=-1)


@program(lambda on: (on.normal(2048, 64), on.normal(2048, 64)))
def pairwise_l1(x, y):
    return (x[:, None] - y[None]).abs().sum(-1)


@program(lambda on: (on.normal(8192, 5120, dtype=BF16, grad=True), on.weight(5120, dtype=BF16, grad=True)))
def rms_norm(x, w):
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return w * h.to(x.dtype)


@program(lambda on: (on.normal(16384, 8192, dtype=BF16, grad=True),))
def geglu(x):
    a, g = x.chunk(2, -1)
    return a * F.gelu(g, approximate="tanh")


@program(lambda on: (on.normal(16384, 4096, dtype=BF16, grad=True),))
def mish(x):
    return F.mish(x)


@program(lambda on: (on.normal(16, 256, 64, 64, dtype=BF16, grad=True),))
def glu_channels(x):
    return F.glu(x, 1)


@program(lambda on: (on.normal(16, 16, 1024, 1024, dtype=BF16, grad=True),))
def causal_softmax(s):
    t = s.shape[-1]
    mask = torch.ones(t, t, dtype=torch.bool, device=s.device).tril()
    return (s * 0.125).masked_fill(~mask, float("-inf")).softmax(-1)


@program(lambda on: (on.normal(16, 16, 1024, 1024, dtype=BF16),))
def alibi_softmax(s):
    t = s.shape[-1]
    slopes = torch.pow(2.0, -torch.arange(1, 17, device=s.device) / 2)
    rel = torch.arange(t, device=s.device)[None] - torch.arange(t, device=s.device)[:, None]
    return (s.float() + slopes[:, None, None] * rel).softmax(-1).to(s.dtype)


@program(lambda on: (on.normal(16, 1024, 32, 128, dtype=BF16, grad=True), on.weight(1024, 64), on.weight(1024, 64)))
def rope_interleaved(x, c, s):
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    c, s = c[:, None], s[:, None]
    return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2).to(x.dtype)


@program(lambda on: (on.normal(16, 1024, 2048, dtype=BF16, grad=True), on.weight(2048, dtype=BF16)))
def token_shift(x, m):
    prev = F.pad(x, (0, 0, 1, -1))
    return x * m + prev * (1 - m)


@program(lambda on: (on.weights(24), on.weights(24)))
def ema(ps, qs):
    with torch.no_grad():
        for p, q in zip(ps, qs, strict=False):
            p.lerp_(q, 0.001)
    return ps[0]


@program(lambda on: (on.weights(24), on.weights(24), on.weights(24)))
def lion(ps, gs, ms):
    with torch.no_grad():
        for p, g, m in zip(ps, gs, ms, strict=False):
            p.mul_(1 - 1e-4).add_((m * 0.9 + g * 0.1).sign_(), alpha=-1e-4)
            m.mul_(0.99).add_(g, alpha=0.01)
    return ps[0]


@program(lambda on: (on.weights(24),))
def clip_grads(gs):
    total = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gs]))
    c = (1.0 / (total + 1e-6)).clamp(max=1.0)
    return [g * c for g in gs]


@program(lambda on: (on.below(256, 64, 224, 224, 3).to(torch.uint8),))
def images_in(x):
    m = torch.tensor([0.485, 0.456, 0.406], device=x.device).view(3, 1, 1)
    return (x.permute(0, 3, 1, 2).float() / 255 - m) / 0.229


@program(lambda on: (on.normal(32, 64, 112, 112, grad=True),))
def avg_pool(x):
    return F.avg_pool2d(F.relu(x), 3, 2, 1)


@program(lambda on: (on.normal(32, 64, 112, 112, grad=True),))
def max_pool(x):
    return F.max_pool2d(x, 2)


@program(lambda on: (on.normal(32, 512, 14, 14, grad=True),))
def adaptive_pool(x):
    return F.adaptive_avg_pool2d(x, 7)


@program(lambda on: (on.normal(16, 64, 64, 64, dtype=BF16, grad=True),))
def nearest(x):
    return F.interpolate(x, scale_factor=2, mode="nearest")


@program(lambda on: (on.normal(16, 64, 64, 64, dtype=BF16),))
def bilinear_up(x):
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


@program(lambda on: (on.normal(16, 256, 64, 64, grad=True),))
def shuffle(x):
    return F.relu(F.pixel_shuffle(x, 2))


@program(lambda on: (on.normal(64, 3, 224, 224, dtype=BF16),))
def patchify(x):
    b = x.shape[0]
    return x.view(b, 3, 14, 16, 14, 16).permute(0, 2, 4, 1, 3, 5).reshape(b, 196, 768)


@program(lambda on: (on.normal(64, 56, 56, 96, dtype=BF16),))
def swin_window(x):
    b = x.shape[0]
    x = torch.roll(x, (-3, -3), (1, 2))
    return x.view(b, 8, 7, 8, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, 96) * 2


@program(lambda on: (on.weight(50000, 512, grad=True), on.below(50000, 32, 1024)))
def embedding(w, i):
    return F.embedding(i, w) * 22.6


@program(lambda on: (on.weight(20000, 128), on.below(20000, 400000), on.below(20000, 400000)))
def gather_scatter(x, src, dst):
    return torch.zeros_like(x).index_add_(0, dst, x[src])


@program(lambda on: (on.normal(400000, 8), on.below(20000, 400000)))
def segment_softmax(s, dst):
    m = torch.full((20000, 8), float("-inf"), device=s.device).scatter_reduce(0, dst[:, None].expand(-1, 8), s, "amax")
    e = (s - m[dst]).exp()
    z = torch.zeros(20000, 8, device=s.device).index_add_(0, dst, e)
    return e / z[dst]


@program(lambda on: (on.normal(4096, 4096, grad=True),))
def cumsum(x):
    return x.cumsum(-1)


@program(lambda on: (on.normal(64, 2048, 256),))
def cumsum_middle(x):
    return x.cumsum(1)


@program(lambda on: (on.normal(64, 2048, 256),))
def cumprod_middle(x):
    return torch.sigmoid(x).cumprod(1)


@program(lambda on: (on.normal(4194304, grad=True), on.normal(4194304)))
def focal(x, t):
    t = (t > 0).float()
    p = torch.sigmoid(x)
    ce = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    pt = p * t + (1 - p) * (1 - t)
    return ((1 - pt) ** 2 * ce * (0.25 * t + 0.75 * (1 - t))).mean()


@program(lambda on: (on.normal(16, 1, 512, 512, grad=True), on.normal(16, 1, 512, 512)))
def dice(x, t):
    p, t = x.sigmoid().flatten(1), (t > 0).float().flatten(1)
    return 1 - ((2 * (p * t).sum(1) + 1) / (p.sum(1) + t.sum(1) + 1)).mean()


@program(lambda on: (on.normal(65536, 128, grad=True), on.normal(65536, 128)))
def kl(x, y):
    return F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean")


@program(lambda on: (on.normal(8388608, grad=True), on.normal(8388608)))
def huber(x, y):
    return F.smooth_l1_loss(x, y)


@program(lambda on: (on.normal(4096, 4096, dtype=BF16),))
def int8_rows(w):
    s = w.abs().amax(1, keepdim=True).float() / 127
    return torch.clamp(torch.round(w.float() / s), -128, 127).to(torch.int8), s


@program(lambda on: ((on.below(255, 8192, 8192) - 128).to(torch.int8), on.normal(8192, 1)))
def dequant(q, s):
    return (q.float() * s).bfloat16()


@program(lambda on: (on.normal(32768, 64),))
def moe_gate(x):
    p = x.softmax(-1)
    v, i = p.topk(2, -1)
    mask = F.one_hot(i, 64).sum(1)
    position = (mask.cumsum(0) - 1) * mask
    return v / v.sum(-1, keepdim=True), i, position, p.mean(0) * mask.float().mean(0)


@program(lambda on: (on.below(1000, 4096),))
def timestep(t):
    f = torch.exp(-math.log(10000) * torch.arange(512, device=t.device) / 512)
    a = t[:, None].float() * f
    return torch.cat((a.sin(), a.cos()), -1)


@program(lambda on: (on.normal(64, 3, 256, 256), on.normal(64, 3, 256, 256), on.below(1000, 64)))
def q_sample(x, e, t):
    a = torch.linspace(0.999, 0.01, 1000, device=x.device).cumprod(0)
    a = a[t].view(-1, 1, 1, 1)
    return a.sqrt() * x + (1 - a).sqrt() * e


@program(lambda on: (on.normal(8192, 4096, grad=True), on.normal(8192, 4096, grad=True), on.normal(8192, 1024, grad=True)))
def lstm_cell(a, b, c):
    i, f, g, o = (a + b).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@program(lambda on: (on.normal(32768, 1024, grad=True),))
def entropy(x):
    logs = x.log_softmax(-1)
    return -(logs.exp() * logs).sum(-1).mean()


@program(lambda on: (on.normal(8, 128, 64, 64, dtype=BF16), on.normal(8, 64, 64, 64, dtype=BF16)))
def skip_norm(x, y):
    return F.silu(F.group_norm(torch.cat((x, y), 1), 32))


@program(lambda on: (on.normal(32, 64, 64, 64),))
def reflect_pad(x):
    return F.relu(F.pad(x, (3, 3, 3, 3), mode="reflect"))


@program(lambda on: (on.normal(8192, 8192, dtype=BF16),))
def heads_out(x):
    return x.view(-1, 128, 64, 128).transpose(1, 2).contiguous()


@program(lambda on: (on.normal(8, 1024, 12, 64, dtype=BF16, grad=True), on.weight(64, dtype=BF16), on.weight(64, dtype=BF16)))
def qk_norm(q, w, b):
    return F.layer_norm(q, (64,), w, b).transpose(1, 2)


@program(lambda on: (on.normal(16384, 1024, dtype=BF16, grad=True), on.normal(16384, 1024, dtype=BF16, grad=True)))
def residual_two_norms(x, r):
    h = x + r
    return F.layer_norm(h, (1024,)), h, F.layer_norm(h * 2 + 1, (1024,))


@program(lambda on: (on.normal(4096, 50257, dtype=BF16),))
def log_probs(x):
    logs = x.float().log_softmax(-1)
    return logs.max(-1), logs.logsumexp(-1)


@program(lambda on: (on.normal(128, 1024, 1024),))
def triu_mul(x):
    return x.triu(1) + x.transpose(1, 2).tril(-1)


@program(lambda on: (on.normal(64, 1024, 512, grad=True), on.below(2, 64, 1024)))
def masked_mean(x, m):
    m = m[..., None].float()
    return (x * m).sum(1) / m.sum(1).clamp(min=1)


@program(lambda on: (on.normal(32, 8192, 64), on.below(8192, 32, 2048)))
def gather_rows(x, i):
    return torch.gather(x, 1, i[..., None].expand(-1, -1, 64)).relu()


@program(lambda on: (on.normal(32, 256, 56, 56, grad=True), on.weight(256, grad=True)))
def layer_scale(x, g):
    return x + F.gelu(x) * g.view(1, -1, 1, 1)


@program(lambda on: (on.normal(32, 96, 56, 56, grad=True),))
def layer_norm_2d(x):
    return F.layer_norm(x.permute(0, 2, 3, 1), (96,)).permute(0, 3, 1, 2)


@program(lambda on: (on.normal(16, 3, 512, 512), on.normal(16, 3, 512, 512)))
def ssim_parts(x, y):
    mx, my = F.avg_pool2d(x, 3, 1), F.avg_pool2d(y, 3, 1)
    sx = F.avg_pool2d(x * x, 3, 1) - mx * mx
    sy = F.avg_pool2d(y * y, 3, 1) - my * my
    sxy = F.avg_pool2d(x * y, 3, 1) - mx * my
    return (((2 * mx * my + 1e-4) * (2 * sxy + 9e-4)) / ((mx * mx + my * my + 1e-4) * (sx + sy + 9e-4))).mean()


@program(lambda on: (on.normal(8, 2048, 1024, grad=True), on.normal(8, 2048, 1024, grad=True)))
def gated_scan_parts(a, x):
    a = -F.softplus(a)
    return (a.cumsum(1)).exp() * x


@program(lambda on: (on.normal(1048576, 3, grad=True),))
def positional_nerf(x):
    f = 2.0 ** torch.arange(6, device=x.device)
    y = (x[..., None] * f).flatten(1)
    return torch.cat((x, y.sin(), y.cos()), -1)


@program(lambda on: (on.normal(1048576, 4, grad=True), on.normal(1048576, 4)))
def box_iou(a, b):
    a = torch.cat((a[:, :2], a[:, :2] + a[:, 2:].abs()), 1)
    b = torch.cat((b[:, :2], b[:, :2] + b[:, 2:].abs()), 1)
    lt, rb = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
    i = (rb - lt).clamp(min=0).prod(1)
    def area(t):
        return (t[:, 2] - t[:, 0]) * (t[:, 3] - t[:, 1])
    return 1 - (i / (area(a) + area(b) - i + 1e-6)).mean()
