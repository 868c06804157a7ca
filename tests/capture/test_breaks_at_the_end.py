"""What a function does that cannot be made again once it is over: the graph ends there, not before the function begins."""

import dynascope
import pytest
import torch


def test_what_is_changed_under_two_names_is_changed_after_a_graph():
    class Holder:
        pass

    holder = Holder()
    names = vars(holder)

    def function(x):
        y = x * 2 + 1
        holder.first = y
        names["second"] = 2
        return y

    x = torch.ones(3)
    with dynascope.expected("aliased-mutation", "foreign-value", "unsupported-attribute", required=False):
        call = dynascope.compile(function)
        for _ in range(2):
            torch.testing.assert_close(call(x), x * 2 + 1)
            assert list(names) == ["first", "second"]
            names.clear()


def test_an_error_that_was_handled_is_not_the_context_of_a_later_one():
    """The graph ends earlier, but not where the handler begins: what it handles would be current when the step is over."""

    def function(x, y, places):
        count = 1

        def counted(by):
            nonlocal count
            count = count + by
            return count

        print(end="")
        try:
            x.add_(4)
            raise KeyError
        except Exception as error:  # noqa: F841
            pass
        y * counted(2)
        return (x - x).reshape(-1)[torch.tensor([len(places), 0])], count

    with dynascope.expected("aliased-mutation", "print-call", "foreign-attribute", required=False):
        call = dynascope.compile(function)
        for _ in range(2):
            with pytest.raises(IndexError) as caught:
                call(torch.ones(3), torch.ones(3), [1, 2, 3])
            assert caught.value.__context__ is None
