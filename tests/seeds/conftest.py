"""A backend that counts: what the seeds do with their printing backends."""

import dynascope
import pytest


class CountingBackend:
    """Keeps every graph it is given and runs it as it is."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, example_inputs):
        self.graphs.append(graph)
        return graph.forward

    @property
    def operations(self):
        return [[n.target for n in g.graph.nodes if n.op in ("call_function", "call_method")] for g in self.graphs]

    @property
    def counts(self):
        return [len(operations) for operations in self.operations]


@pytest.fixture
def backend():
    dynascope.reset()
    return CountingBackend()


@pytest.fixture
def optimize(backend):
    return dynascope.compile(backend=backend)
