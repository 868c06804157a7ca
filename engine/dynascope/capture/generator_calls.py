"""What a node of a graph calls to make a torch generator, to read or set its state, or to draw from it.

    GeneratorCall(torch.Generator)("cpu")                                            another generator in each run
    GeneratorCall(torch.Generator.get_state, torch.default_generator)()              its state, as a tensor
    GeneratorCall(torch.randn, owner=generator, by_name=True)(3)                     three numbers from it

Each is an operator between kernels, in the program's order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dynascope.dataclass import dataclass


@dataclass(frozen=True, eq=False)
class GeneratorCall:
    """`function` is told the `owner`, where the program has that generator from outside: by the name `generator`, or as the first argument.
    One that the graph has made is an argument like others. With `fills` the numbers fill what is like the first argument."""

    function: Callable[..., Any]
    owner: torch.Generator | None = None
    by_name: bool = False
    fills: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "__name__", f"generator_{self.function.__name__}")
        object.__setattr__(self, "__module__", __name__)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if self.owner is not None:
            if self.by_name:
                keywords["generator"] = self.owner
            else:
                arguments = (self.owner, *arguments)
        if self.fills:
            arguments = (torch.empty_like(arguments[0]), *arguments[1:])
        return self.function(*arguments, **keywords)

    @property
    def generator(self) -> torch.Generator | None:
        """The one that moves on or is set, where it was there before the graph."""
        return torch.default_generator if self.function is torch.random.manual_seed else self.owner

    def state(self) -> Callable[[], Any]:
        """What puts the generator back to where it is now."""
        if (generator := self.generator) is None:
            return lambda: None
        now = generator.get_state()
        return lambda: generator.set_state(now)

    def as_python(self) -> tuple[str, set[str]]:
        """The text that makes it, and the imports that it needs. A generator that the program has made is a new one there."""
        name = self.function.__name__
        home = next((home for home, module in HOMES.items() if getattr(module, name, None) is self.function), "torch")
        owners = {id(torch.default_generator): "torch.default_generator"}
        owner = "None" if self.owner is None else owners.get(id(self.owner), f"torch.Generator({str(self.owner.device)!r})")
        return f"GeneratorCall({home}.{name}, {owner}, {self.by_name}, {self.fills})", {
            "import torch",
            f"from {__name__} import GeneratorCall",
        }


HOMES: dict[str, Any] = {"torch": torch, "torch.random": torch.random, "torch.Generator": torch.Generator, "torch.Tensor": torch.Tensor}
