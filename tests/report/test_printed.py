"""What two runs print is the same but for what rounding may change."""

from dynascope.report.printed import same_words


def test_numbers_in_words_may_differ_as_results_may():
    assert same_words("mean 0.1234567 of 3", "mean 0.1234568 of 3")
    assert not same_words("mean 0.12", "mean 0.13") and not same_words("a 1", "b 1") and not same_words("1 2", "1")


def test_counts_are_the_same_or_others():
    assert not same_words("step 100000", "step 100001") and same_words("step 12", "step 12")


def test_several_processes_print_in_any_order():
    assert same_words("rank 0\nrank 1\n", "rank 1\nrank 0\n", in_any_order=True)
    assert not same_words("rank 0\nrank 1\n", "rank 1\nrank 0\n") and not same_words("rank 0", "rank 1", in_any_order=True)
