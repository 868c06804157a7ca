"""torch's own operator database through our kernels: every sample's values, types, sizes, strides and first gradients.

python tests/differential/operator_database.py --samples 3 --dtype float32        prints a count and each failure
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import sys
import time
import warnings

import dynascope
import torch
from comparing import REASONS, assert_same, clone_all, leaves, no_defects, observe

RANDOM = frozenset(
    [
        "bernoulli",
        "cauchy",
        "dropout",
        "exponential",
        "geometric",
        "log_normal",
        "multinomial",
        "normal",
        "rand",
        "randint",
        "randn",
        "uniform",
        "rrelu",
    ]
)
"""Operators whose results are only comparable under one seed, drawn in one order."""


def operators(dtype: torch.dtype, names: frozenset[str] | None = None):
    from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db:
        if dtype in info.supported_dtypes("cpu") and (names is None or info.name in names):
            yield info


def _changed(change):
    """The sample with each of its strided tensors laid out otherwise."""

    def change_leaf(leaf):
        if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided:
            return leaf
        return change(leaf.detach()).requires_grad_(leaf.requires_grad)

    return lambda sample: sample.transform(change_leaf)


def _repeated(tensor: torch.Tensor) -> torch.Tensor:
    """The first place of the last dimension everywhere: stride 0."""
    return tensor.narrow(-1, 0, 1).expand(tensor.shape) if tensor.dim() and tensor.shape[-1] > 1 else tensor


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    like = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim(), torch.contiguous_format)
    return tensor.contiguous(memory_format=like)


VARIANTS = {
    "plain": lambda sample: sample,
    "transposed": _changed(lambda t: t.mT.contiguous().mT if t.dim() > 1 else t),
    "holes": _changed(lambda t: torch.stack([t, t], -1)[..., 0]),
    "repeated": _changed(_repeated),
    "channels-last": _changed(_channels_last),
}


def check_operator(
    info, dtype: torch.dtype, samples: int, backend: str = "dynascope", variant: str = "plain", autocast: bool = False
) -> int:
    """Compare the first samples; returns how many. Raises `AssertionError` where they differ."""
    count = 0
    gradient = info.supports_autograd and dtype.is_floating_point
    for sample in info.sample_inputs("cpu", dtype, requires_grad=gradient):
        if count >= samples:
            break
        count += 1
        check_sample(info.op, VARIANTS[variant](sample), backend, autocast)
    return count


def check_sample(operator, sample, backend: str, autocast: bool = False) -> None:
    def function(input, *args, **kwargs):
        return operator(input, *args, **kwargs)

    arguments, keywords = (sample.input, *sample.args), sample.kwargs
    if not all(leaf.is_leaf for leaf in leaves((arguments, keywords))):
        arguments, keywords = clone_all((arguments, keywords))
    dynascope.reset()
    compiled = dynascope.compile(function, backend=backend)

    def under_autocast(called):
        """The forward call alone, as programs do it."""

        def call(*args, **kwargs):
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                return called(*args, **kwargs)

        return call

    theirs = observe(under_autocast(function), arguments, keywords)
    with no_defects():
        for _ in range(2):
            assert_same(observe(under_autocast(compiled), arguments, keywords), theirs)


SIZES = ((20, 10, 5, 3), (23, 11, 7, 4), (26, 13, 8, 2))
"""What the database's samples are made of (its L, M, S, XS), once as it has them, then otherwise."""


@contextlib.contextmanager
def samples_of(sizes: tuple[int, ...]):
    """The database makes its samples of other sizes."""
    changed = []
    for name, module in list(sys.modules.items()):
        for letter, size, usual in zip(("L", "M", "S", "XS"), sizes, SIZES[0], strict=True):
            if name.startswith("torch.testing._internal") and vars(module).get(letter) == usual:
                changed.append((module, letter, usual))
                setattr(module, letter, size)
    try:
        yield
    finally:
        for module, letter, usual in changed:
            setattr(module, letter, usual)


def check_operator_at_sizes(info, dtype: torch.dtype, samples: int, backend: str = "dynascope") -> int:
    """Compare the first samples, each at several sizes through one compiled function, whose later entries are symbolic."""
    gradient = info.supports_autograd and dtype.is_floating_point
    rows = []
    for sizes in SIZES:
        with samples_of(sizes):
            rows.append([s for s, _ in zip(info.sample_inputs("cpu", dtype, requires_grad=gradient), range(samples))])  # noqa: B905
    for alike in zip(*rows, strict=False):

        def function(input, *args, **kwargs):
            return info.op(input, *args, **kwargs)

        dynascope.reset()
        compiled = dynascope.compile(function, backend=backend)
        for sample in (*alike, alike[0], alike[2]):
            arguments, keywords = clone_all(((sample.input, *sample.args), sample.kwargs))
            theirs = observe(function, arguments, keywords)
            with no_defects():
                assert_same(observe(compiled, arguments, keywords), theirs)
    return len(rows[0])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--backend", default="dynascope")
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", action="store_true", help="each sample at three sizes through one compiled function")
    parser.add_argument("--autocast", action="store_true", help="run everything under autocast to bfloat16")
    parser.add_argument("--variant", default="plain", choices=list(VARIANTS))
    parser.add_argument("--part", default="0/1", help="i/n: every n-th operator from the i-th")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    dtype = getattr(torch, options.dtype)
    part, parts = map(int, options.part.split("/"))
    names = frozenset(options.only.split(",")) if options.only else None
    start, samples, failures = time.time(), 0, collections.OrderedDict()
    infos = list(operators(dtype, names))[part::parts]
    for info in infos:
        name = f"{info.name}.{info.variant_test_name}".rstrip(".")
        try:
            if options.sizes:
                samples += check_operator_at_sizes(info, dtype, options.samples, options.backend)
                continue
            samples += check_operator(info, dtype, options.samples, options.backend, options.variant, options.autocast)
        except Exception as error:
            failures[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
            print(f"{name}: {failures[name]}", flush=True)
    print(", ".join(f"{code} {count}" for code, count in REASONS.most_common()))
    print(
        f"{options.dtype}: {len(infos)} operators, {samples} samples, {len(failures)} operators failed, {time.time() - start:.0f} s"
    )
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
