"""An `nn.Module` whose call runs compiled code, and which otherwise is the module that was compiled."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.utils import _named_member_accessor
from torch.utils.weak import WeakIdKeyDictionary

from dynascope.configuration import Options
from dynascope.frame import hook
from dynascope.guards.check import compile_guards
from dynascope.guards.guard import (
    MODULE_HOOKS,
    Guard,
    HasNoKey,
    IdentityIs,
    LengthIs,
    ModuleHasNoHooks,
    TypeIs,
)
from dynascope.guards.source import AttributeSource, ConstantSource, DictionaryAttributeSource, LocalSource
from dynascope.guards.world import WorldIs, WorldLog, look_up

_HOOKS_OF_ALL_MODULES = tuple(
    ConstantSource(f"torch.nn.modules.module._global{name}", getattr(torch.nn.modules.module, f"_global{name}"))
    for name in MODULE_HOOKS
)
_CALLING = ("__call__", "_call_impl", "__getattribute__")
"""What a class says of how its modules are called."""


class Forward:
    """`compiled.forward`: the one that the original has when it is read, whatever it has later.

    Programs put something around it and set that in its place (`model.forward = autocast(model.forward)`), which must not
    come to itself again.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __get__(self, compiled: CompiledModule | None, owner: type) -> Callable[..., Any]:
        if compiled is None:
            return self.function
        if torch.compiler.is_compiling():  # other compilers follow a plain method
            return compiled._run_forward
        return types.MethodType(compiled._forward_now(self.function), compiled)


_CLASS = vars(object)["__class__"]


class _AsTorchs(type):
    """Of classes below ours that are also, behind all others, torch.compile's class of compiled modules."""

    def mro(cls) -> list[type]:
        order, torchs = super().mro(), vars(cls).get("torchs")
        return order if torchs is None or torchs in order else [*order, torchs]


