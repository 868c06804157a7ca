"""What the caller may ask of `differentiate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal

from dynascope.dataclass import dataclass

RandomNumbers = Literal["eager", "device"]
Gradients = Literal["as-needed", "never"]
Level = Literal["core", "aten", "prims"]
Saving = Literal["minimum-cut", "everything"]


@dataclass(frozen=True, slots=True)
class GradOptions:
    """`level="aten"` keeps torch's operators as autograd made them, `"prims"` writes promotion and broadcasting as steps of their
    own. `saving` says what is kept for the backward pass.

    `random="eager"` calls eager's random operators, so that the numbers after `torch.manual_seed` are eager's.
    """

    random: RandomNumbers = "eager"
    gradients: Gradients = "as-needed"
    level: Level = "core"
    saving: Saving = "minimum-cut"
    decompositions: Mapping[Any, Callable] = field(default_factory=dict)
    """What a person wants decomposed: operator -> function of tensors, as torch's own tables. Before all other rules."""
    recognizes_forms: bool = False
    """Whether what the program writes out may be recorded otherwise (`written_forms`)."""
    region: str = "the compiled region"
    """The user's name for what is compiled; appears in errors at run time."""
