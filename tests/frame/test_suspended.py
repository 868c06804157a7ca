"""A generator that is made at the `yield` where another one waits goes on as that one would have."""

import pytest
from dynascope.frame.instructions import decode
from dynascope.frame.suspended import make_suspended_code
from dynascope.frame.versions import KNOWS_FRAMES

pytestmark = pytest.mark.skipif(not KNOWS_FRAMES, reason="functions are compiled as a whole here")


def counting(start, log):
    total = start
    try:
        while total < 20:
            got = yield total
            log.append(got)
            total += got or 3
    except KeyError as error:
        log.append(error.args)
        yield "caught"
    finally:
        log.append("left")
    return total


def remade(generator):
    """A copy that waits where `generator` does; nothing but what its variables hold is asked."""
    frame, code = generator.gi_frame, generator.gi_code
    instructions = decode(code)
    at = max(
        (each for each in instructions if each.operation == "YIELD_VALUE" and each.offset <= frame.f_lasti),
        key=lambda each: each.offset,
    )
    bound = dict(frame.f_locals)
    resume = make_suspended_code(code, instructions, at, (), list(bound), ())
    assert resume is not None
    made = type(counting)(resume.code, globals())
    copy = made(*(bound[parameter.name] for parameter in resume.parameters))
    assert next(copy) is None
    return copy


def used(how):
    def use(generator):
        try:
            return [how(generator), *generator]
        except BaseException as error:
            return repr(error)

    return use


USES = {
    "next": used(next),
    "send": used(lambda generator: generator.send(7)),
    "throw": used(lambda generator: generator.throw(KeyError("a"))),
    "throw what nobody takes": used(lambda generator: generator.throw(ValueError("a"))),
    "close": used(lambda generator: generator.close()),
    "throw the end": used(lambda generator: generator.throw(StopIteration("a"))),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("taken", [1, 2, 4])
def test_it_goes_on_as_the_other(use, taken):
    logs = [], []
    one, other = (counting(1, log) for log in logs)
    for _ in range(taken):
        assert next(one) == next(other)
    copy = remade(other)
    assert copy.__name__ == one.__name__ and copy.__qualname__ == one.__qualname__
    before = list(logs[1])
    assert use(copy) == use(one)
    assert logs[1] == logs[0] and logs[1][: len(before)] == before


def test_inside_except_none_is_made():
    generator = counting(1, [])
    next(generator)
    generator.throw(KeyError("a"))
    code = generator.gi_code
    instructions = decode(code)
    at = [each for each in instructions if each.operation == "YIELD_VALUE"][1]
    assert make_suspended_code(code, instructions, at, (), (), ()) is None
