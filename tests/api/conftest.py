"""What tests of several calls share."""

import pytest
from dynascope import pipeline


@pytest.fixture
def compilations(monkeypatch):
    """What each compilation of the test made, in order."""
    made, compile_one = [], pipeline._compile

    def counted(*arguments):
        made.append(compile_one(*arguments))
        return made[-1]

    monkeypatch.setattr(pipeline, "_compile", counted)
    return made
