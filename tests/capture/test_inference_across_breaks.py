"""A break inside `with torch.inference_mode():` is one: what comes before it and what comes behind are a graph each."""


import dynascope
import pytest
import torch
from harness import recorded
from torch import nn

torch.manual_seed(0)
LAYERS = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))


def told():
    return torch.is_inference_mode_enabled(), torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")


def broken(x):
    with torch.inference_mode():
        y = LAYERS(x)
        print(end="")
        z = y * 2
        inside = told()
    return y, z, inside, told()


@torch.inference_mode()
def decorated(x):
    y = LAYERS(x)
    print(end="")
    return y, y * 2, told()


def with_the_rest(x):
    before = x * 2
    with torch.inference_mode():
        y = LAYERS(before)
        print(end="")
        z = y * 2
    return before + 1, y, z, z + before, told()


def trained_around(x):
    weight = LAYERS[0].weight
    before = (x @ weight.t()).sum()
    with torch.inference_mode():
        y = LAYERS(x)
        print(end="")
        z = y.argmax(-1)
    after = nn.functional.cross_entropy(LAYERS(x), z.clone())
    return y, z, before, after, told()


def trained_behind(x):
    with torch.inference_mode():
        target = LAYERS(x)
        print(end="")
        target = target * 2
    loss = (LAYERS(x) - target).square().sum()
    (gradient,) = torch.autograd.grad(loss, LAYERS[0].weight)
    return loss.detach(), gradient, told()


def without_gradients(x):
    with torch.no_grad():
        with torch.inference_mode():
            y = LAYERS(x)
            print(end="")
            z = y * 2
        w = LAYERS(x)
        between = told()
    return y, z, w, LAYERS(x), between, told()


def with_autocast(x):
    with torch.inference_mode():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = LAYERS(x)
            print(end="")
            z = LAYERS(x)
        inside = told()
    return y, z, LAYERS(x), inside, told()


def in_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.inference_mode():
            y = LAYERS(x)
            print(end="")
            z = LAYERS(x)
        w, inside = LAYERS(x), told()
    return y, z, w, LAYERS(x), inside, told()


def twice(x):
    results = []
    for _ in range(2):
        with torch.inference_mode():
            y = LAYERS(x)
            print(end="")
            results.append(y + 1)
        results.append(x * 2)
    return results, told()


def nested(x):
    with torch.inference_mode():
        y = LAYERS(x)
        with torch.inference_mode():
            z = y * 2
            print(end="")
            z = z + 1
        inside = told()
        w = z * 2
    return y, z, w, inside, told()


def left_by_an_exception(x):
    try:
        with torch.inference_mode():
            y = LAYERS(x)
            print(end="")
            y = y * 2
            raise KeyError
    except KeyError:
        return y, x + 1, told()


def left_by_return(x):
    for at in range(3):
        with torch.inference_mode():
            y = LAYERS(x) + at
            if y.sum() > -100:
                return y, at, told()
    return x


def views_across(x):
    with torch.inference_mode():
        y = x[1:]
        print(end="")
        z = y[0]
        y = y * 1
    return z, y, y[0], told()


def held_by_the_program(x):
    mode = torch.inference_mode()
    mode.__enter__()
    y = LAYERS(x)
    print(end="")
    mode.__exit__(None, None, None)
    return y, LAYERS(x), told()


def gradients_put_away(x):
    x.grad = x * 2
    with torch.inference_mode():
        y = LAYERS(x)
        print(end="")
        y = y + 1
    return y, x.grad, told()


def led_out_of_it(x):
    with torch.inference_mode():
        y = LAYERS(x)
        with torch.inference_mode(False):
            z = LAYERS(x) * 2
            print(end="")
            z = z + 1
        inside = told()
        w = y * 2
    return y, z, w, inside, told()


def led_out_of_it_before(x):
    with torch.inference_mode():
        with torch.inference_mode(False):
            z = LAYERS(x) * 2
        y = LAYERS(x)
        print(end="")
        w = y * 2
        with torch.inference_mode(False):
            z = z + LAYERS(x)
    return y, z, w, told()


