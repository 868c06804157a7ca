"""An `nn.Module` whose call runs compiled code, and which otherwise is the module that was compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_EVERY_MODULES_HOOKS = tuple(
    getattr(torch.nn.modules.module, f"_global_{kind}")
    for kind in ("forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks")
)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class CompiledModule(torch.nn.Module):
    """Attributes, parameters, state and hooks are the original's; writing one writes the original's.

    As with `torch.compile`, `state_dict` keys are the original's under `_orig_mod.`, so that checkpoints fit both ways.
    """

    def __init__(self, original: torch.nn.Module, compiled_call: Callable) -> None:
        super().__init__()
        self.__dict__["_original"] = original
        self.__dict__["_compiled_call"] = compiled_call
        self._modules["_orig_mod"] = original
        tables = [each.__dict__[name] for each in (original, self) for name in _HOOKS]
        self.__dict__["_hook_tables"] = (*tables, *_EVERY_MODULES_HOOKS)
        self.training = original.training

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = self.__dict__
        if any(state["_hook_tables"]):
            return self._call_with_hooks(*args, **kwargs)
        return state["_compiled_call"](*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_compiled_call"](*args, **kwargs)

    def _call_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """Run the original's own hooks, with the original as their module, around its compiled `forward`."""
        original = self.__dict__["_original"]
        before = original.__dict__.get("forward")
        original.__dict__["forward"] = self.__dict__["_compiled_call"]
        try:
            if any(self.__dict__[name] for name in _HOOKS):
                return super().__call__(*args, **kwargs)
            return original(*args, **kwargs)
        finally:
            if before is None:
                del original.__dict__["forward"]
            else:
                original.__dict__["forward"] = before

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__["_modules"]:
            return self.__dict__["_modules"][name]
        return getattr(self.__dict__["_original"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training" or "_original" not in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self.__dict__["_original"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_original"], name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.__dict__["_original"])})

    def __len__(self) -> int:
        return len(self.__dict__["_original"])

    def __getitem__(self, key: Any) -> Any:
        return self.__dict__["_original"][key]

    def __iter__(self):
        return iter(self.__dict__["_original"])

    def __repr__(self) -> str:
        return f"CompiledModule({self.__dict__['_original']!r})"

    def __reduce__(self):
        return _uncompiled, (self.__dict__["_original"],)


def _uncompiled(original: torch.nn.Module) -> torch.nn.Module:
    """Compiled code does not travel between processes; an unpickled compiled module is the module it was made of."""
    return original
