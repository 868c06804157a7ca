"""The stream of random numbers: Philox's published answers, and the same bits from compiled loops in every arrangement."""

import dynascope
import pytest
import torch
from dynascope.random_numbers.operators import draw_seed, mixed, uniform
from dynascope.random_numbers.philox import philox, uniform_at

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("counter", "seed", "words"),
    [
        ((0, 0, 0, 0), 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 4, -1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), 0x299F31D0A4093822, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_known_answers(counter, seed, words):
    assert [f"{int(word):08x}" for word in philox(counter, seed)] == words.split()


def test_numbers_are_in_range_and_places_are_64_bits():
    index = torch.tensor([0, 3, 4, 2**33, 2**34, 2**40 + 5])
    numbers = uniform_at(12345678901234567, 7, index)
    assert ((numbers >= 0) & (numbers < 1)).all()
    assert numbers.unique().numel() == len(index)


def compiled_numbers(make, *inputs):
    """What `make` gives, and the seed that it drew."""
    function = dynascope.compile(make, options={"random": "device"})
    function(*inputs)
    torch.manual_seed(5)
    result = function(*inputs)
    torch.manual_seed(5)
    return result, draw_seed(CPU)


@pytest.mark.parametrize(
    "sizes", [(), (1,), (3,), (4,), (16,), (1000,), (7, 5), (8, 6, 3), (3, 64), (2, 1, 130), (0, 4)]
)
def test_loops_make_the_reference(sizes):
    found, seed = compiled_numbers(torch.rand_like, torch.zeros(sizes))
    assert torch.equal(found, uniform(seed, 0, list(sizes), list(torch.empty(sizes).stride()), CPU))


def test_numbers_go_by_row_major_place_whatever_the_strides():
    x = torch.zeros(2, 3, 5, 7).to(memory_format=torch.channels_last)
    found, seed = compiled_numbers(torch.rand_like, x)
    assert found.stride() == x.stride()
    assert torch.equal(found, uniform_at(seed, 0, torch.arange(x.numel())).view(x.shape))
    found, seed = compiled_numbers(lambda x: torch.rand_like(x).t() + x.t() * 2, torch.zeros(37, 64))
    assert torch.equal(found.t(), uniform_at(seed, 0, torch.arange(37 * 64)).view(37, 64))


def test_numbers_inside_a_reduction_and_beside_wider_types():
    found, seed = compiled_numbers(lambda x: (torch.rand_like(x) + x).amax(1), torch.zeros(9, 50))
    assert torch.equal(found, uniform_at(seed, 0, torch.arange(450)).view(9, 50).amax(1))
    wide = torch.randn(9, 50, dtype=torch.float64)
    found, seed = compiled_numbers(lambda x: torch.rand(9, 50) * x, wide)
    assert torch.equal(found, uniform_at(seed, 0, torch.arange(450)).view(9, 50) * wide)


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("sizes", [(1000,), (7, 5)])
def test_every_width_of_vectors_makes_the_reference(monkeypatch, width, sizes):
    monkeypatch.setattr("dynascope.runtime.machine.vector_bytes", lambda: width)
    found, seed = compiled_numbers(torch.rand_like, torch.zeros(sizes))
    assert torch.equal(found, uniform(seed, 0, list(sizes), list(torch.empty(sizes).stride()), CPU))
    wide = torch.ones(sizes, dtype=torch.float64)
    found, seed = compiled_numbers(lambda x: torch.rand(sizes) * x, wide)
    assert torch.equal(found, uniform(seed, 0, list(sizes), list(torch.empty(sizes).stride()), CPU).double())


def test_each_random_tensor_has_its_own_stream():
    found, seed = compiled_numbers(lambda x: (torch.rand_like(x), torch.rand_like(x)), torch.zeros(64))
    for offset, numbers in enumerate(found):
        assert torch.equal(numbers, uniform_at(seed, offset, torch.arange(64)))


def test_neighbouring_generator_states_give_distant_seeds():
    seeds = {mixed(seed, offset) for seed in range(100) for offset in range(0, 400, 4)}
    assert len(seeds) == 10_000
    assert all(0 <= seed < 2**63 for seed in seeds)
