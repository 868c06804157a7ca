"""The statements that random tensor programs are made of, by kind.

`{x}`, `{y}`, `{z}` are tensors of any type and layout, `{r}` what is bound (often a name that is bound already), `{c}` a
number, `{k}` a small number, `{d}` a dimension. Every operator is continuous where its operands are floats that were computed,
so that a rounding cannot change which way an element goes.
"""

from __future__ import annotations

import random

_UNARY = ["relu", "tanh", "sigmoid", "neg", "abs", "sin", "cos", "square", "erf", "exp", "expm1", "atan", "sinh", "log1p", "sqrt", "rsqrt", "reciprocal", "positive", "logical_not", "isnan", "isfinite", "conj", "real", "resolve_conj", "isinf", "trace", "numel", "argmax", "argmin", "any", "all", "count_nonzero"]
_SHAPING = ["t()", "mT", "T", "contiguous()", "clone()", "detach()", "flatten()", "reshape(-1)", "unsqueeze(0)", "unsqueeze(-1)", "squeeze()", "squeeze(0)", "squeeze(-1)", "ravel()", "transpose(0,1)", "permute(1,0)", "movedim(0,-1)", "flip(0)", "flip(-1)", "roll(1,0)", "roll(-1,-1)", "rot90()", "diagonal()", "tril()", "triu(1)", "diag()", "expand(2,*{x}.shape)", "expand_as({y})", "view(-1)", "view({x}.shape)", "unfold(0,2,1)", "narrow(0,0,1)", "select(0,-1)", "split(2)[0]", "chunk(2,-1)[-1]", "unbind(0)[0]", "tensor_split(2)[1]", "repeat(2,1)", "repeat_interleave(2,0)", "tile(2)", "view_as({y})", "reshape({x}.shape[::-1])", "swapaxes(0,-1)", "as_strided((2,),(1,))", "data"]
_TYPES = ["to(F32)", "to(F64)", "to(BF16)", "to(F16)", "to(I64)", "to(I32)", "to(BOOL)", "to(C64)", "float()", "double()", "long()", "bool()", "half()", "to({y}.dtype)", "type_as({y})", "to({y})"]
_REDUCED = (
    "sum() mean() amax({d}) amin({d},keepdim=True) sum({d}) mean({d},keepdim=True) prod({d}) logsumexp({d}) var({d}) "
    "std(unbiased=False) norm() norm(dim={d},keepdim=True) cumsum({d}) cumprod({d}) cummax({d})[0] softmax({d}) "
    "log_softmax({d}) max({d})[0] max({d}).indices min() contiguous().median({d})[0] argmax({d}) sort({d},stable=True)[0] "
    "topk(1,{d})[0] all({d}) any() count_nonzero({d}) logcumsumexp({d}) nansum({d}) var_mean({d})[1] std_mean()[0] max() "
    "aminmax(dim={d}).max kthvalue(1,{d}).values mode({d})[0] argsort({d},stable=True)"
).replace("var_mean({d})[1] std_mean()[0] ", "").split()  # fmt: skip
_TWO = ["{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / ({y} * {y} + 1)", "{x} @ {y}", "{x} @ {y}.mT", "{x} & {y}", "{x} ", " {y}", "{x} ^ {y}", "{x} > {y} + 0.37", "{x} == {y}", "{x} < 0.37", "{x} + {c}", "{c} - {x}", "{x} * {c}", "{x} // 2", "{x} % 3", "{x} ** 2", "-{x}", "~{x}", "torch.maximum({x}, {y})", "torch.minimum({x}, {y})", "torch.where({x} > 0.37, {y}, {z})", "torch.where({x} != 0, {y}, {c})", "torch.lerp({x}, {y}, 0.3)", "torch.addcmul({x}, {y}, {z}, value=0.5)", "torch.add({x}, {y}, alpha=2)", "torch.rsub({x}, {y})", "torch.hypot({x}, {y})", "torch.atan2({x}, {y} * {y} + 1)", "torch.logaddexp({x}, {y})", "torch.cat([{x}, {y}])", "torch.cat([{x}, {y}], -1)", "torch.stack([{x}, {y}])", "torch.outer({x}, {y})", "torch.einsum('ij,kj->ik', {x}, {y})", "torch.clamp({x}, -1.5, 1.5)", "{x}.clamp(min={y})", "{x}.clamp_max(1.25)", "{x}.masked_fill({y} != 0, {c})", "{x}.masked_fill({x} > 0.37, 0)", "{x}.gather({d}, {y} % 2)", "{x}[{y} % 2]", "{x}[{y} > 0.37]", "{x}.index_select({d}, {y}.flatten() % 2)", "{x}.scatter_add({d}, {y} % 2, {x})", "F.layer_norm({x}, {x}.shape[-1:])", "F.gelu({x})", "F.silu({x})", "F.softplus({x})", "F.pad({x}, (1, 2))", "F.elu({x})", "F.one_hot({x} % 3, 3)", "F.linear({x}, {y})", "F.mse_loss({x}, {y})", "F.cross_entropy({x}, {y} % 2)", "F.normalize({x}, dim=-1)", "F.leaky_relu({x}, 0.1)", "torch.special.xlogy({x}, {y} * {y} + 1)", "torch.special.expit({x})", "torch.nan_to_num({x})", "torch.cdist({x}, {y})", "torch.baddbmm({x}, {y}, {z})", "torch.bmm({x}, {y})", "torch.addmm({x}, {y}, {z})", "torch.mv({x}, {y})", "torch.dot({x}, {y})", "torch.bucketize({x}, torch.tensor([0.3, 1.1], device=DEVICE, dtype={x}.dtype))", "torch.searchsorted({x}, {y})", "torch.special.entr({x})", "torch.broadcast_to({x}, {y}.shape)", "torch.polar({x}, {y})", "torch.view_as_real({x})", "{x}.imag", "torch.complex({x}, {y})", "torch.fmod({x}, 3)", "torch.copysign({x}, {y} + 0.3)", "torch.heaviside({x}, {y})", "torch.diff({x}, dim={d})", "torch.tensordot({x}, {y}, 1)", "F.scaled_dot_product_attention({x}, {y}, {z})", "F.avg_pool1d({x}, 2)", "F.max_pool1d({x}, 2)", "F.conv1d({x}, {y})", "F.embedding({x} % 2, {y})", "F.huber_loss({x}, {y})", "F.binary_cross_entropy_with_logits({x}, {y})"]
EXPRESSIONS = (
    *(f"{{r}} = torch.{name}({{x}})" for name in _UNARY),
    *(f"{{r}} = {{x}}.{text}" for text in (*_SHAPING, *_SHAPING, *_TYPES, *_REDUCED)),
    *(f"{{r}} = {text}" for text in (*_TWO, *_TWO)),
    "{r} = {x}[1:]", "{r} = {x}[..., ::2]", "{r} = {x}[:, 0]", "{r} = {x}[None]", "{r} = {x}[-1]", "{r} = {x}[::2, 1:]",
    "{r} = {x}[n - 2:]", "{r} = {x} * n", "{r} = {x} + n / 2", "{r} = {x}.sum() * n",
)  # fmt: skip
WRITES = (
    "{x}.add_({c})", "{x}.mul_(0.5)", "{x}.add_({y})", "{x}.mul_({y})", "{x}.zero_()", "{x}.fill_(1)", "{x}.copy_({y})", "{x}.clamp_(-1, 1)", "{x}.neg_()", "{x}[0] = {c}", "{x}[:, 0] = {y}", "{x}[..., -1] += 1", "{x}[1:] = {y}[:-1]", "{x}[{x} > 0.37] = 0", "{x}.t().add_(1)", "{x}[0].mul_(2)", "{x}.masked_fill_({y} != 0, 0)", "{x}.tanh_()", "{x}.sub_({y}, alpha=2)", "{x}.index_add_(0, torch.tensor([0], device=DEVICE), {y})", "{x}.scatter_({d}, {y} % 2, 1)", "{x}.squeeze_()", "{x}.unsqueeze_(0)", "{x}.t_()", "{x}.transpose_(0, 1)", "{x}.data.mul_(0.5)", "{x} += {y}", "{x} *= 2", "{x} -= 1", "{x}.diagonal().fill_(2)", "{x}.flatten()[0] = 3", "{x}.view(-1)[1:].add_(1)", "{x}.relu_()", "{x}.detach().add_(1)", "{x}.index_put_((torch.tensor([0, 0], device=DEVICE),), {y}, accumulate=True)", "{x}.addcmul_({y}, {z})", "torch.add({x}, {y}, out={z})", "torch.mul({x}, 2, out={x})", "{x}.set_({y})", "{x}.logical_not_()", "{x}.cumsum_({d})", "{x}.lerp_({y}, 0.5)", "{x}.exp_()", "{x}.requires_grad_()", "{x}.swapdims_(0, 1)", "{x}.triu_()", "{x}.pow_(2)", "{x}.floor_divide_(2)",
)  # fmt: skip
CREATIONS = (
    "{r} = torch.zeros({x}.shape, dtype={x}.dtype, device=DEVICE)", "{r} = torch.zeros_like({x})", "{r} = {x}.new_ones(2, 3)",
    "{r} = torch.ones(n, 2, device=DEVICE, dtype=F32)", "{r} = torch.arange(n, device=DEVICE)", "{r} = torch.full_like({x}, 2)",
    "{r} = torch.tensor([1, 2], device=DEVICE)", "{r} = torch.eye(3, device=DEVICE, dtype=F32)", "{r} = {x}.new_zeros({x}.shape)",
    "{r} = torch.linspace(0, 1, 5, device=DEVICE, dtype=F32)", "{r} = {x}.new_tensor([[1.0]])", "{r} = torch.empty_like({x}).fill_(1)",
    "{r} = torch.ones(3, device=DEVICE, dtype=F32, requires_grad=True)", "{r} = torch.tril_indices(3, 3, device=DEVICE)",
    "{r} = torch.scalar_tensor(n, device=DEVICE)", "{r} = torch.empty_strided((2, 3), (1, 2), device=DEVICE, dtype=F32).fill_(2)",
)  # fmt: skip
RANDOM = (
    "{r} = F.dropout({x}, 0.5, flag)", "{r} = F.dropout({x}, 0.3)", "{r} = torch.rand_like({x})", "{r} = torch.randn(2, 3, device=DEVICE)",
    "{r} = torch.bernoulli(torch.full_like({x}, 0.5))", "torch.rand_like({x})", "{r} = torch.randint(0, 5, (3,), device=DEVICE)",
    "{x}.uniform_()", "{x}.normal_()", "{x}.bernoulli_(0.5)", "{r} = torch.randperm(4, device=DEVICE)", "{x}.random_(0, 7)",
    "{r} = torch.multinomial({x}.abs() + 1, 1)", "{r} = F.alpha_dropout({x}, 0.4, True)", "{r} = {x} + torch.normal(0.0, 1.0, (2, 3), device=DEVICE)",
)  # fmt: skip
EFFECTS = (
    "log.append(n)", "log.append({x})", "log.append({x}.shape)", "holder.value = {x}", "holder.count = getattr(holder, 'count', 0) + n",
    "{r} = holder.value", "{r} = log[-1]", "log.append(('x', {x}.requires_grad, {x}.dtype))", "log.append({x}.is_contiguous())",
    "log.append({x}.stride())", "log.append({x}.storage_offset())", "log.append({x} is {y})", "log.append({x}.is_leaf)",
    "log.append([{x}, {y}])", "log.append({x}._version)", "{x}.mark = n", "log.append(getattr({x}, 'mark', None))",
    "log.append(torch.is_grad_enabled())", "{r} = {x}.detach().requires_grad_()", "log.append(len({x}))", "log.append({x}.data_ptr() == {y}.data_ptr())",
)  # fmt: skip
NETWORK = (
    "{r} = m.first({x})", "{r} = m.second({x})", "{r} = m.second(torch.relu(m.first({x})))", "{r} = F.linear({x}, m.frozen)",
    "{r} = m.norm({x})", "{r} = m.batch({x})", "{r} = m.drop({x})", "{r} = m.table({x} % 7)", "{r} = {x} * m.scale", "m.calls += 1",
    "m.seen.add_(1)", "m.seen = m.seen + {x}.detach().mean()", "{r} = {x} @ m.first.weight", "{r} = m.first.bias + {x}",
    "m.scale.data.mul_(0.5)", "log.append(m.training)", "m.eval()", "m.train()", "{r} = m.frozen", "{r} = m.first.weight.t()",
)  # fmt: skip
AUTOGRAD = (
    "{r} = Doubled.apply({x})", "{r} = Doubled.apply({x})", "{r}, mask = Product.apply({x}, {y}, 2)", "{r} = Product.apply({x}, {x}, n)[0]",
    "{r} = checkpoint(torch.tanh, {x}, use_reentrant=False)", "{r} = checkpoint(lambda v: F.dropout(v.sin(), 0.5) * {y}, {x}, use_reentrant=False)",
    "({x} * {y}).sum().backward()", "({x} * {x}).mean().backward(retain_graph=True)", "{x}.sum().backward()", "{x}.backward({y})",
    "{r} = torch.autograd.grad(({x} * {y}).sum(), {x})[0]", "{r} = torch.autograd.grad(({x} * {x}).sum(), {x}, create_graph=True)[0]",
    "{r} = torch.autograd.grad({x}.sum(), {y}, allow_unused=True)[0]", "{r} = {x}.grad", "{r} = {x}.grad.clone()", "{x}.grad = None",
    "log.append({x}.grad is None)", "{r} = {x}.detach().requires_grad_()", "{x}.grad = {y}",
)  # fmt: skip
LATE = (
    "{r} = {x}[{y} > 0.37]", "{r} = {x}[{x} > 0.37]", "{r} = {x}[:, {y} > 0.37]", "{r} = {x}[0, {y} > 0.37]", "{r} = {x}[{x}.sum(-1) > 0.37]",
    "{r} = torch.masked_select({x}, {y} > 0.37)", "{r} = ({x} > 0.37).nonzero()", "{r} = torch.where({x} > 0.37)[{d}]", "{r} = torch.argwhere({x} > 0.37)",
    "{r} = {x} * {y}.sum().item()", "{r} = {x} + {y}.argmax().item()", "{r} = {x}.sum() * float({y}.mean())", "{r} = {x}.flatten()[:{y}.argmax().item()]",
    "{r} = {x}[{y}.argmax().item():]", "{r} = {x}.flatten()[int({y}.argmin())]", "log.append({x}.argmax().item())", "log.append(({x} > 0.37).sum().item())",
    "{r} = torch.zeros(({x} > 0.37).sum().item(), 2, device=DEVICE, dtype=F32)", "{r} = torch.arange(int({x}.argmax()) + 1, device=DEVICE)",
    "{r} = torch.unique({x} > 0.37)", "{r} = torch.unique({x}, return_counts=True)[1]", "{r} = torch.unique({x}, return_inverse=True)[1]",
    "{r} = torch.bincount({x}.flatten() % 3)", "{r} = {x}.repeat_interleave({y} % 3, 0)", "{r} = {x}.clamp(max={y}.sum().item())",
    "if ({x} > 0.37).sum().item() > 2: {x}.add_(1)", "{x}[{y} > 0.37] = {c}", "{x}.mul_({y}.argmax().item())", "log.append({x}[{x} > 0.37].shape)",
    "{r} = {x}[{x} > 0.37].sum() / max(({x} > 0.37).sum().item(), 1)", "{r} = {x}.detach().flatten()[:4].long().tolist() and {x}", "log.append(int({x}.argmax()) * n + 1)",
    "{r} = {x}[({x} > 0.37).any(-1)]", "{r} = {x}[~({x} > 0.37)].view(-1, 1) * 2", "{r} = torch.cat([{x}[{x} > 0.37], {x}[{x} <= 0.37]])",
)  # fmt: skip
BLOCKS = (
    ("if flag:", "else:"), ("if n > 2:",), ("for i in range(n):",), ("if {x}.sum() > 0.37:", "else:"), ("with torch.no_grad():",),
    ("try:", "except RuntimeError:"), ("try:", "finally:"), ("if {x}.shape[0] > 2:", "else:"), ("with torch.enable_grad():",),
    ("for row in {x}:",), ("with torch.autocast(DEVICE, dtype=BF16):",), ("if {x}.dim() == 2:",), ("if flag and n < 4:", "else:"),
    ("for name in ('p', 'q'):",), ("if {x}.is_floating_point():", "else:"),
)  # fmt: skip
RAISES = (
    "if n == 3: raise ValueError('on purpose')", "if not flag: {x}[:, 99]", "if n > 2: torch.zeros(2, 3) @ {x}", "if n == 5: {x}.undefined",
    "if not flag: holder.nothing", "if n == 3: {x}.view(7, 11)", "if not flag: {x}[{x}.shape[0]]",
)  # fmt: skip


