"""Operators of a program's own libraries: what they change is seen, and nothing of them runs while the program is captured."""

from __future__ import annotations

import dynascope
import pytest
import torch
from dynascope import recording

LIBRARY = torch.library.Library("dynascope_own_operators", "DEF")
RAN: list[str] = []


def define(schema, *, meta=None, autograd=None, **kernels):
    name = schema.partition("(")[0]
    LIBRARY.define(schema)
    for key, kernel in kernels.items():
        LIBRARY.impl(name, kernel, key)
    if meta is not None:
        LIBRARY.impl(name, meta, "Meta")


def shift(x, by):
    RAN.append("shift")
    return x + by


define("triple(Tensor x) -> Tensor", CPU=lambda x: x * 3, meta=torch.empty_like)
define("shift(Tensor x, float by) -> Tensor", CompositeExplicitAutograd=shift)
define("fill(Tensor(a!) x, Tensor y) -> ()", CPU=lambda x, y: (x.copy_(y), None)[1], meta=lambda x, y: None)
define(
    "fill_both(Tensor(a!)[] xs, Tensor y) -> ()",
    CPU=lambda xs, y: ([x.copy_(y) for x in xs], None)[1],
    meta=lambda xs, y: None,
)
define("count(Tensor(a!) x, *, Tensor(b!) total) -> Tensor", CPU=lambda x, *, total: (x.add_(1), total.add_(1), x.sum())[2],
       meta=lambda x, *, total: x.new_empty(()))  # fmt: skip
define("added(Tensor(a!) x, Tensor y) -> Tensor(a!)", CPU=lambda x, y: x.add_(y), meta=lambda x, y: x)
define(
    "double(Tensor x, Tensor(a!)? y) -> ()", CPU=lambda x, y: (y is None or y.mul_(2), None)[1], meta=lambda x, y: None
)
define(
    "swap(Tensor(a!) x, Tensor y) -> ()",
    CPU=lambda x, y: (x[0].copy_(y[1]), x[1].copy_(y[0]), None)[2],
    meta=lambda x, y: None,
)
define("said(Tensor x) -> ()", CPU=lambda x: RAN.append(x.tolist()), meta=lambda x: None)
define("refuse(Tensor x) -> ()", CPU=lambda x: (_ for _ in ()).throw(ValueError("refused")), meta=lambda x: None)
OWN = torch.ops.dynascope_own_operators


@torch.library.custom_op("dynascope_own_operators::noted", mutates_args=())
def noted(x: torch.Tensor, flag: bool) -> torch.Tensor:
    RAN.append(f"noted {tuple(x.shape)}")
    return x + 1


noted.register_fake(lambda x, flag: torch.empty_like(x))


@torch.library.custom_op("dynascope_own_operators::halves", mutates_args=())
def halves(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[: ends[0]] * 2, x[ends[0] :] * 3])


def halves_backward(ctx, gradient):
    (ends,) = ctx.saved_tensors
    at = ends.tolist()[0]
    return torch.cat([gradient[:at] * 2, gradient[at:] * 3]), None


halves.register_fake(lambda x, ends: torch.empty_like(x))
halves.register_autograd(halves_backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]))


@torch.library.custom_op("dynascope_own_operators::used_up", mutates_args=())
def used_up(x: torch.Tensor, credit: torch.Tensor) -> torch.Tensor:
    return x * credit


def used_up_backward(ctx, gradient):
    with torch.no_grad():
        ctx.credit.sub_(1)
    return gradient * 2, None


used_up.register_fake(lambda x, credit: torch.empty_like(x))
used_up.register_autograd(used_up_backward, setup_context=lambda ctx, inputs, output: setattr(ctx, "credit", inputs[1]))


def fills_a_local(d, x):
    made = torch.full([4], 7.0)
    OWN.fill(made, x)
    return made * made


PROGRAMS = {
    "an argument": lambda d, x: (OWN.fill(d, x), d + 1)[1],
    "by keyword": lambda d, x: (OWN.fill(y=x, x=d), d + 1)[1],
    "the overload": lambda d, x: (OWN.fill.default(d, x), d + 1)[1],
    "a local": fills_a_local,
    "a view": lambda d, x: (OWN.fill(d[1:], x[1:]), d + x)[1],
    "the base of a view": lambda d, x: (v := d[:2], OWN.fill(d, x), v * 2)[2],
    "a list": lambda d, x: (made := d * 2, OWN.fill_both([d, made], x), made + d)[2],
    "two, and a result": lambda d, x: (y := OWN.count(d, total=x), y + d + x)[1],
    "twice": lambda d, x: (OWN.fill(d, x), OWN.fill(d, d * 2 + 1), d)[2],
    "what it returns": lambda d, x: (y := OWN.added(d, x), y.mul_(2), d + 1),
    "some or none": lambda d, x: (OWN.double(d, None), OWN.double(x, d), d + x)[2],
    "columns": lambda d, x: (m := torch.ones(3, 4).t(), OWN.fill(m[:, 1], x), m)[2],
}


