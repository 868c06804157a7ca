"""What is taken back is as it was: random steps of a journal's, undone from any mark."""

import copy
import inspect
import random
import types

import pytest
from dynascope.capture.journal import Journal

KEYS = ("a", "b", "c")


def state():
    return types.SimpleNamespace(number=0, items=[1, 2], table={"a": 1})


def step(journal, held, choose):
    """One change of each kind that a journal knows, or of the program's own."""
    value = choose.randrange(100)
    match choose.randrange(6):
        case 0:
            journal.set(held, "number", value)
        case 1:
            journal.set(held, "items", [*held.items, value][-3:])
        case 2:
            journal.set_item(held.table, choose.choice(KEYS), value)
        case 3:
            journal.append(held.items, value)
        case 4:
            held.number += value
            journal.record(lambda: setattr(held, "number", held.number - value))
        case 5 if held.table:
            journal.pop_item(held.table, choose.choice([*held.table]))


@pytest.mark.parametrize("seed", range(20))
def test_a_rollback_leaves_what_was_there_at_its_mark(seed):
    choose, journal, held = random.Random(seed), Journal(), state()
    marks = []
    for _ in range(30):
        if choose.random() < 0.3:
            marks.append((journal.mark(), copy.deepcopy(held)))
        elif marks and choose.random() < 0.3:
            del marks[choose.randrange(len(marks)) + 1 :]
            mark, was = marks.pop()
            journal.rollback(mark)
            assert held == was and [*held.table] == [*was.table]
        else:
            step(journal, held, choose)
    journal.rollback(0)
    assert held == state()


def test_what_is_forgotten_stays():
    journal, held = Journal(), state()
    journal.set(held, "number", 5)
    journal.forget()
    journal.set(held, "number", 6)
    journal.rollback(0)
    assert held.number == 5


def test_every_kind_of_change_is_tried_here():
    changes = {name for name, _ in inspect.getmembers(Journal, inspect.isfunction) if not name.startswith("_")}
    assert changes == {"mark", "rollback", "forget", "record", "set", "set_item", "pop_item", "append"}