PROGRAMS = {
    led_out_of_it: None,
    led_out_of_it_before: 2,
    broken: 2,
    decorated: 2,
    with_the_rest: 2,
    trained_around: 2,
    trained_behind: 2,
    without_gradients: 2,
    with_autocast: 2,
    in_autocast: 2,
    twice: None,
    nested: None,
    left_by_an_exception: 2,
    left_by_return: None,
    views_across: None,
    held_by_the_program: 2,
    gradients_put_away: None,
}


def seen(result):
    if isinstance(result, torch.Tensor):
        return result.is_inference(), result.requires_grad, result.dtype, result.stride()
    return list(map(seen, result)) if isinstance(result, (tuple, list)) else result


def tensors(result):
    return [each for each in torch.utils._pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]


@pytest.mark.turns(6)
@pytest.mark.may_break
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("around", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager(program, around, backend):
    if around is not torch.enable_grad and program is trained_behind:
        pytest.skip("there is nothing to differentiate")
    call = dynascope.compile(program, backend=backend)
    for _ in range(3):
        x = torch.randn(2, 3)
        given = x.clone(), x.clone()
        with around():
            mine, expected = call(given[0]), program(given[1])
            assert seen(mine) == seen(expected)
        for one, other in zip(tensors(mine), tensors(expected), strict=True):
            torch.testing.assert_close(one, other, rtol=2e-2 if one.dtype is torch.bfloat16 else 1e-4, atol=1e-3)
            if one.requires_grad:
                ways = [torch.autograd.grad(each.sum(), LAYERS[0].weight, retain_graph=True)[0] for each in (one, other)]
                torch.testing.assert_close(*ways, rtol=2e-2, atol=1e-2)
        assert told() == (False, True, False)


@pytest.mark.may_break
@pytest.mark.parametrize("program", [each for each, graphs in PROGRAMS.items() if graphs], ids=lambda program: program.__name__)
def test_a_break_inside_is_one(program):
    call = dynascope.compile(program, backend="eager")
    with recorded() as recorder:
        for _ in range(3):
            call(torch.randn(2, 3))
    report = recorder.report()
    exits = [entry.exit for function in report.functions for entry in function.entries if entry.status == "compiled"]
    assert exits.count("break") == 1 and len(report.graphs) == PROGRAMS[program]


@pytest.mark.may_break
def test_gradients_that_are_on_outside_are_asked_for():
    """One place in the program, reached with gradients on and off outside: what follows the `with` depends on it."""
    call = dynascope.compile(trained_around, backend="eager")
    for around in (torch.enable_grad, torch.no_grad, torch.enable_grad):
        with around():
            assert seen(call(torch.ones(2, 3))) == seen(trained_around(torch.ones(2, 3)))


@pytest.mark.may_break
def test_an_error_behind_such_a_break_leaves_the_mode():
    def program(x, places):
        with torch.inference_mode():
            y = x * 2
            print(end="")
            y = y[places]
        return y + 1

    call = dynascope.compile(program)
    call(torch.ones(2), torch.tensor([1]))
    for each in (call, program):
        with pytest.raises(IndexError):
            each(torch.ones(2), torch.tensor([5]))
        assert told() == (False, True, False)


@pytest.mark.may_break
def test_a_mode_that_the_program_enters_and_leaves_in_two_functions():
    def start(x):
        mode = torch.inference_mode()
        mode.__enter__()
        return mode, x * 2

    def stop(mode, x):
        y = x + 1
        mode.__exit__(None, None, None)
        return y, LAYERS(torch.ones(2, 3))

    compiled = [dynascope.compile(each, backend="eager") for each in (start, stop)]
    for one, other in (compiled, (compiled[0], stop), (start, compiled[1]), compiled):
        mode, y = one(torch.ones(2))
        assert y.is_inference() and told() == (True, False, False)
        y, z = other(mode, y)
        assert y.is_inference() and z.requires_grad and told() == (False, True, False)