HOOKS = (
    "{x}.register_hook(lambda gradient: gradient * 2)", "{x}.register_hook(lambda gradient: log.append(gradient.sum()))",
    "{x}.register_hook(lambda gradient: log.append(gradient.shape))", "{x}.register_hook(lambda gradient: gradient.clamp(-1, 1))",
    "{x}.register_hook(lambda gradient, other={y}: gradient * other.detach())", "{x}.register_hook(lambda gradient: gradient * n)",
    "handle = {x}.register_hook(lambda gradient: gradient + 1); handle.remove()", "holder.handle = {x}.register_hook(lambda gradient: gradient + 1)",
    "holder.handle.remove()", "{x}.register_hook(lambda gradient: setattr(holder, 'gradient', gradient))", "log.append(holder.gradient)",
    "{x}.register_post_accumulate_grad_hook(lambda leaf: log.append(leaf.grad.sum()))", "{x}.retain_grad()", "{r} = {x}.grad", "log.append({x}.grad)",
    "{x}.register_post_accumulate_grad_hook(lambda leaf: setattr(leaf, 'grad', None))", "log.append({x}.retains_grad)",
    "({x} * {y}).sum().backward(retain_graph=True)", "{x}.sum().backward(retain_graph=True)", "{x}.sin().sum().backward()", "{x}.mean().backward(inputs=[{y}])",
    "{r} = torch.autograd.grad({x}.sum(), [{y}], retain_graph=True)[0]", "{r} = torch.autograd.grad(({x} * {x}).sum(), {x}, retain_graph=True)[0]",
    "torch.autograd.backward([{x}.sum(), {y}.mean()])", "{x}.grad = None", "{x}.grad.zero_()",
)  # fmt: skip
MODULE_HOOKS = (
    "m.first.register_forward_hook(lambda module, given, result: result * 2)", "m.first.register_forward_hook(lambda module, given, result: log.append(result.shape))",
    "m.norm.register_forward_pre_hook(lambda module, given: (given[0] + 1,))", "m.norm.register_full_backward_hook(lambda module, inner, outer: None if inner[0] is None else (inner[0] * 2,))",
    "m.first.register_full_backward_pre_hook(lambda module, outer: (outer[0] * 0.5,))", "m.norm.register_full_backward_hook(lambda module, inner, outer: log.append(outer[0].sum()))",
    "handle = m.norm.register_forward_hook(lambda module, given, result: result + 1); {r} = m.norm({x}); handle.remove()",
    "m.first.weight.register_hook(lambda gradient: gradient * 0.5)", "m.scale.register_post_accumulate_grad_hook(lambda leaf: log.append(leaf.grad))",
    "m.first.weight.data.mul_(0.9)", "m.norm.weight.data.fill_(0.5)", "m.scale.data = m.scale.data * 2", "m.norm.bias.data.add_(m.frozen[0])", "m.first._forward_hooks.clear()",
)  # fmt: skip
# torch itself dies where a result of an operator is given other memory and then hooks.
DATA = (
    "{x}.data.mul_(0.5)", "{x}.data[0] = {c}", "if {x}.is_leaf: {x}.data = {y}.data", "if {x}.is_leaf: {x}.data = {x}.data * 2", "{r} = {x}.data", "{r} = {x}.data.view(-1)", "{x}.data.add_({y}.data)",
    "if {x}.is_leaf and {y}.is_leaf: {x}.data, {y}.data = {y}.data, {x}.data", "{x}.data.copy_({y})", "{x}.detach().mul_(2)", "{r} = {x}.data.requires_grad_()", "{x}.data -= 0.5 * {y}.detach()",
    "{x}.data.zero_()", "{x}.detach()[..., 0] = {c}", "{r} = {x}.detach(); {r}.add_(1)", "{r} = {x}.clone(); {r}.data.mul_(2)", "{x}.detach_()",
    "{r} = {x} * 1; {r}.data[..., -1] = 2", "{r} = {x}.data * {y}", "log.append({x}.data._version)", "{x}.data.t().add_(1)", "{x}.data.unsqueeze_(0)",
)  # fmt: skip
CUSTOM = (
    "{r} = Doubled.apply({x})", "{r} = Rounded.apply({x}, n)", "{r} = Rounded.apply({x}, 4)", "{r} = Split.apply({x}, {y})[0]", "{r} = Split.apply({x}, {y})[1]",
    "{r} = sum(Split.apply({x}, {y}))", "{r} = Alone.apply({x})", "{r} = Itself.apply({x})", "{r} = Itself.apply({x}) * 2", "{r} = Written.apply({x} * 1)",
    "{r} = Written.apply({x})", "{r} = Doubled.apply(Rounded.apply({x}, 2))", "{r} = checkpoint(Doubled.apply, {x}, use_reentrant=False)", "{r}, mask = Product.apply({x}, {y}, n)",
    "{r} = Doubled.apply({x}[0])", "{r} = Split.apply({x}, {x})[1]",
)  # fmt: skip
INFERENCE_BLOCKS = (
    ("with torch.inference_mode():",), ("with torch.inference_mode():",), ("with torch.inference_mode(flag):",), ("with torch.inference_mode(False):",),
    ("with torch.set_grad_enabled(flag):",), ("with torch.autograd.graph.save_on_cpu():",), ("with torch.random.fork_rng(devices=[]):",),
)  # fmt: skip
MORE = {
    "": (),
    "autograd": ((AUTOGRAD, 45),),
    "late": ((LATE, 60),),
    "hooks": ((HOOKS, 45), (DATA, 25), (CUSTOM, 30)),
}
"""What programs about something have beside the rest, with weights."""


def of_kind(choose: random.Random, has_net: bool, about: str = "") -> tuple[str, ...]:
    """The statements of a kind that is drawn by its weight."""
    kinds = [(EXPRESSIONS, 55), (WRITES, 14), (CREATIONS, 5), (RANDOM, 5), (EFFECTS, 9), (RAISES, 2)]
    if has_net:
        kinds.append((NETWORK, 20))
        if about == "hooks":
            kinds.append((MODULE_HOOKS, 15))
    kinds += MORE[about]
    return choose.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]


def blocks(about: str = "") -> tuple[tuple[str, ...], ...]:
    """The heads of blocks, each with those that may follow it."""
    return (*BLOCKS, *INFERENCE_BLOCKS) if about == "hooks" else BLOCKS
