"""The tests of this folder give the hook a values type of their own; other folders' tests need the engine's."""

import sys

import pytest
from dynascope.frame import hook


@pytest.fixture(autouse=True)
def values_of_the_engine_afterwards():
    yield
    source = sys.modules.get("dynascope.guards.source")
    if source is not None:
        hook.use_values(source.FrameValues)
