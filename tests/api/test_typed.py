"""The package says its types: a checker sees what the names of the package are, and `py.typed` is shipped."""

from pathlib import Path

import dynascope
import dynascope_server
import typed_use


def test_the_program_that_the_checker_reads_runs():
    assert typed_use.use().shape == (2,)


def test_names_are_what_the_checker_sees():
    assert sorted(dynascope.__all__) == sorted([*dynascope._HOMES, "__version__"])
    assert all(getattr(dynascope, name) is not None for name in dynascope.__all__)


def test_the_marker_lies_in_the_packages():
    for package in (dynascope, dynascope_server):
        assert (Path(package.__file__).parent / "py.typed").exists()
