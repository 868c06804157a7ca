"""Shared by every test: strict mode, and which machines can run which tests.

    @pytest.mark.expects("print-call")        this test breaks so, and only so; that it does not is an error too
    with dynascope.expected("print-call"):    the same for a part of a test
    @pytest.mark.may_break                    this test is about results alone: it may break or not, but nothing may fail
    expected.json                             the same for many: `pytest --write-expected tests/api`, and read the difference

    @pytest.mark.turns(6)                     with DYNASCOPE_TESTS=today, as in the gate, a sixth of the cases runs, another one each day;
                                              on a module, a sixth of its tests

Programs that tests start in processes of their own are strict too, by DYNASCOPE_STRICT; `@pytest.mark.expects_in_children`
states what they may meet (they say themselves what they met).
"""

import collections
import datetime
import gc
import json
import os
import pathlib
import shutil
import signal

import pytest
from hypothesis import settings

settings.register_profile("the same each time", derandomize=True)
settings.load_profile("the same each time")  # the gate does not fail by chance
os.environ["DYNASCOPE_STRICT"] = "1"
os.environ.pop("COLUMNS", None)  # of whoever reads what the tests print, not of the programs that they start
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell; programs would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Once for all workers of a run, which may begin before midnight and after it.
DAY = int(os.environ.setdefault("DYNASCOPE_TESTS_DAY", str(datetime.date.today().toordinal())))
if os.environ.get("DYNASCOPE_TESTS_COLLECT"):  # by tests/sanitize.py
    gc.set_threshold(1)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    os.environ["DYNASCOPE_EXPECTED"] = ",".join(_stated(item, "expects_in_children"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """What this test expects, and nothing else: an error that a program swallowed is found here."""
    from dynascope.frame.versions import KNOWS_FRAMES
    from dynascope.strictness import expected

    stated = {*_stated(item, "expects"), *TABLE.get(item.nodeid, TABLE.get(item.nodeid.partition("[")[0], "")).split()}
    if item.config.getoption("write_expected"):
        with expected(*_everything(), required=False) as expectation:
            result = yield
        codes = set(expectation.happened).difference(_stated(item, "expects"), DEFECTS)
        _found[item.nodeid] = " ".join(sorted(codes))
        return result
    may_break = item.get_closest_marker("may_break") is not None
    required = not may_break and KNOWS_FRAMES
    if not KNOWS_FRAMES:  # there, what breaks for any reason is not compiled for this one
        stated.add("whole-functions-only")
    with expected(*(_everything() if may_break else stated), required=required) as expectation:
        result = yield
    if expectation.unexpected:
        pytest.fail("\n".join(f"[{each.code}] {each.message} at {each.span}" for each in expectation.unexpected))
    return result


def _stated(item, marker):
    return sorted({code for mark in item.iter_markers(marker) for code in mark.args})


def pytest_addoption(parser):
    parser.addoption("--write-expected", action="store_true", help="write tests/expected.json as these tests are now")


DEFECTS = ("internal-failure", "engine-error", "guard-raises", "guard-fails-at-once", "kernel-generation-failed",
           "compilation-failed")  # fmt: skip
"""What no test may come to expect by `--write-expected`."""
FILE = pathlib.Path(__file__).with_name("expected.json")
TABLE = json.loads(FILE.read_text())
_found = {}


def _everything():
    from dynascope.command.explain import codes

    return set(codes()).difference(DEFECTS)


def pytest_sessionfinish(session):
    """One line for a test with parameters where all of them meet the same."""
    if not _found:
        return
    tests = {}
    for name, codes in _found.items():
        tests.setdefault(name.partition("[")[0], {})[name] = codes
    table = {name: codes for name, codes in TABLE.items() if name.partition("[")[0] not in tests}
    for test, cases in tests.items():
        alike = len(set(cases.values())) == 1
        table |= {test: next(iter(cases.values()))} if alike else cases
    FILE.write_text(json.dumps({name: codes for name, codes in sorted(table.items()) if codes}, indent=1) + "\n")


def pytest_collection_modifyitems(config, items):
    if os.environ.get("DYNASCOPE_TESTS") == "today":
        _leave_to_other_days(config, items)
    for item in items:
        if item.get_closest_marker("gpu") and not _has_cuda():
            item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine; run it on the GPU machine"))
        if item.get_closest_marker("compiler") and not (shutil.which("cc") or shutil.which("gcc")):
            item.add_marker(pytest.mark.skip(reason="no C compiler on this machine"))


def _leave_to_other_days(config, items):
    """Of each test its cases take turns, of a module with the mark its tests."""
    counts, todays, left = collections.Counter(), [], []
    for item in items:
        mark = item.get_closest_marker("turns")
        if mark is None:
            todays.append(item)
            continue
        of_the_test = mark in item.own_markers
        among = item.nodeid.partition("[" if of_the_test else "::")[0]
        (todays if (counts[among] + DAY) % mark.args[0] == 0 else left).append(item)
        counts[among] += 1
    items[:] = todays
    config.hook.pytest_deselected(items=left)


def _has_cuda():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


@pytest.fixture
def compilations(monkeypatch):
    """What each compilation of the test made, in order."""
    from dynascope import pipeline

    made, compile_one = [], pipeline._compile

    def counted(*arguments):
        made.append(compile_one(*arguments))
        return made[-1]

    monkeypatch.setattr(pipeline, "_compile", counted)
    return made
