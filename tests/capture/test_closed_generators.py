"""Generators that are closed, or thrown into, while they wait; also where they wait for another one (`yield from`)."""

import collections.abc

import dynascope
import pytest
import torch


def says_what_it_does(x, seen):
    try:
        yield x + 1
        yield x + 2
    except ValueError:
        seen.append("caught")
        yield x + 5
    finally:
        seen.append("closed")


def delegates(x, seen):
    try:
        yield from says_what_it_does(x, seen)
    except GeneratorExit:
        seen.append("told")
        raise
    finally:
        seen.append("outer")


def delegates_to_a_list(x, seen):
    try:
        yield from [x, x + 1]
    except ValueError:
        seen.append("caught")
    yield x + 8


def answers(x, seen):
    try:
        yield x
    except GeneratorExit:
        return 7


def ignores(x, seen):
    try:
        yield x
    except GeneratorExit:
        yield x + 1


def fails(x, seen):
    try:
        yield x
    finally:
        seen.append(1 // 0)


GENERATORS = [says_what_it_does, delegates, delegates_to_a_list, answers, ignores, fails]


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("begins", [False, True])
def test_closed(generator, begins):
    def program(x):
        seen = []
        waiting = generator(x, seen)
        y = next(waiting) if begins else x
        seen.append("before")
        try:
            seen.append(waiting.close())
        except (RuntimeError, ZeroDivisionError) as error:
            seen.append(str(error))
        return y + 1, seen, list(waiting)

    compiled = dynascope.compile(program, fullgraph=True)
    assert str(compiled(torch.ones(2))) == str(program(torch.ones(2)))


@pytest.mark.parametrize("generator", [says_what_it_does, delegates, delegates_to_a_list])
def test_thrown_into(generator):
    def program(x):
        seen = []
        waiting = generator(x, seen)
        next(waiting)
        y = waiting.throw(ValueError("now"))
        seen.append("after")
        waiting.close()
        return y * 2, seen

    compiled = dynascope.compile(program, fullgraph=True)
    assert str(compiled(torch.ones(2))) == str(program(torch.ones(2)))


@pytest.mark.may_break
def test_an_inner_one_that_ends_by_what_is_thrown():
    def inner(x):
        try:
            yield x
        except ValueError:
            return 3

    def outer(x):
        yield x * (yield from inner(x))

    def program(x):
        waiting = outer(x)
        next(waiting)
        return waiting.throw(ValueError) + 1

    torch.testing.assert_close(dynascope.compile(program)(torch.ones(2)), program(torch.ones(2)))


class CountsTo:
    """An iterator whose end tells something."""

    def __init__(self, last):
        self.at, self.last = 0, last

    def __iter__(self):
        return self

    def __next__(self):
        self.at += 1
        if self.at > self.last:
            raise StopIteration(self.at * 7)
        return self.at


def returns(x):
    yield x
    return x * 3


def returns_at_once(x):
    return (x, 2)
    yield


def delegates_to_an_iterator(x):
    told = yield from CountsTo(1)
    return told


def returns_when_thrown_into(x):
    try:
        yield x
    except ValueError:
        return 5


@pytest.mark.parametrize("make", [returns, returns_at_once, delegates_to_an_iterator, lambda x: CountsTo(2)])
def test_the_end_tells_what_was_returned(make):
    """Once, by `next` and by `send`: an ended generator has nothing more to tell."""

    def program(x):
        waiting, seen = make(x), []
        for turn in range(4):
            try:
                seen.append(waiting.send(None) if turn == 1 and hasattr(waiting, "send") else next(waiting))
            except StopIteration as end:
                seen.append((end.value, end.args))
        return x + 1, seen

    compiled = dynascope.compile(program, fullgraph=True)
    assert str(compiled(torch.ones(2))) == str(program(torch.ones(2)))


def test_the_end_after_a_throw_tells_what_was_returned():
    def program(x):
        waiting = returns_when_thrown_into(x)
        next(waiting)
        try:
            waiting.throw(ValueError("now"))
        except StopIteration as end:
            return x + end.value

    assert torch.equal(dynascope.compile(program, fullgraph=True)(torch.ones(2)), program(torch.ones(2)))


@pytest.mark.expects("capture-limit")
def test_a_capture_that_is_cut_short_drops_generators_as_well():
    class Numbers(collections.abc.Sequence):
        def __len__(self):
            return 3

        def __getitem__(self, at):
            return (1.0, 2.0, 3.0)[at]

    numbers = Numbers()

    def function(x):
        for each in numbers:  # leaves a generator in a `try`
            x = x * each
            if each == 2.0:
                break
        for _ in range(400):
            x = x + 1
        return x

    compiled = dynascope.compile(function, backend="eager", options={"inline_limit": 1500})
    torch.testing.assert_close(compiled(torch.ones(2)), function(torch.ones(2)))


def handles(x):
    try:
        raise RuntimeError("inside")
    except RuntimeError:
        try:
            yield x
        except GeneratorExit:
            yield x


def context_of(call):
    try:
        call()
    except Exception as error:
        return type(error), str(error), type(error.__context__)


def test_what_a_generator_handles_is_its_own():
    def program(x):
        def raises():
            raise KeyError(1)

        waiting = handles(x)
        next(waiting)
        seen = [context_of(raises), context_of(waiting.close)]
        thrown = handles(x)
        next(thrown)
        seen += [context_of(lambda: thrown.throw(ValueError(3))), context_of(lambda: thrown.throw("text"))]
        try:
            raise LookupError
        except LookupError:
            seen += [context_of(raises)]
        return x + 1, seen

    x = torch.ones(2)
    assert repr(dynascope.compile(program, backend="eager", fullgraph=True)(x)) == repr(program(x))


@pytest.mark.expects("foreign-value")
def test_a_function_that_a_map_calls_ends_it_for_this_time():
    def stops(value):
        if value == 2:
            raise StopIteration
        return value

    def program(x):
        mapped, kept = map(stops, [1, 2, 3]), filter(stops, [1, 2, 3])
        return x + 1, list(mapped), list(mapped), list(kept), list(kept)

    assert repr(dynascope.compile(program, backend="eager")(torch.ones(2))) == repr(program(torch.ones(2)))
