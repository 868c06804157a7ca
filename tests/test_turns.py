"""What the gate leaves to other days has its day."""

import collections
from pathlib import Path
from types import SimpleNamespace

import pytest


class Item:
    def __init__(self, nodeid, on_test=None, on_module=None):
        self.nodeid, self.own_markers = nodeid, [on_test] if on_test else []
        self.mark = on_test or on_module

    def get_closest_marker(self, name):
        return self.mark


@pytest.fixture
def shared(request):
    """The suite's conftest."""
    file = str(Path(__file__).with_name("conftest.py"))
    return next(
        plugin for plugin in request.config.pluginmanager.get_plugins() if getattr(plugin, "__file__", "") == file
    )


def test_each_case_runs_once_in_its_days_and_the_rest_always(shared, monkeypatch):
    six, three = pytest.mark.turns(6).mark, pytest.mark.turns(3).mark
    cases = [Item(f"a.py::test_matrix[{case}]", on_test=six) for case in range(8)]
    stories = [Item(f"b.py::test_{name}", on_module=three) for name in "abcd"]
    plain = [Item("a.py::test_always")]
    ran, config = collections.Counter(), SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: None))
    for day in range(739_000, 739_006):
        monkeypatch.setattr(shared, "DAY", day)
        todays = [*cases, *stories, *plain]
        shared._leave_to_other_days(config, todays)
        ran.update(item.nodeid for item in todays)
    assert {ran[item.nodeid] for item in cases} == {1} and {ran[item.nodeid] for item in stories} == {2}
    assert ran[plain[0].nodeid] == 6