@pytest.mark.parametrize("backend", ["dynascope", "eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_an_operator_changes(name, backend):
    program = PROGRAMS[name]
    compiled = dynascope.compile(program, backend=backend)
    for step in range(2):
        ours, theirs = ([torch.zeros(4), torch.arange(4.0) + step] for _ in range(2))
        torch.testing.assert_close(compiled(*ours), program(*theirs))
        torch.testing.assert_close(ours, theirs)


def test_what_another_operand_shows_is_left_to_torch():
    """The operator may read what it has written."""

    def program(d, x):
        OWN.swap(d[:2], d)
        OWN.swap(x, x)

    compiled = dynascope.compile(program)
    ours, theirs = ([torch.arange(4.0), torch.arange(2.0)] for _ in range(2))
    with dynascope.expected("foreign-call", "overlapping-write"):
        compiled(*ours)
    program(*theirs)
    torch.testing.assert_close(ours, theirs)


def test_what_writes_and_what_looks_run_in_the_program_s_order():
    def program(x):
        y = x * 2
        OWN.said(y)
        OWN.fill(y, x)
        OWN.said(y)
        OWN.fill(y, x + 1)
        return y.exp()

    compiled = dynascope.compile(program, fullgraph=True)
    RAN.clear()
    torch.testing.assert_close(compiled(torch.ones(1)), torch.ones(1).add(1).exp())
    assert RAN == [[2.0], [1.0]]


def test_what_is_around_a_write_is_differentiated():
    def program(x, seen):
        h = x.sin()
        OWN.fill(seen, h.detach())
        return h * h + seen

    compiled = dynascope.compile(program, fullgraph=True)
    gradients = []
    for function in (compiled, program):
        x, seen = torch.linspace(0, 1, 4).requires_grad_(), torch.zeros(4)
        function(x, seen).sum().backward()
        gradients.append((x.grad, seen))
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("backend", ["dynascope", "eager"])
def test_nothing_runs_but_when_the_program_runs_it(backend):
    compiled = dynascope.compile(lambda x: OWN.shift(noted(x * 2, True), 1.5) * 2, backend=backend)
    for dtype in (torch.int64, torch.float32):
        RAN.clear()
        compiled(torch.arange(6).reshape(2, 3).to(dtype))
        assert RAN == ["noted (2, 3)", "shift"]


def test_an_operator_without_a_derivative_is_looked_into():
    def program(x):
        return torch.cos(OWN.triple(torch.relu(x)))

    x, y = (torch.arange(-2.0, 2.0).requires_grad_() for _ in range(2))
    dynascope.compile(program)(x).sum().backward()
    program(y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_an_operator_whose_result_is_not_used_runs():
    @dynascope.compile
    def program(x):
        OWN.refuse(x)
        return x + 1

    with pytest.raises(ValueError, match="refused"):
        program(torch.ones(3))


@pytest.mark.compiler
def test_a_backward_pass_that_cannot_be_recorded_leaves_kernels_around():
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        x = torch.linspace(0, 1, 6).requires_grad_()
        compiled = dynascope.compile(lambda x, ends: halves(x.sin(), ends).cos() * 2)
        y = compiled(x, torch.tensor([2]))
        report = recorder.report()
    finally:
        recording.use(before)
    assert len(report.graphs) == 2 and all(graph.kernels for graph in report.graphs)
    expected = x.detach().clone().requires_grad_()
    (halves(expected.sin(), torch.tensor([2])).cos() * 2).sum().backward()
    y.sum().backward()
    torch.testing.assert_close(x.grad, expected.grad)


@pytest.mark.parametrize("backend", ["dynascope", "eager"])
def test_what_a_backward_pass_changes(backend):
    """Of the gradients alone nobody could tell that something else was written."""

    def program(x, credit):
        return used_up(x.sin(), credit).cos()

    compiled = dynascope.compile(program, backend=backend)
    left = []
    for function in (compiled, program):
        x, credit = torch.linspace(0, 1, 4).requires_grad_(), torch.full((4,), 3.0)
        with dynascope.expected("foreign-call", required=function is compiled and backend == "dynascope"):
            result = function(x, credit)
        left.append(credit.clone())
        result.sum().backward()
        left += [credit, x.grad]
    torch.testing.assert_close(left[:3], left[3:])
    assert left[1].tolist() == [2.0] * 4


def test_operators_of_torch_s_that_compute_numbers():
    """As torch's scripts call them, with plain numbers."""

    def program(x, a, b):
        ops = torch.ops.aten
        return x + ops.floordiv(a, 2) * ops.remainder(a, 3), ops.eq(a, b), ops.neg(a), ops.sqrt(a), ops.lt(a, b)

    x = torch.ones(2)
    compiled = dynascope.compile(program, backend="eager", fullgraph=True)
    for a in (4, 9, 5):
        assert repr(compiled(x, a, 3.3)) == repr(program(x, a, 3.3))