class CompiledModule(torch.nn.Module):
    """Attributes, parameters, state and hooks are the original's; writing one writes the original's.

    As with `torch.compile`, `state_dict` keys are the original's under `_orig_mod.`, so that checkpoints fit both ways.
    """

    def __init__(
        self,
        original: torch.nn.Module,
        options: Options | None,
        compile_call: Callable[[Callable, Any], Callable] | None,
    ) -> None:
        super().__init__()
        self.__dict__["_original"] = original
        self.__dict__["_options"] = options
        self.__dict__["_compile_call"] = compile_call
        self._modules["_orig_mod"] = original
        self._compile_forward()

    @property
    def __class__(self) -> Any:
        """What `isinstance` asks where the type itself does not say it: libraries know our modules by torch's class (`OptimizedModule`)
        and take it apart, or compile its other methods. Where that is not loaded nobody can ask."""
        cls = type(self)
        torchs = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", None)
        if not isinstance(torchs, type) or issubclass(cls, torchs):
            return cls
        made = vars(cls).get("_as_torchs")
        if made is None or made.torchs is not torchs:
            made = _AsTorchs(cls.__name__, (cls,), {"torchs": torchs, "__module__": cls.__module__, "__qualname__": cls.__qualname__})
            type.__setattr__(cls, "_as_torchs", made)
        return made

    @__class__.setter
    def __class__(self, cls: Any) -> None:
        _CLASS.__set__(self, cls)

    def _compile_forward(self) -> None:
        """Compile the `forward` that the original has now, and guard that it stays. Where the program's class says what a call does, that
        is compiled, with all that it calls."""
        state = self.__dict__
        original = state["_original"]
        state["_forward"] = original.forward
        own = state["_own_call"] = _own_call(type(original))
        called = own or original.forward
        compiled = state["_compile_call"](called, state["_options"])
        state["_compiled_call"] = compiled if own is None else types.MethodType(compiled, original)
        state["_as_compiled"] = compile_guards(_as_compiled(original), _gate.__code__)

    def _call_otherwise(self, *args: Any, **kwargs: Any) -> Any:
        """There are hooks, or the original's `forward` is another one now."""
        if any(self.__dict__[name] for name in MODULE_HOOKS):
            return super().__call__(*args, **kwargs)
        return self._run_forward(*args, **kwargs)

    __call__ = hook.GatedMethod("_as_compiled", "_compiled_call", _call_otherwise)

    def _run_forward(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            # torch.compile and torch.export read what follows.
            return self.__dict__["_original"](*args, **kwargs)
        call = self._current_call()
        original = self.__dict__["_original"]
        if any(_hook_tables(original)) and _own_call(type(original)) is None:
            return self._call_with_hooks(*args, **kwargs)
        return call(*args, **kwargs)

    def _current_call(self) -> Callable:
        """The compiled `forward`, compiled anew where the user gave the original another one since, or its class another `__call__`."""
        state = self.__dict__
        now = state["_original"].forward
        is_another = now != state["_forward"] and now is not state["_compiled_call"]
        if is_another or _own_call(type(state["_original"])) is not state["_own_call"]:
            self._compile_forward()
        return state["_compiled_call"]

    def _forward_now(self, function: Callable[..., Any]) -> Callable[..., Any]:
        state = self.__dict__
        call, of_now = self._current_call(), state["_forward"]
        known = state.get("_forwards", (None, None))
        if known[0] is call:
            return known[1]

        @functools.wraps(function)
        def forward(compiled: CompiledModule, *args: Any, **kwargs: Any) -> Any:
            if compiled is not self or state["_original"].forward == of_now:
                return function(compiled, *args, **kwargs)
            return call(*args, **kwargs)

        state["_forwards"] = call, forward
        return forward

    def _call_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """Run the original's own hooks, with the original as their module, around its compiled `forward`."""
        original = self.__dict__["_original"]
        before = original.__dict__.get("forward")
        original.__dict__["forward"] = self.__dict__["_compiled_call"]
        try:
            return original._call_impl(*args, **kwargs)
        finally:
            if before is None:
                del original.__dict__["forward"]
            else:
                original.__dict__["forward"] = before

    @property
    def _torchdynamo_orig_callable(self) -> torch.nn.Module:
        """torch.compile asks for it, and then compiles the original."""
        return self.__dict__["_original"]

    @property
    def dynamo_ctx(self) -> Callable[[Callable], Callable]:
        """What compiles other methods of the original as this compiles its `forward`: Lightning asks for it."""
        state = self.__dict__
        compile_call = state["_compile_call"]
        return lambda function: function if compile_call is None else compile_call(function, state["_options"])

    def __prepare_scriptable__(self) -> torch.nn.Module:
        """torch.jit.script asks for it, and then reads the original."""
        return self.__dict__["_original"]

    @property
    def training(self) -> bool:
        """The original's: whoever calls `train()` or `eval()`, on this module or on that one, means both."""
        return self.__dict__["_original"].training

    @training.setter
    def training(self, mode: bool) -> None:  # pyright: ignore[reportIncompatibleVariableOverride] (torch has an attribute)
        # nn.Module sets it before there is an original.
        if "_original" in self.__dict__:
            self.__dict__["_original"].training = mode

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__["_modules"]:
            return self.__dict__["_modules"][name]
        return getattr(self.__dict__["_original"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_original" not in self.__dict__:
            super().__setattr__(name, value)
        elif name == "__class__":
            object.__setattr__(self, name, value)  # what it was read from: fully_shard makes a subclass of that
        elif name == "_orig_mod":
            if value is not self.__dict__["_original"]:  # accelerate takes wrappers off it
                self.__dict__["_original"] = self.__dict__["_modules"]["_orig_mod"] = value
                self._compile_forward()
        elif sys._getframe(1).f_globals is vars(_named_member_accessor):
            # torch.func.functional_call puts tensors in the place of parameters, by their names in the original.
            _named_member_accessor.swap_tensor(self.__dict__["_original"], name, value, allow_missing=True)
        else:
            setattr(self.__dict__["_original"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_original"], name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.__dict__["_original"])})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__dict__['_original']!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        from dynascope.api import compile_again

        return compile_again, (self.__dict__["_original"], self.__dict__["_options"])


class DisabledModule(CompiledModule):
    """One whose calls are kept out of compilation: it has hooks of its own, and in its `forward` the original runs as it was written."""

    __call__ = torch.nn.Module.__call__

    def _compile_forward(self) -> None:
        pass

    def _run_forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_original"](*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        from dynascope.api import disable

        return disable, (self.__dict__["_original"],)


def kept_out(original: torch.nn.Module, disable: Callable[[Callable], Callable]) -> DisabledModule:
    return _class_over(type(original), DisabledModule, disable)(original, None, None)


_classes = WeakIdKeyDictionary()
"""By identity: a metaclass may have an `__eq__` or `__hash__` of the program's."""


def class_for(cls: type[torch.nn.Module]) -> type[CompiledModule]:
    """The class of compiled modules of a class: its `forward` says which parameters the original's has.

    Tracers read them off the class: `torch.fx` makes a proxy for each.
    """
    if cls not in _classes:
        _classes[cls] = _class_over(cls, CompiledModule, Forward)
    return _classes[cls]


def _class_over(cls: type[torch.nn.Module], base: type, forwarding: Callable[[Callable], Any]) -> type:
    def forward(self: CompiledModule, *args: Any, **kwargs: Any) -> Any:
        return self._run_forward(*args, **kwargs)

    special = {name: _of_original(name) for name in _special_methods(cls)}
    known = getattr(cls, "forward", None)  # a script's class has none, its instances do
    named = forward if known is None else functools.wraps(known)(forward)
    made = type(base.__name__, (base,), {**special, "forward": forwarding(named)})
    made.__module__, made.__qualname__ = base.__module__, base.__qualname__
    return made


def _own_call(cls: type[torch.nn.Module]) -> types.FunctionType | None:
    """The `__call__` of the program's own, if its class has one. Those of torch come to `forward`, with the hooks around it; where the
    class has a `__getattribute__` or `_call_impl`, they ask that."""
    call = cls.__call__
    if not isinstance(call, types.FunctionType):
        return None
    asked = (getattr(cls, name) for name in _CALLING)
    is_torchs = all(not isinstance(each, types.FunctionType) or each.__module__.partition(".")[0] == "torch" for each in asked)
    return None if is_torchs else call


def _special_methods(cls: type[torch.nn.Module]) -> Iterator[str]:
    """What Python looks up on a class and not on an object (`__len__`, `__iter__`, ...), where this one has it."""
    for name in dir(cls):
        if name.startswith("__") and name.endswith("__") and not hasattr(CompiledModule, name):
            if isinstance(inspect.getattr_static(cls, name), types.FunctionType):
                yield name


def _of_original(name: str) -> Callable[..., Any]:
    def method(self: CompiledModule, *args: Any, **kwargs: Any) -> Any:
        original = self.__dict__["_original"]
        result = getattr(type(original), name)(original, *args, **kwargs)
        return self if result is original else result

    method.__name__ = name
    return method


def _gate(self: CompiledModule) -> None:
    """The parameters that the guards of a call are over."""


def _as_compiled(original: torch.nn.Module) -> Iterator[Guard]:
    """What lets a call go straight to what was compiled: no hook would run, it is still the `forward`, and the class's call comes to it."""
    compiled = LocalSource("self")
    inner = DictionaryAttributeSource(compiled, "_original")
    yield Guard((compiled,), ModuleHasNoHooks())
    yield Guard((inner,), TypeIs(type(original)))
    yield Guard((inner,), ModuleHasNoHooks())
    for table in _HOOKS_OF_ALL_MODULES:
        yield Guard((table,), LengthIs(0))
    if "forward" in vars(original):
        yield Guard((DictionaryAttributeSource(inner, "forward"),), IdentityIs(vars(original)["forward"]))
    else:
        yield Guard((AttributeSource(inner, "__dict__"),), HasNoKey("forward"))
    asked = WorldLog()
    for name in ("forward", *_CALLING):
        asked.note(type(original), name, look_up(type(original), name))
    yield Guard((), WorldIs(asked.spaces()))


def _hook_tables(module: torch.nn.Module) -> list[dict]:
    return [*(vars(module)[name] for name in MODULE_HOOKS), *(table.value for table in _HOOKS_OF_ALL_MODULES)]
