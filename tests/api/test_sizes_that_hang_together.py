"""Sizes that a program runs with others of only together: rows times columns, twice as many, every second."""

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope import recording


def windows(x, h, w):
    assert x.shape[1] == h * w
    x = F.pad(x.view(x.shape[0], h, w, -1), (0, 0, 0, w % 2, 0, h % 2))
    return x[:, 0::2, 0::2] + x[:, 1::2, 1::2]


def image(x, size):
    return F.avg_pool2d(x.transpose(1, 2).reshape(x.shape[0], -1, *size), 2).flatten(2)


def pooled(x, h, w):
    """How many windows there are is the product of two quotients, asked for by who takes keys and values apart."""
    y = F.avg_pool2d(x.transpose(1, 2).reshape(x.shape[0], -1, h, w), 2)
    keys, values = y.reshape(x.shape[0], 2, 3, -1).permute(1, 0, 3, 2)
    return (x[..., :3] @ keys.mT).softmax(-1) @ values


def twice(x, k):
    return x.expand(2, -1, -1).reshape(k, 5)


def beside_twice(x, y):
    return x.repeat(2, 1) + y


def every_second(x, y):
    return x[::2] * y


def skipped(x, y):
    return torch.cat([x, F.interpolate(y, scale_factor=2)], 1), F.max_pool2d(x, 2) + y


def packed(x, lengths):
    return torch.stack([part.mean(0) for part in x.split(lengths)])


def batched(x, batch, length):
    return x.reshape(batch, length, 6).softmax(1)


