"""Advice about a branch on a tensor is in the person's own words."""

from dynascope.capture.branch_advice import advice
from dynascope.report.span import Span

TEXT = """\
def f(x, n):
    if n > 1_000:
        x = x * (n / (n + 1e-6)) + .5 - x.clamp(1e-06)
    return x
"""


def test_numbers_are_as_they_were_written(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(TEXT)
    told = advice(Span(str(path), 2, 7, 2, 16), "n > 1_000")
    assert "torch.where(n > 1_000, x * (n / (n + 1e-6)) + .5" in told, told
