"""What the caller may ask of `differentiate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RandomNumbers = Literal["eager", "device"]
Gradients = Literal["as-needed", "never"]
Level = Literal["core", "aten"]
Saving = Literal["minimum-cut", "everything"]


@dataclass(frozen=True, slots=True)
class GradOptions:
    """`level="aten"` keeps torch's operators as autograd made them. `saving` says what is kept for the backward pass.

    `random="eager"` calls eager's random operators, so that the numbers after `torch.manual_seed` are eager's.
    """

    random: RandomNumbers = "eager"
    gradients: Gradients = "as-needed"
    level: Level = "core"
    saving: Saving = "minimum-cut"
    region: str = "the compiled region"
    """The user's name for what is compiled; appears in errors at run time."""
