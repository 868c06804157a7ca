"""A mask is one longer than the cache that it is for: neither can vary by itself, and both do together."""

import dynascope
import pytest
import torch

NEW = torch.rand(2, 1, 4, generator=torch.Generator().manual_seed(0))


def attending(cache, mask):
    keys = torch.cat([cache, NEW], 1)
    return torch.softmax(NEW @ keys.transpose(1, 2) + mask, -1) @ keys, keys


def several(mask, cache, other):
    """Another cache of the same length, and a mask that comes first."""
    result, keys = attending(cache, mask)
    return result + attending(other, mask)[0], keys, keys.shape[1], mask.shape[-1] - cache.shape[1]


def at(length, offset=1, rows=2):
    generator = torch.Generator().manual_seed(length)
    cache = torch.rand(rows, length, 4, generator=generator)
    return cache, torch.rand(rows, 1, length + offset, generator=generator)


BACKENDS = ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cache_and_its_mask(backend, compilations):  # noqa: F811
    compiled = dynascope.compile(attending, backend=backend)
    for length in (5, 6, 7, 8, 20, 3, 2):
        torch.testing.assert_close(compiled(*at(length)), attending(*at(length)))
    assert len(compilations) == 2
    with pytest.raises(RuntimeError, match="size of tensor"):
        compiled(*at(9, offset=3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_caches(backend, compilations):  # noqa: F811
    compiled = dynascope.compile(several, backend=backend)
    for length in (5, 6, 9, 4):
        (cache, mask), (other, _) = at(length), at(length)
        torch.testing.assert_close(compiled(mask, cache, other), several(mask, cache, other))
    assert len(compilations) == 2


class Cache:
    def __init__(self):
        self.keys = None

    def __len__(self):
        return 0 if self.keys is None else self.keys.shape[1]

    def update(self, keys):
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys], 1)
        return self.keys


def test_the_length_of_an_object_that_holds_a_tensor(compilations):  # noqa: F811
    def step(new, cache):
        keys = cache.update(new)
        mask = torch.ones(new.shape[1], len(cache)).tril(len(cache) - new.shape[1])
        return (new @ keys.transpose(1, 2)) * mask, len(cache), bool(cache)

    compiled = dynascope.compile(step, backend="eager")
    ours, theirs = Cache(), Cache()
    for length in (3, 1, 1, 1, 1, 1, 1):
        new = torch.rand(1, length, 4)
        torch.testing.assert_close(compiled(new, ours), step(new, theirs))
    assert len(compilations) == 3


def test_a_cache_of_one_element_is_a_case_of_its_own(compilations):  # noqa: F811
    compiled = dynascope.compile(attending, backend="eager")
    for length in (4, 5, 1, 0, 6):
        torch.testing.assert_close(compiled(*at(length)), attending(*at(length)))
    assert len(compilations) == 4


def test_a_mask_of_one_column_and_then_of_all(compilations):  # noqa: F811
    """What they differ by is no longer the same: then each is asked by itself."""
    compiled = dynascope.compile(attending, backend="eager")
    for length in (5, 6, 7):
        torch.testing.assert_close(compiled(*at(length)), attending(*at(length)))
    for length in (5, 6, 7, 8):
        cache, mask = at(length)
        torch.testing.assert_close(compiled(cache, mask[..., :1]), attending(cache, mask[..., :1]))
    assert len(compilations) <= 4


def test_sizes_that_each_can_be_another_are_not_tied(compilations):  # noqa: F811
    def program(x, y):
        return x.sum(0) + y.sum(0)

    compiled = dynascope.compile(program, backend="eager")
    for left, right in ((3, 4), (4, 5), (9, 5), (5, 20)):
        x, y = torch.rand(left, 4), torch.rand(right, 4)
        torch.testing.assert_close(compiled(x, y), program(x, y))
    assert len(compilations) == 2
