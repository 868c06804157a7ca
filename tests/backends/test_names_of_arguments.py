"""Arguments of graphs are called as the program's names are, whatever these are: other backends run the graph's text."""

import dynascope
import pytest
import torch

NAMES = [("X", "x"), ("x", "X", "x_1"), ("A_1", "a_1", "a"), ("input", "Input", "input_1"), ("input_1", "input"), ("mul", "MUL", "add")]
NAMES += [("len", "Len"), ("xX", "x_X", "XX")]


@pytest.mark.parametrize("names", NAMES, ids="-".join)
@pytest.mark.parametrize("as_globals", [0, 1])
def test_names_that_differ_in_case_alone_are_several_arguments(names, as_globals):
    given, held = names[as_globals:], names[:as_globals]
    source = f"def program({', '.join(given)}):\n    return " + ", ".join(f"{name} * {at + 2}" for at, name in enumerate(names))
    scope = {name: torch.full((3,), float(at)) for at, name in enumerate(held)}
    exec(source, scope)
    tensors = [torch.full((3,), 10.0 + at) for at in range(len(given))]
    wanted = scope["program"](*tensors)
    for backend in ("eager", "aot_eager", lambda graph, examples: graph, lambda graph, examples: torch.fx.Interpreter(graph).run):
        for mine, theirs in zip(dynascope.compile(scope["program"], backend=backend)(*tensors), wanted, strict=True):
            assert torch.equal(mine, theirs)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "dynascope"])
def test_names_that_a_graph_itself_uses(backend):
    def program(slice, device, inf, nan, x):
        masked = x.masked_fill(x > 0, float("inf")) + torch.full_like(x, float("nan"))
        return slice[:, 1:] * 2, torch.zeros(3, device=x.device) + device, masked, inf, nan + torch.tensor([1.0, float("inf"), 2.0])

    given = [torch.randn(3, 3), torch.ones(3), torch.tensor(5.0), torch.tensor(7.0), torch.randn(3)]
    for mine, theirs in zip(dynascope.compile(program, backend=backend)(*given), program(*given), strict=True):
        assert torch.equal(mine.nan_to_num(-1), theirs.nan_to_num(-1))


def test_names_in_parts_between_kernels():
    def program(x, X, w):  # noqa: N803
        y = X[X > 0] * 2
        return x.sum() + y.sum(), torch.linalg.det(w @ X) * x, X + w

    given = torch.eye(3) + 1, torch.eye(3) - 0.5, torch.eye(3) * 2
    for mine, theirs in zip(dynascope.compile(program)(*given), program(*given), strict=True):
        torch.testing.assert_close(mine, theirs)
