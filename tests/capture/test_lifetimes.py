"""What a local holds lives until the function ends, breaks or not: finalisers and weak references can tell."""

import tempfile
import weakref
from pathlib import Path

import dynascope
import pytest
import torch
from test_outside_protocols import assert_same

pytestmark = pytest.mark.may_break


class Owner:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("gone")


class Watcher:
    pass


watchers = weakref.WeakSet()


def a_folder_for_the_time_of_the_call(x):
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name)
    y = x * 2
    print("saving")
    torch.save(y + 1, path / "y.pt")
    return torch.load(path / "y.pt")


def an_object_that_says_when_it_ends(x):
    log = []
    owner = Owner(log)  # noqa: F841
    y = x * 2
    print("first")
    y = y + 1
    print("second")
    return y + len(log)


def owners_in_a_list(x):
    log = []
    owners = [Owner(log)]
    print("first")
    owners.append(Owner(log))
    y = x * 2
    print("second")
    return y + len(log)


def one_that_is_deleted_before_a_break(x):
    log = []
    owner = Owner(log)
    y = x * 2
    print("first")
    del owner
    print("second")
    return y + len(log)


def one_that_says_when_between_two_effects(x):
    log = []
    owner = Owner(log)
    y = x * 2
    del owner
    log.append("after")
    return y + log.index("after")


def names_given_to_others(x):
    log = []
    owner = Owner(log)
    log.append("first")
    owner = Owner(log)
    log.append("second")
    one, other = owner, Owner(log)
    owner = None
    one, other = other, one
    log.append("third")
    one = other
    log.append("fourth")
    return x * 2, log


def one_of_each_turn(x):
    log = []
    for turn in range(3):
        owner = Owner(log)  # noqa: F841
        log.append(turn)
    return x * 2, log


def one_that_weak_references_watch(x):
    log = []
    watched = Watcher()
    weakref.finalize(watched, log.append, "finalized")
    reference = weakref.ref(watched, lambda dead: log.append("called"))
    y = x * 2
    log.append("first")
    watched = None
    log.append("second")
    return y, log, reference()


def one_that_is_known_by_a_weak_set_alone(x):
    watcher = Watcher()
    watchers.add(watcher)
    y = x * 2
    print("first")
    return y + len(watchers)


def one_that_an_inner_function_adds(x):
    def add(each):
        watchers.add(each)
        return x + 1

    watcher = Watcher()
    y = add(watcher)
    print("first")
    return y + len(watchers)


FUNCTIONS = [
    a_folder_for_the_time_of_the_call,
    an_object_that_says_when_it_ends,
    owners_in_a_list,
    one_that_is_deleted_before_a_break,
    one_that_says_when_between_two_effects,
    names_given_to_others,
    one_of_each_turn,
    one_that_weak_references_watch,
    one_that_is_known_by_a_weak_set_alone,
    one_that_an_inner_function_adds,
]


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_it_lives_as_long_as_in_python(function, backend):
    compiled = dynascope.compile(function, backend=backend)
    for x in (torch.ones(2), torch.full((2,), 3.0)):
        assert_same(compiled(x), function(x))


def test_a_tensor_that_nothing_reads_is_let_go():
    ends = []

    def function(x):
        y = x * 2
        weakref.finalize(y, ends.append, "y")
        z = y + 1
        print("first")
        ends.append("break")
        return z

    dynascope.compile(function, backend="eager")(torch.ones(2))
    assert sorted(ends) == ["break", "y"]
