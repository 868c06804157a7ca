"""A device that this process does not have: eager raises there, when all before it was done, once."""

import dynascope
import pytest
import torch

MISSING = "cuda:99"
WAYS = {
    "to": lambda x: x.to(MISSING),
    "by its index": lambda x: x.cuda(99),
    "by its index alone": lambda x: x.to(99),
    "a factory": lambda x: torch.zeros(2, device=MISSING),
    "a factory by its index": lambda x: torch.zeros(2, device=99),
    "like another": lambda x: torch.empty_like(x, device=MISSING),
    "numbers": lambda x: torch.tensor([1.0, 2.0], device=MISSING),
    "a new one": lambda x: x.new_zeros(2, device=MISSING),
}


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_comes_before_it_is_done_once(way, backend):
    def function(x, log):
        x.add_(1)
        log.append("before")
        way(x)
        log.append("after")

    seen = []
    for each in (function, dynascope.compile(function, backend=backend)):
        x, log = torch.ones(2), []
        with pytest.raises((RuntimeError, AssertionError)) as raised:
            each(x, log)
        seen.append((x.tolist(), log, type(raised.value), str(raised.value)))
    assert seen[0] == seen[1]


@pytest.mark.expects("tensor-attribute")
@pytest.mark.parametrize("make", [torch.empty, torch.zeros, lambda *given, **told: torch.ones(1).new_empty(*given, **told)])
def test_pinned_memory_is_left_to_python(make):
    """No memory that a graph makes is pinned. Without a device that could read it, eager raises."""

    def function(x, is_pinned):
        host = make(3, pin_memory=is_pinned)
        return host.copy_(x * 2)

    def outcome(call, is_pinned):
        try:
            return call(torch.arange(3.0), is_pinned).is_pinned()
        except RuntimeError as error:
            return str(error)

    for is_pinned in (False, True):
        assert outcome(dynascope.compile(function), is_pinned) == outcome(function, is_pinned)
