"""A backend that compiles nothing and keeps what it is given: how many graphs there were, and which."""

from __future__ import annotations


def kept_in(made):
    """Each graph is appended to this list and runs as it is."""

    def keep(graph, inputs):
        made.append(graph)
        return graph.forward

    return keep
