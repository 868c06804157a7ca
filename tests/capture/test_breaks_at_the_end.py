"""What a function does that cannot be made again once it is over: the graph ends there, not before the function begins."""

import dynascope
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
