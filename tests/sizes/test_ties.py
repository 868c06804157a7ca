"""What numbers are guessed to hang together by, from how they were at the calls so far."""

from __future__ import annotations

import pytest
from dynascope.sizes.ties import Tie, ties
from hypothesis import given
from hypothesis import strategies as st

FOUND = {
    "a mask is one longer than the cache": ({"cache": (5, 6), "mask": (6, 7)}, {"mask": Tie(("cache",), offset=1)}),
    "seen once, near": ({"cache": (5,), "mask": (6,)}, {"mask": Tie(("cache",), offset=1)}),
    "seen once, far": ({"n": (16,), "k": (32,)}, {"k": Tie(("n",), 2)}),
    "twice as many": ({"n": (16, 20), "k": (32, 40)}, {"k": Tie(("n",), 2)}),
    "rows times columns": ({"h": (4, 5), "w": (4, 6), "l": (16, 30)}, {"l": Tie(("w", "h"))}),
    "a square": ({"n": (4, 7), "l": (16, 49)}, {"l": Tie(("n", "n"))}),
    "two parts": ({"a": (3, 5), "b": (4, 9), "l": (7, 14)}, {"l": Tie(("b", "a"), is_sum=True)}),
    "every second": ({"n": (17, 22), "m": (9, 11)}, {"m": Tie(("n",), offset=1, divisor=2)}),
    "what is left over": ({"n": (20, 50), "m": (7, 37)}, {"n": Tie(("m",), offset=13)}),
    "a number and itself": ({"n": (3, 4), "m": (11, 7)}, {}),
}


@pytest.mark.parametrize(("rows", "wanted"), FOUND.values(), ids=FOUND)
def test_what_is_found(rows, wanted):
    assert ties(rows, rows.keys()) == wanted


def test_others_are_tied_by_products_and_sums_alone_and_to_what_is_needed():
    rows = {"needed": (4, 5), "other": (8, 10), "half": (2, 2), "far": (24, 30)}
    assert ties(rows, {"needed"}) == {"other": Tie(("needed",), 2), "far": Tie(("needed",), 6)}


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(*[st.integers(-3, 40)] * 2), min_size=2), st.data())
def test_ties_give_what_was_seen_and_go_round_nowhere(rows, data):
    needed = data.draw(st.sets(st.sampled_from(sorted(rows)), min_size=1))
    found = ties(rows, needed)
    assert not {key for tie in found.values() for key in tie.keys} & found.keys()
    for key, tie in found.items():
        assert rows[key] == tuple(tie.of(values) for values in zip(*(rows[each] for each in tie.keys), strict=True))
        assert key in needed or needed & {*tie.keys}
