"""Loggers break nothing: what they say is said at each call, in order, after the graph, as if from where the program is now."""

import contextlib
import io
import logging
import warnings

import dynascope
import pytest
import torch
from harness import compiled

logger = logging.getLogger(__name__)


def quiet(x):
    logger.debug("sum %s", x.sum())
    if logger.isEnabledFor(logging.INFO):
        x = x * 3
    logging.getLogger("another.quiet.one").info("shape %s", x.shape)
    return x + 1


@pytest.fixture(autouse=True)
def levels():
    before = logger.level
    yield
    logger.setLevel(before)
    logging.disable(logging.NOTSET)


def test_nothing_is_said_and_nothing_breaks():
    function = compiled(quiet)
    for _ in range(2):
        torch.testing.assert_close(function(torch.ones(3)), quiet(torch.ones(3)))
    assert function.compilation.codes == [] and len(function.graphs) == 1


def test_a_logger_that_is_switched_on_is_heard(caplog):
    function = compiled(quiet)
    x = torch.ones(3)
    function(x)
    logger.setLevel(logging.DEBUG)
    torch.testing.assert_close(function(x), x * 3 + 1)
    assert [record.getMessage() for record in caplog.records] == ["sum tensor(3.)"]
    logging.disable(logging.CRITICAL)
    torch.testing.assert_close(function(x), x + 1)
    logging.disable(logging.NOTSET)
    logger.setLevel(logging.WARNING)
    torch.testing.assert_close(function(x), x + 1)
    assert len(caplog.records) == 1


# What is said


class Kept(logging.StreamHandler):
    """A library's handler, as far as the engine sees: it keeps what is said."""

    def __init__(self):
        super().__init__(io.StringIO())
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s %(filename)s:%(lineno)d %(funcName)s %(message)s"))

    @property
    def lines(self):
        return self.stream.getvalue().splitlines()


Kept.__module__ = "logging"


@pytest.fixture
def heard():
    handler = Kept()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)


def both(heard, function, *calls, **options):
    """What eager and the compiled function say and give for each of the calls."""
    dispatch = compiled(function, **options)
    for arguments in calls:
        expected = function(*arguments)
        said = heard.lines[:]
        heard.stream.truncate(0)
        heard.stream.seek(0)
        torch.testing.assert_close(dispatch(*arguments), expected)
        assert heard.lines == said and said
        heard.stream.truncate(0)
        heard.stream.seek(0)
    return dispatch


def inside(x):
    logger.info("of %s", x.dtype)
    return x * 2


def loud(x, step):
    logger.info("begins")
    y = inside(x)
    logger.warning(
        "step %d of %s",
        step,
        [1, (2, "three")],
    )
    logger.log(logging.ERROR, "%(a)d and %(b)s", {"a": step, "b": x.shape})
    logger.info({"no": "format"})
    logging.LoggerAdapter(logger).error("by an adapter")
    return y + 1


def test_what_is_said_breaks_nothing(heard):
    dispatch = both(heard, loud, *[(torch.ones(3), step) for step in (0, 1, 7)])
    assert dispatch.compilation.codes == []


def test_in_order_with_warnings_and_before_a_break(heard):
    order = []

    class Noting(logging.NullHandler):
        def handle(self, record):
            order.append(record.getMessage())

    Noting.__module__ = "logging"

    def function(x):
        logger.info("one")
        warnings.warn("two", stacklevel=1)
        logger.info("three")
        print("between")
        logger.info("four")
        return x * 2

    handler = Noting()
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, *rest: order.append(str(message))
            dispatch = compiled(function)
            assert dispatch(torch.ones(2)).tolist() == [2, 2]
    finally:
        logger.removeHandler(handler)
    assert order == ["one", "two", "three", "four"]
    assert dispatch.compilation.codes == ["print-call"]


def test_said_before_an_exception_that_the_program_raises(heard):
    def function(x):
        logger.info("before")
        if x.shape[0] == 3:
            raise ValueError("three")
        logger.info("after")
        return x + 1

    dispatch = compiled(function)
    with pytest.raises(ValueError, match="three"):
        dispatch(torch.ones(3))
    assert [line.split()[-1] for line in heard.lines] == ["before"]
    dispatch(torch.ones(2))
    assert [line.split()[-1] for line in heard.lines] == ["before", "before", "after"]


def test_said_once_where_the_graph_raises(heard):
    def function(x, index):
        logger.info("before")
        y = x[index]
        logger.info("after")
        return y * 2

    dispatch = compiled(function)
    dispatch(torch.ones(3), torch.tensor([1]))
    with pytest.raises(IndexError):
        dispatch(torch.ones(3), torch.tensor([5]))
    assert [line.split()[-1] for line in heard.lines] == ["before", "after", "before"]


def test_a_list_is_written_as_it_was_when_it_was_logged(heard):
    def function(x):
        seen = [1]
        logger.info("seen %s", seen)
        seen.append(2)
        return x + len(seen)

    assert both(heard, function, (torch.ones(2),)).compilation.codes == []


def test_the_text_of_a_tensor_is_written_where_it_is_logged(heard):
    def function(x):
        y = x + 1
        logger.info("now %s", y)
        y.add_(1)
        return y * 2

    assert both(heard, function, (torch.ones(2),)).compilation.codes == ["foreign-call"]