def local(x, width):
    """Attention within windows, of which there are as many as fit."""
    y = x.view(x.shape[0], x.shape[1] // width, width, 6)
    return (y @ y.mT).softmax(-1).sum(-1).reshape(x.shape[0], x.shape[1])


def shifted_windows(x, side):
    b, h, w, c = x.shape
    y = x.roll((-1, -1), (1, 2)).view(b, h // side, side, w // side, side, c).transpose(2, 3).reshape(-1, side * side, c)
    return (y @ y.mT).softmax(-1).view(b, h // side, w // side, -1)


def filled(x, start):
    """Parts of a prompt that are put into a cache one after the other."""
    cache = torch.zeros(1, 32, 5)
    cache[:, start : start + x.shape[1]] = x
    return (x @ cache[:, : start + x.shape[1]].mT).softmax(-1)


def halves(x, half):
    return torch.cat([x[:half] * x[half : 2 * half], x[half - 1 :: half][:1]])


def rows(*sizes):
    return torch.rand(*sizes, generator=torch.Generator().manual_seed(sum(sizes)), requires_grad=True)


IMAGES = ((2, 4, 4), (2, 5, 4), (3, 6, 7), (4, 9, 10), (2, 3, 12), (5, 8, 2))
LENGTHS = (16, 20, 33, 64, 101, 8)
PROGRAMS = {
    windows: ([(rows(b, h * w, 6), h, w) for b, h, w in IMAGES], 4),
    image: ([(rows(b, h * w, 6), (h, w)) for b, h, w in IMAGES], 4),
    pooled: ([(rows(b, h * w, 6), h, w) for b, h, w in IMAGES], 4),
    twice: ([(rows(n, 5), 2 * n) for n in LENGTHS], 2),
    beside_twice: ([(rows(n, 5), rows(2 * n, 5)) for n in LENGTHS], 2),
    every_second: ([(rows(n, 5), rows((n + 1) // 2, 5)) for n in LENGTHS], 3),
    skipped: ([(rows(1, 4, 2 * h, 2 * w), rows(1, 4, h, w)) for _, h, w in IMAGES], 3),
    packed: ([(rows(a + b, 6), [a, b]) for a, b in ((3, 4), (5, 8), (6, 9), (11, 2), (20, 30))], 3),
    local: ([(rows(2, t, 6), w) for t, w in ((16, 4), (24, 4), (30, 5), (36, 6), (64, 8), (20, 2))], 3),
    shifted_windows: ([(rows(b, h, w, 6), s) for b, h, w, s in ((1, 8, 8, 4), (1, 12, 8, 4), (2, 12, 12, 6), (2, 6, 9, 3))], 4),
    filled: ([(rows(1, n, 5), start) for n, start in ((4, 2), (4, 4), (6, 8), (3, 14), (5, 17), (2, 30))], 3),
    halves: ([(rows(n, 5), n // 2) for n in (6, 8, 10, 15, 22, 41)], 2),
    batched: ([(rows(b * t, 6), b, t) for b, t in ((2, 4), (3, 5), (4, 7), (6, 2), (9, 8))], 3),
}


@pytest.mark.turns(6)
@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_compilation_serves_them(program, backend, compilations):  # noqa: F811
    calls, most = PROGRAMS[program]
    compiled = dynascope.compile(program, backend=backend)
    for arguments in calls:
        tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
        ours, wanted = compiled(*arguments), program(*arguments)
        torch.testing.assert_close(ours, wanted)
        of_ours, of_wanted = (result[0] if isinstance(result, tuple) else result for result in (ours, wanted))
        torch.testing.assert_close(
            torch.autograd.grad(of_ours.square().sum(), tensors, allow_unused=True),
            torch.autograd.grad(of_wanted.square().sum(), tensors, allow_unused=True),
        )
    assert len(compilations) <= most


def test_what_no_longer_hangs_together_is_asked_for(compilations):  # noqa: F811
    """A guard says what the guess relied on."""

    def program(x, k):
        return x.reshape(k, -1).sum(1) if x.shape[0] % k == 0 else x[:k]

    compiled = dynascope.compile(program, backend="eager")
    for n, k in ((16, 8), (20, 10), (30, 15), (30, 5), (30, 7), (12, 6), (12, 4)):
        x = rows(n, 5)
        torch.testing.assert_close(compiled(x, k), program(x, k))


def test_what_is_beyond_the_end_or_does_not_divide_is_eagers_error():
    for program, calls, last in ((local, PROGRAMS[local][0], (rows(2, 30, 6), 4)), (filled, PROGRAMS[filled][0], (rows(1, 5, 5), 28))):
        compiled = dynascope.compile(program, backend="eager")
        for arguments in calls:
            compiled(*arguments)
        with pytest.raises(RuntimeError) as wanted:
            program(*last)
        with pytest.raises(RuntimeError) as found:
            compiled(*last)
        assert str(found.value) == str(wanted.value)


def test_an_error_is_eagers_where_they_do_not_fit():
    compiled = dynascope.compile(twice, backend="eager")
    for n in (16, 20, 30):
        compiled(rows(n, 5), 2 * n)
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        compiled(rows(30, 5), 61)


def test_a_part_of_an_argument_that_is_no_longer_there(compilations):  # noqa: F811
    """What a number was tied to at an earlier call is looked for with guards, and may be gone."""

    def program(x, sizes):
        return x.view(*sizes, 5).sum(-2) if len(sizes) > 1 else x * sizes[0]

    compiled = dynascope.compile(program, backend="eager")
    for sizes in ([2, 3], [4, 5], [3, 7], [6], [9], [2, 8], [4]):
        rows_of_all = sizes[0] * sizes[1] if len(sizes) > 1 else sizes[0]
        x = rows(rows_of_all, 5)
        torch.testing.assert_close(compiled(x, sizes), program(x, sizes))


def test_an_argument_that_the_program_comes_to_later_keeps_its_guards():
    def program(x, rows_of, columns):
        y = x.view(-1, x.shape[1])
        return y.reshape(rows_of, columns, 5) * 1 if x.sum().dim() == 0 else y

    compiled = dynascope.compile(program, backend="eager")
    for h, w in ((2, 3), (4, 5), (3, 7), (6, 2)):
        torch.testing.assert_close(compiled(rows(h * w, 5), h, w), program(rows(h * w, 5), h, w))
    with pytest.raises(TypeError):
        compiled(rows(6, 5), 2.0, 3)


class Cache:
    keys = None


class Layers:
    def __init__(self):
        self.layers = [Cache()]


def decode(x, mask, cache):
    """One is met before the other is, and at the first call the cache is empty."""
    length = x.shape[0] + (cache.keys.shape[0] if cache.keys is not None else 0)
    if mask.shape[0] > length:
        mask = mask[:length]
    if length - mask.shape[0] > 0:
        mask = torch.nn.functional.pad(mask, (0, length - mask.shape[0]))
    cache.keys = x if cache.keys is None else torch.cat([cache.keys, x])
    return (cache.keys * mask[:, None]).sum(0)


def decode_inside(x, mask, model):
    mask = mask.cumsum(0) if mask.shape[0] < 1000 else mask
    return decode(x, mask, model.layers[0])


@pytest.mark.parametrize(("function", "made"), [(decode, Cache), (decode_inside, Layers)])
def test_a_mask_and_a_cache_that_was_empty_at_first(function, made):
    """Each token of a model that generates was compiled by itself."""
    call = dynascope.compile(function, fullgraph=True)
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        plain, given = made(), made()
        for turn in range(8):
            rows = 12 if turn == 0 else 1
            x, mask = torch.full((rows, 4), turn + 1.0), torch.ones(12 + turn)
            assert torch.equal(call(x, mask, given), function(x, mask, plain))
    finally:
        recording.use(before)
    assert len(recorder.report().graphs) <= 3
