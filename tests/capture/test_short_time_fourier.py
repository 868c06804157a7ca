"""`torch.istft` inside what is compiled: eager's signal, gradients and errors, in one graph."""

import dynascope
import pytest
import torch

X = torch.linspace(-1, 1, 2 * 2 * 9 * 12).view(2, 2, 9, 12).sin()
WINDOW = torch.hann_window(16)
PROGRAMS = {
    "plain": lambda s: torch.istft(s, 16, 4, window=WINDOW),
    "of a length": lambda s: torch.istft(s, 16, 4, 16, WINDOW, length=40),
    "of one row, a short window": lambda s: torch.istft(s[0], 16, 4, 12, torch.hann_window(12) + 0.1, normalized=True),
    "not centred": lambda s: torch.istft(s, 16, window=torch.ones(16), center=False),
    "two-sided": lambda s: torch.istft(torch.cat([s, s[:, 1:8].flip(1)], 1), 16, 4, window=WINDOW, onesided=False),
    "complex": lambda s: torch.istft(torch.cat([s, s[:, 1:8]], 1), 16, 4, window=WINDOW, onesided=False, return_complex=True).abs(),
    "there and back": lambda s: s.istft(16, 4, window=WINDOW).stft(16, 4, window=WINDOW, return_complex=True).real,
}


def program_of(function):
    return lambda x: function(torch.complex(x[0], x[1])) * 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph(name):
    program, found = program_of(PROGRAMS[name]), []
    for function in (dynascope.compile(program, fullgraph=True), program):
        x = X.clone().requires_grad_()
        result = function(x)
        result.square().sum().backward()
        found.append((result.detach(), x.grad))
    torch.testing.assert_close(*found)


def test_windows_that_leave_a_gap_raise():
    program = program_of(lambda s: torch.istft(s, 16, 16, window=WINDOW, center=False))
    for function in (dynascope.compile(program), program):
        with pytest.raises(RuntimeError, match="window overlap add min"):
            function(X)


@pytest.mark.expects("missing-meta-kernel")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("settings", [dict(n_fft=15), dict(hop_length=17), dict(length=100), dict(window=None)])
def test_what_torch_refuses_or_warns_of_is_left_to_it(settings):
    program, found = program_of(lambda s: torch.istft(s, **{"n_fft": 16, "window": WINDOW, **settings})), []
    for function in (dynascope.compile(program), program):
        try:
            found.append(function(X))
        except RuntimeError as error:
            found.append(str(error).splitlines()[0])
    torch.testing.assert_close(*found) if isinstance(found[1], torch.Tensor) else None
    assert isinstance(found[1], torch.Tensor) or found[0] == found[1]


def test_a_complex_number_that_a_gradient_leads_past():
    def program(x):
        return (torch.cos(x) + 1j * torch.sin(x) * (0.1 + 0.3j)).abs(), (x * 0.7j / (2 + 0.1j)).real

    for dtype in (torch.float32, torch.float64):
        found = []
        for function in (dynascope.compile(program), program):
            x = torch.linspace(-1, 1, 5, dtype=dtype).requires_grad_()
            results = function(x)
            found.append((*results, *torch.autograd.grad([each.sum() for each in results], x)))
        torch.testing.assert_close(*found)
