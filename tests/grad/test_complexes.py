"""Complex arithmetic as that of real parts: eager's values, layouts and gradients, and no kernel of the library's. On GPUs."""

import dynascope
import pytest
import torch
from dynascope.grad.decompose import complexes

torch.manual_seed(0)


def of(*sizes, dtype=torch.complex64):
    return torch.randn(*sizes, dtype=dtype)


def turned(x, turns):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(3).type_as(x)


def in_place(z):
    made = z * 1
    made.mul_(2j)
    made.add_(1)
    return made


PROGRAMS = {
    "a square and one": (lambda z: z * z + 1, [of(5, 3)]),
    "with real ones": (lambda z, x: z * x - 2j * z, [of(5, 3), torch.randn(3)]),
    "with integers": (lambda z: z * torch.arange(3, device=z.device) + 2, [of(5, 3)]),
    "broadcast, a sum": (lambda z, w: (z * w[:, None]).sum(), [of(5, 3), of(5)]),
    "a conjugate": (lambda z, w: torch.view_as_real(z * w.conj()), [of(5, 3), of(5, 3)]),
    "negated": (lambda z: -z, [of(4)]),
    "scaled by a complex number": (lambda z, w: torch.add(z, w, alpha=2 - 1j), [of(4), of(4)]),
    "the real part": (lambda z, w: (z * w).real * 2, [of(4), of(4)]),
    "between transforms": (lambda x: torch.fft.ifft(torch.fft.fft(x) * torch.fft.fft(x)).real, [torch.randn(8)]),
    "a rotation": (turned, [torch.randn(2, 16, 4, 8), torch.polar(torch.ones(16, 1, 4), torch.randn(16, 1, 4))]),
    "a rotation of halves": (turned, [torch.randn(2, 16, 4, 8).bfloat16(), torch.polar(torch.ones(16, 1, 4), torch.randn(16, 1, 4))]),
    "transposed": (lambda z, w: z.t() * w, [of(4, 5), of(5, 4)]),
    "wide": (lambda z: z * z.conj() + z, [of(4, 5, dtype=torch.complex128)]),
    "a narrow one with a wide one": (lambda z, x: z * x, [of(4), torch.randn(4, dtype=torch.float64)]),
    "in place": (in_place, [of(4, 5)]),
    "expanded": (lambda z: z.unsqueeze(0).expand(2, 4, 5) * z, [of(4, 5)]),
    "beside what is not finite": (lambda z, x: z * x, [of(4), torch.tensor([torch.inf, torch.nan, 0.0, -0.0])]),
}


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request, monkeypatch):
    monkeypatch.setattr(complexes, "DEVICES", {request.param})
    return request.param


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_eagers(name, device):
    program, operands = PROGRAMS[name]
    ours, theirs = ([each.to(device).requires_grad_() for each in map(torch.clone, operands)] for _ in range(2))
    found, expected = dynascope.compile(program)(*ours), program(*theirs)
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert found.stride() == expected.stride()
    tangent = torch.randn_like(expected)
    found, expected = torch.autograd.grad(found, ours, tangent), torch.autograd.grad(expected, theirs, tangent)
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert [each.stride() for each in found] == [each.stride() for each in expected]


def scaled_parts(z):
    torch.view_as_real(z).mul_(2)
    z.real.add_(1)
    return z * 1j


def assigned_parts(z):
    made = z.clone()
    made.real[0] = 5
    made.imag = made.real * 2
    return made, made.abs()


def a_conjugates_part(z):
    made = z.conj().clone()
    made.imag.fill_(2.0)
    return made.conj().imag, z.conj().real.mul_(3)


def numbers_of_pairs(z):
    pairs = torch.view_as_real(z.t().contiguous().t()).clone()
    torch.view_as_complex(pairs).mul_(1j)
    pairs[..., 0].zero_()
    return pairs


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("program", [scaled_parts, assigned_parts, a_conjugates_part, numbers_of_pairs])
def test_parts_are_written(program, trains, dynamic):
    """What a real view of complex numbers is given they are given, in forward and backward passes."""
    outcomes = []
    for call in (dynascope.compile(program, dynamic=dynamic, fullgraph=True), program):
        z = torch.arange(12.0).view(3, 4).mul(1 + 2j).requires_grad_(trains)
        given = z * 1 if trains else z
        results = call(given)
        results = results if isinstance(results, tuple) else (results,)
        wanted = [(torch.view_as_real(each.resolve_conj()) if each.is_complex() else each).square().sum() for each in results]
        gradient = torch.autograd.grad(sum(wanted), z) if trains else ()
        outcomes.append([given.detach(), *(each.detach().resolve_conj() for each in results), *gradient])
    torch.testing.assert_close(*outcomes)


def test_a_rotation_is_one_kernel(device):
    operands = [each.to(device) for each in PROGRAMS["a rotation"][1]]
    (graph,) = dynascope.explain(turned)(*operands).report.graphs
    assert len(graph.kernels) == 1
    wrapper = next(text.text for text in graph.texts if text.stage == "wrapper-forward")
    assert "call_mul" not in wrapper, wrapper


def test_sizes_may_vary(device):
    compiled, turns = dynascope.compile(turned, dynamic=True), PROGRAMS["a rotation"][1][1].to(device)
    for batch in (2, 3, 5, 7):
        x = torch.randn(batch, 16, 4, 8, device=device)
        torch.testing.assert_close(compiled(x, turns), turned(x, turns))


def test_the_parts_of_a_fresh_result_are_not_copied():
    """They are all of its memory, though they are twice as many elements."""
    (graph,) = dynascope.explain(lambda z, w: torch.view_as_real(z * w))(of(3, 4), of(3, 4)).report.graphs
    assert not graph.kernels
