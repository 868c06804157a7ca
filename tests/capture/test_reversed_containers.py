"""Lists and dictionaries gone through from their end that change meanwhile, as Python's iterators see them; across breaks too."""

import collections

import dynascope
import pytest
import torch

pytestmark = pytest.mark.may_break


def item_set(x, numbers, log):
    for number in reversed(numbers):
        numbers[0] = 9
        log.append(number)


def items_taken_away(x, numbers, log):
    own = [*numbers, 7, 8]
    for number in reversed(own):
        if number == 8:
            del own[1:]
        log.append(number)


def item_inserted(x, numbers, log):
    iterator = reversed(numbers)
    log.append(next(iterator))
    numbers.insert(0, 5)
    log.extend(iterator)


def cleared(x, numbers, log):
    iterator = reversed(numbers)
    log.append(next(iterator))
    numbers.clear()
    log.extend(iterator)
    numbers += [4, 5]
    log.extend(iterator)


def longer_before(x, numbers, log):
    iterator = reversed(numbers)
    numbers.append(6)
    log.extend(iterator)


def removed(x, numbers, log):
    for number in reversed(numbers):
        if number % 2:
            numbers.remove(number)
    log.extend(numbers)


def left_by_a_break(x, numbers, log):
    iterator = reversed(numbers)
    log.append(next(iterator))
    numbers[0] = 11
    numbers.append(12)
    print(end="")
    log.append(next(iterator))
    numbers.insert(0, 13)
    log.extend(iterator)


def left_by_a_break_in_a_loop(x, numbers, log):
    own = [*numbers]
    for number in reversed(own):
        own[0] += 1
        print(end="")
        own[1] += 2
        log.append(number)


def given_back(x, numbers, log):
    iterator = reversed(numbers)
    next(iterator)
    numbers[0] = 3
    return iterator


def values_set(x, numbers, log):
    table = dict(zip("abc", numbers, strict=True))
    for value in reversed(table.values()):
        table["a"] = 9
        log.append(value)
    for pair in reversed(table.items()):
        table["b"] = 8
        log.append(pair)


def key_added(x, numbers, log):
    for table in (dict.fromkeys(numbers), collections.OrderedDict.fromkeys(numbers), {1: 2}):
        try:
            for key in reversed(table):
                table["new"] = 1
                log.append(key)
        except RuntimeError as error:
            log.append(str(error))


def key_exchanged(x, numbers, log):
    table = dict.fromkeys(numbers)
    for key in reversed(table):
        del table[numbers[0]]
        table["new"] = 1
        log.append(key)
        break


def tables_left_by_a_break(x, numbers, log):
    tables = (dict.fromkeys(numbers), collections.OrderedDict.fromkeys(numbers), dict(enumerate(numbers)).values())
    iterators = [*map(reversed, tables), reversed(dict(enumerate(numbers)).items())]
    log.extend(map(next, iterators))
    print(end="")
    log.extend(list(iterator) for iterator in iterators)


PROGRAMS = [
    item_set,
    items_taken_away,
    item_inserted,
    cleared,
    longer_before,
    removed,
    left_by_a_break,
    left_by_a_break_in_a_loop,
    given_back,
    values_set,
    key_added,
    key_exchanged,
    tables_left_by_a_break,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_a_reversed_container_gives(program):
    compiled = dynascope.compile(program, backend="eager")
    for numbers in ([1, 2, 3], [1, 2, 3], [5, 3, 4]):
        outcomes = []
        for function in (program, compiled):
            given, log = list(numbers), []
            left = function(torch.ones(2), given, log)
            outcomes.append((log, given, None if left is None else (type(left), list(left))))
        assert outcomes[0] == outcomes[1]
