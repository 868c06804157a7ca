"""Words of what a program prints: those that differ between two runs of it say nothing about an edit."""

from dynascope.proving.printed import are_alike, unsteady_words

FIRST, SECOND = b"loss 0.25 in 1.3 s\ndone\n", b"loss 0.25 in 1.4 s\ndone\n"


def test_a_time_is_another_in_every_run():
    unsteady = unsteady_words(FIRST, SECOND)
    assert unsteady == {(0, 3)}
    assert are_alike(FIRST, b"loss 0.25 in 2.0 s\ndone\n", unsteady)
    assert not are_alike(FIRST, b"loss 0.26 in 1.3 s\ndone\n", unsteady)
    assert not are_alike(FIRST, b"loss 0.25 in 1.3 s\n", unsteady)


def test_runs_that_print_alike_are_compared_letter_by_letter():
    assert unsteady_words(FIRST, FIRST) == frozenset()
    assert not are_alike(b"a b", b"a  b", frozenset())
    assert unsteady_words(b"a\n", b"a b\n") is None