def test_of_the_level_of_the_caller(heard):
    def told(x):
        logger.info("from above", stacklevel=2)
        return x + 1

    def function(x):
        y = told(x)
        return y * 2

    assert both(heard, function, (torch.ones(2),)).compilation.codes == []


def test_what_cannot_be_written_is_left_to_python(heard, capsys, monkeypatch):
    def function(x):
        logger.info("%d", "no number")
        return x + 1

    dispatch = compiled(function)
    monkeypatch.setattr(logger, "propagate", False)
    dispatch(torch.ones(2))
    assert "--- Logging error ---" in capsys.readouterr().err
    assert dispatch.compilation.codes == ["foreign-call"]


def test_the_traceback_of_an_exception_is_left_to_python(heard):
    def function(x):
        try:
            raise KeyError("k")
        except KeyError:
            logger.exception("caught")
        return x + 1

    dispatch = compiled(function)
    dispatch(torch.ones(2))
    assert any("KeyError: 'k'" in line for line in heard.lines)


class Counter(logging.Handler):
    """Of the program: it looks at what the program has written so far, and writes."""

    def __init__(self, state):
        super().__init__()
        self.state, self.seen = state, []

    def emit(self, record):
        self.seen.append(self.state["step"])
        self.state["said"] = len(self.seen)


def test_a_handler_of_the_program_is_called_where_it_is():
    state = {"step": 0, "said": 0}

    def function(x):
        state["step"] = 1
        logger.error("first")
        state["step"] = state["said"] + 1
        logger.error("second")
        state["step"] = 5
        return x + state["said"]

    handler = Counter(state)
    logger.addHandler(handler)
    try:
        dispatch = compiled(function)
        assert dispatch(torch.ones(1)).item() == 3
    finally:
        logger.removeHandler(handler)
    assert handler.seen == [1, 2] and state == {"step": 5, "said": 2}
    assert dispatch.compilation.codes == ["foreign-call"] * 2


def test_a_handler_of_the_program_that_comes_later_is_heard(heard):
    state = {"step": 3, "said": 0}

    def function(x):
        logger.info("said")
        state["step"] = state["said"]
        return x + 1

    dispatch = compiled(function)
    dispatch(torch.ones(1))
    handler = Counter(state)
    logger.addHandler(handler)
    try:
        dispatch(torch.ones(1))
    finally:
        logger.removeHandler(handler)
    assert handler.seen == [0] and state["step"] == 1


def test_a_filter_of_the_program_decides_where_it_is(heard):
    state = {"on": True}

    def function(x):
        logger.info("first")
        state["on"] = False
        logger.info("second")
        return x + 1

    def on(record):
        return state["on"]

    logger.addFilter(on)
    try:
        compiled(function)(torch.ones(1))
    finally:
        logger.removeFilter(on)
    assert [line.split()[-1] for line in heard.lines] == ["first"]


def test_handlers_that_come_and_go_inside(heard):
    more = Kept()

    def function(x):
        logger.info("without")
        logger.addHandler(more)
        logger.info("with")
        logger.removeHandler(more)
        logger.info("without again")
        return x + 1

    compiled(function)(torch.ones(1))
    assert [line.split()[-1] for line in more.lines] == ["with"]
    assert len(heard.lines) == 3


def test_propagation_switched_off_inside_after_it_was_said(heard):
    quiet = logging.getLogger(f"{__name__}.below")

    def function(x):
        quiet.info("heard")
        quiet.propagate = False
        quiet.info("not heard")
        return x + 1

    try:
        compiled(function)(torch.ones(1))
    finally:
        quiet.propagate = True
    assert [line.split()[-1] for line in heard.lines] == ["heard"]


def test_what_was_said_is_looked_at_inside(heard):
    def function(x):
        logger.info("one")
        many = len(heard.stream.getvalue().splitlines())
        return x + many

    assert compiled(function)(torch.ones(1)).item() == 2


def test_to_a_stream_that_the_program_puts_there_for_a_while():
    logging.lastResort.setLevel(logging.WARNING)
    alone = logging.getLogger(f"{__name__}.alone")
    alone.propagate = False

    def function(x):
        text = io.StringIO()
        with contextlib.redirect_stderr(text):
            alone.warning("there")
        return x + 1, text.getvalue()

    try:
        assert compiled(function)(torch.ones(1))[1] == "there\n"
    finally:
        alone.propagate = True


@pytest.mark.parametrize("level", [logging.INFO, logging.ERROR])
def test_numbers_that_only_the_run_knows(heard, level):
    def step(x):
        loss = (x * 2).sum()
        logger.info("loss %.3f", loss.item())
        logger.error("twice %s", 2 * loss.item())
        return loss + 1

    logger.setLevel(level)
    whole = dynascope.compile(step, fullgraph=True)
    for x in (torch.ones(2), torch.ones(2) * 3):
        whole(x)
    said = [line.split(f"{step.__name__} ")[-1] for line in heard.lines]
    expected = [line for n in (4.0, 12.0) for line in (f"loss {n:.3f}", f"twice {2 * n}")]
    assert said == (expected if level == logging.INFO else expected[1::2])
