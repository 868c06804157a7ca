"""Texts of numbers that vary, or that only the run knows: written when the graph has run, and looked into where the program does."""

import enum
import io
import logging
import numbers

import dynascope
import numpy as np
import pytest
import torch
from torch import nn

TENSORS = [torch.arange(3.0) + step for step in range(3)]


WRITTEN = {
    "f-string": lambda x, step: (f"step {step} loss {x.sum().item():.4f} {x.max().item()!r:>8}", x + 1),
    "percent": lambda x, step: ("step %d loss %0.3f" % (step, x.sum().item()), x + 1),  # noqa: UP031
    "format": lambda x, step: ("{} {:.2f} {most:>8.1e}".format(step, x.sum().item(), most=x.max().item()), x + 1),  # noqa: UP032
    "sum": lambda x, step: ("a" + str(x.max().item()) + "b", x + 1),
    "join": lambda x, step: (", ".join(f"{name}: {value:.3f}" for name, value in {"a": x.sum().item(), "b": step}.items()), x + 1),
    "a list": lambda x, step: (f"{[x.sum().item(), step]}", x + 1),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_text_breaks_nothing(name):
    compiled = dynascope.compile(WRITTEN[name])
    for step, x in enumerate(TENSORS):
        given, wanted = compiled(x, step), WRITTEN[name](x, step)
        assert given[0] == wanted[0]
        torch.testing.assert_close(given[1], wanted[1])


OF_NUMPYS = {
    "f-string": lambda a: f"{a.mean():.3f} {a.sum()} {np.argmax(a):>4} {a[0]:.1e}",
    "percent": lambda a: "%.3f of %d" % (a.std(), a.argmin()),  # noqa: UP031
    "format": lambda a: "{:.3f} {}".format(a.max(), a.min()) + format(a.sum(), ".1f"),  # noqa: UP032
}


@pytest.mark.parametrize("name", OF_NUMPYS)
def test_numbers_of_numpys_are_written_as_pythons(name):
    program = OF_NUMPYS[name]
    compiled = dynascope.compile(lambda x, a: (program(a), x + 1), fullgraph=True)
    for scale in (0.1, 1.0, 1e17, 1e-12, np.inf, np.nan):
        a = (np.arange(4.0) + 1) * scale
        assert compiled(TENSORS[0], a)[0] == program(a)


@pytest.mark.expects("foreign-value")
def test_numbers_of_numpys_that_python_has_not_are_left_to_it():
    compiled = dynascope.compile(lambda x, a: (f"{a.sum()}", x + 1), backend="eager")
    for step in range(2):
        a = np.arange(4, dtype=np.float32) * 0.1 + step
        assert compiled(TENSORS[0], a)[0] == f"{a.sum()}"


def test_what_a_list_holds_is_written_as_it_was():
    def function(x):
        losses = [x.sum().item()]
        text = f"{losses}"
        losses.append(2)
        return text, losses, x + 1

    assert dynascope.compile(function)(torch.ones(3))[:2] == ("[3.0]", [3.0, 2])


def test_a_list_of_the_program_is_written_as_it_was():
    kept = [1]

    def function(x):
        text = f"{[x.sum().item(), kept]} {kept} {x.max().item()}"
        kept.append(2)
        return "%s %s" % (kept, x.sum().item()), text, x + 1  # noqa: UP031

    assert dynascope.compile(function)(torch.ones(3))[:2] == ("[1, 2] 3.0", "[3.0, [1]] [1] 1.0")


class Named:
    """Says how often it was written."""

    count = 0

    def __str__(self):
        self.count += 1
        return f"named {self.count}"


def test_what_the_program_writes_itself_is_written_once():
    def function(x, named):
        return "%s %s" % (named, x.sum().item()), f"{named} {x.max().item()}", x + 1  # noqa: UP031

    compiled, written, known = dynascope.compile(function), Named(), Named()
    for _ in range(2):
        assert compiled(torch.ones(3), written)[:2] == function(torch.ones(3), known)[:2]


def test_it_is_kept_in_lists_and_dicts_of_the_program():
    lines, latest = [], {}

    def function(x, step):
        lines.append(f"{x.sum().item():.1f}")
        latest["step"] = f"{step}"
        return x + 1

    compiled = dynascope.compile(function)
    for step, x in enumerate(TENSORS):
        compiled(x, step)
        assert latest == {"step": str(step)}
    assert lines == ["3.0", "6.0", "9.0"]


def test_a_logger_says_it():
    logger = logging.getLogger("dynascope.tests.texts")
    logger.propagate = False
    stream = io.StringIO()
    logger.addHandler(logging.StreamHandler(stream))
    logger.setLevel(logging.INFO)

    def function(x, step):
        logger.info(f"step {step} loss {x.sum().item():.2f}")
        return x * 2

    compiled = dynascope.compile(function)
    for step, x in enumerate(TENSORS):
        compiled(x, step)
    assert stream.getvalue() == "step 0 loss 3.00\nstep 1 loss 6.00\nstep 2 loss 9.00\n"


def test_it_may_grow_as_long_as_it_likes():
    def function(x):
        value, lines, line = x[0].item(), "", ""
        for step in range(400):
            lines += f"{value + step:.1f} "
            line = f"{line}{step}{value}"
        return lines, line, x + 1

    given, expected = dynascope.compile(function, fullgraph=True)(torch.ones(3)), function(torch.ones(3))
    assert given[:2] == expected[:2]


def test_a_part_from_outside_is_what_it_was():
    class Names:
        prefix = "before"

    names = Names()

    def function(x):
        text = "-".join([names.prefix, f"{x.sum().item()}", names.prefix])
        names.prefix = "after"
        return text, x + 1

    assert dynascope.compile(function)(torch.ones(3))[0] == "before-3.0-before" and names.prefix == "after"


def test_a_name_made_of_a_number_that_varies_is_looked_into():
    layers = nn.ModuleDict({f"layer_{step}": nn.Linear(3, 3) for step in range(3)})
    numbers = {"k0": 5, "k1": 6, "k2": 7}

    def function(x, step):
        text = f"k{step}"
        factor = len(text) if text == "k1" else numbers[text]
        return layers[f"layer_{step}"](x) * factor

    compiled = dynascope.compile(function)
    for step, x in enumerate(TENSORS):
        torch.testing.assert_close(compiled(x, step), function(x, step))


@pytest.mark.expects("data-dependent-value")
@pytest.mark.parametrize("asked", [lambda text: text == "3.0", lambda text: "3" in text, bool, len, hash, str.split, str.isdigit])
def test_what_asks_a_text_of_the_run_breaks(asked):
    def function(x):
        return asked(f"{x.sum().item():.1f}"), x + 1

    compiled = dynascope.compile(function)
    for x in TENSORS:
        assert compiled(x)[0] == function(x)[0]


@pytest.mark.expects("data-dependent-value")
@pytest.mark.parametrize("value", [2.5, float("nan")])
def test_what_some_numbers_cannot_be_written_as_is_left_to_python(value):
    def function(x):
        try:
            return "%d" % x.sum().item(), x + 1  # noqa: UP031
        except ValueError as error:
            return str(error), x

    x = torch.full((1,), value)
    assert dynascope.compile(function)(x)[0] == function(x)[0]


@pytest.mark.expects("print-call")
def test_a_print_is_one_break(capsys):
    def function(x):
        print(f"loss {x.sum().item():.2f}")
        return x + 1

    dynascope.compile(function)(torch.ones(3))
    assert capsys.readouterr().out == "loss 3.00\n"


def asks_what_it_is(x, shown):
    text = f"{x.sum().item():.3f}"
    kind = "text" if isinstance(text, str) and not isinstance(text, numbers.Number) and type(text) is str else "other"
    shown.append((kind, text))
    return x * 2


@pytest.mark.compiler
def test_what_a_text_is_asks_for_no_number():
    compiled = dynascope.compile(asks_what_it_is, fullgraph=True)
    shown, expected = [], []
    for x in (torch.ones(3), torch.arange(3.0)):
        assert torch.equal(compiled(x, shown), asks_what_it_is(x, expected))
    assert shown == expected


CHANGED = {
    "strip": lambda text: text.strip().upper(),
    "justified": lambda text: "|".join([text.ljust(30), text.rjust(30, "."), text.replace("loss", "Loss")]),
    "methods": lambda text: str.title(text) + text.removeprefix("loss").lstrip(),
    "kept": lambda text: (text.strip, text.center)[1](20),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", CHANGED)
def test_texts_made_of_such_texts(name):
    def program(x):
        return CHANGED[name](f" loss {x.sum().item():.3f} "), x + 1

    compiled = dynascope.compile(program, fullgraph=True)
    for x in TENSORS:
        assert compiled(x)[0] == program(x)[0]


class WrittenMeter:
    def __init__(self):
        self.val = self.total = 0.0

    def update(self, value):
        self.val, self.total = value, self.total + value

    def __str__(self):
        return "{val:.2f} ({total:6.2f})".format(**self.__dict__)


def written_meter(x):
    meter = WrittenMeter()
    meter.update(x.sum())
    return str(meter), f"{meter}!"


WRITTEN_TENSORS = {
    "f-string": lambda x: f"loss {x.sum():.3f} {x.mean()}",
    "format": lambda x: format(x.sum(), "8.2f"),
    "str.format": lambda x: "{0} {n:.3f} {1:>8}".format(x.sum(), "a", n=x.mean()),
    "percent": lambda x: "%.3f of %d%%" % (x.sum(), x.argmax()),  # noqa: UP031
    "percent of one": lambda x: "%5.1f" % x.sum(),  # noqa: UP031
    "integers": lambda x: f"{x.argmax()} {x.argmax():4d}",
    "an object's text": written_meter,
}


@pytest.mark.parametrize("name", WRITTEN_TENSORS)
def test_a_tensor_without_dimensions_is_its_number(name):
    program = WRITTEN_TENSORS[name]
    compiled = dynascope.compile(lambda x: (x * 2, program(x)), backend="eager", fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.rand(5)
        assert compiled(x)[1] == program(x)


TEXTS_OF_TENSORS = {
    "percent": lambda x: "%s" % x.sum(),  # noqa: UP031
    "repr": lambda x: f"{x.sum()!r}",
    "of several": lambda x: f"{x}",
    "attributes": lambda x: "{0.shape} {0}".format(x.sum()),
}


@pytest.mark.parametrize("name", TEXTS_OF_TENSORS)
def test_what_it_is_as_a_tensor_is_left_to_python(name):
    program = TEXTS_OF_TENSORS[name]
    compiled = dynascope.compile(lambda x: (x * 2, program(x)))
    with dynascope.expected("foreign-value"):
        assert compiled(torch.ones(3))[1] == program(torch.ones(3))


class Blend(str, enum.Enum):  # noqa: UP042
    EVEN = "even "
    ROUND = "round"


class Plain(enum.IntEnum):
    THREE = 3


class Loud(str, enum.Enum):  # noqa: UP042
    LOW = "low"

    def upper(self):
        return self.value + "!"


def test_members_of_enumerations_have_the_methods_of_texts_and_numbers():
    def program(x, blend=Blend.EVEN):
        found = [blend.strip(), blend.startswith("ev"), Blend.ROUND.replace("r", "s").title(), Plain.THREE.bit_length(), Loud.LOW.upper()]
        return x * 2 if blend.strip() == "even" else x, found

    x = torch.ones(2)
    found, expected = dynascope.compile(program, fullgraph=True)(x), program(x)
    assert torch.equal(found[0], expected[0])
    assert found[1] == expected[1] and list(map(type, found[1])) == list(map(type, expected[1]))
