"""What raises at some sizes raises in one compiled function too, whichever sizes it was compiled at: eager's error, word for word."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.nn.functional as F

PROGRAMS = {
    "halves of rows": (lambda x: F.glu(x, 0), [(4, 3), (7, 3), (6, 3)]),
    "halves of columns": (lambda x: F.glu(x), [(3, 4), (2, 5), (4, 2)]),
    "shuffled pixels": (lambda x: F.pixel_shuffle(x, 2), [(8, 3, 3), (9, 3, 3), (12, 4, 4)]),
    "groups": (lambda x: F.group_norm(x, 2), [(2, 4, 3), (2, 5, 3), (2, 6, 3)]),
    "pairs": (lambda x: x.view(-1, 2) + 1, [(4, 3), (5, 3), (6, 3)]),
    "reflected": (lambda x: F.pad(x, (3, 3), mode="reflect"), [(2, 5), (2, 2), (2, 6)]),
    "windows": (lambda x: F.max_pool2d(x, 3), [(2, 4, 5), (2, 2, 5), (2, 6, 3)]),
    "classes": (lambda x: F.cross_entropy(x, torch.zeros(4, dtype=torch.long)), [(4, 4), (5, 2), (4, 7)]),
    "stacked": (lambda x: torch.stack([x, torch.ones(4, 4)]), [(4, 4), (5, 3), (4, 4)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_errors_are_eagers(name):
    program, shapes = PROGRAMS[name]
    compiled = dynascope.compile(program, dynamic=True)
    for shape in shapes:
        x = torch.linspace(0.1, 1, torch.Size(shape).numel()).view(shape)
        try:
            expected = program(x)
        except Exception as error:
            with pytest.raises(type(error)) as raised:
                compiled(x)
            assert str(raised.value) == str(error)
        else:
            torch.testing.assert_close(compiled(x), expected)
