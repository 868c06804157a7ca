"""`heapq` inside what is compiled: what the functions in C do, in one graph."""

import heapq

import dynascope
import pytest
import torch

X = torch.linspace(-1, 2, 4)


def searched(x):
    """A priority queue of pairs, as beam and best-first searches have it; ties are decided by what comes next in the pair."""
    queue, order = [(3.0, 0, x)], []
    for at, cost in enumerate((2.0, 5.0, 2.0, 1.0, 4.0), 1):
        heapq.heappush(queue, (cost, at, x * at))
    while queue:
        cost, at, found = heapq.heappop(queue)
        order.append((cost, at))
        x = x + found * cost
    return x, order


def replaced(x):
    best = [5, 1, 4, 2, 3]
    heapq.heapify(best)
    given = [heapq.heapreplace(best, 9), heapq.heappushpop(best, 0), heapq.heappushpop(best, 7), heapq.heappushpop([], 2)]
    return x * given[0], best, given, heapq.nsmallest(2, best), heapq.nlargest(2, best), list(heapq.merge([1, 4], [2, 3]))


def by_key(x):
    rows = [(x[at], name) for at, name in enumerate("bdac")]
    return [row for row, _ in heapq.nlargest(2, rows, key=lambda pair: pair[1])], heapq.nsmallest(3, "bdac")


def empty(x):
    found = []
    for call in (heapq.heappop, lambda heap: heapq.heapreplace(heap, 1)):
        try:
            call([])
        except IndexError as error:
            found.append(str(error))
    return x + 1, found


@pytest.mark.parametrize("program", [searched, replaced, by_key, empty])
def test_one_graph_with_pythons_order(program):
    found, expected = dynascope.compile(program, fullgraph=True)(X), program(X)
    torch.testing.assert_close(found[0], expected[0])
    assert found[1:] == expected[1:]


def test_a_heap_that_outlives_the_call():
    class Queue:
        def __init__(self):
            self.heap, self.count = [], 0

        def push(self, x, cost):
            self.count += 1
            heapq.heappush(self.heap, (cost, self.count))
            if len(self.heap) > 3:
                heapq.heappop(self.heap)
            return x * 2

    ours, theirs = Queue(), Queue()
    push = dynascope.compile(ours.push)
    for cost in (3, 1, 2, 5, 4, 0):
        assert torch.equal(push(X, cost), theirs.push(X, cost))
    assert ours.heap == theirs.heap


@pytest.mark.expects("data-dependent-branch")
def test_where_tensors_are_compared_python_does_it():
    def program(x):
        heap = [x[0]]
        heapq.heappush(heap, x[1])
        return heapq.heappop(heap) * 2

    assert torch.equal(dynascope.compile(program)(X), program(X))
