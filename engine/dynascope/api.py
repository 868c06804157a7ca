"""The public functions: compile, explain, disable, reset.

compiled = dynascope.compile(function_or_module)
print(dynascope.explain(function, *arguments))
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import field
from typing import Any, Literal, TypeVar, cast, overload

from dynascope import loading, recording
from dynascope.callers import AskedAt, calling_place
from dynascope.configuration import Options, config
from dynascope.dataclass import dataclass
from dynascope.report.facts import CompileReport
from dynascope.report.reason import Reason
from dynascope.travelling import make_picklable

DISABLED = "__dynascope_disable__"
COMPILES = "__dynascope_compiles__"
"""What capture knows the functions by that compile what they are given (`capture/calls/compiled_inside.py`)."""
_tables: weakref.WeakKeyDictionary[Any, Options] = weakref.WeakKeyDictionary()
_overruled: dict[str, Any] = {}
F = TypeVar("F", bound=Callable[..., Any])


@overload
def compile(
    target: F,
    *,
    backend: str | Callable = ...,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
) -> F: ...
@overload
def compile(
    target: None = None,
    *,
    backend: str | Callable = ...,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
) -> Callable[[F], F]: ...
def compile(
    target: Callable | None = None,
    *,
    backend: str | Callable = "dynascope",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Callable:
    """Compile a function, a bound method, an `nn.Module` or what objects of a class do when they are called; also a decorator, with or
    without arguments.

    Nothing is compiled until the result is called. It then runs compiled code wherever its guards hold, compiles again where
    they do not, and runs as it was written where it cannot be compiled. `options` are settings of `dynascope.config`.

    Raises `ValueError` for an unknown backend, mode or option, `TypeError` for a target that cannot be called. With
    `fullgraph=True` a call that would break the graph raises `GraphBreakError` with the place and the remedy.
    """
    settings: dict[str, Any] = dict(
        backend=backend, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options, disable=disable
    )
    if target is None:
        return lambda function: compile(function, **settings)
    if disable:
        return target
    with loading.whole():
        chosen = _options(backend, fullgraph, dynamic, mode, options)
    return _compile(target, chosen)


def aot(
    target: Callable | None = None,
    *,
    forward_compiler: Callable | None = None,
    backward_compiler: Callable | None = None,
    decompositions: Mapping[Any, Callable] | None = None,
    level: Literal["aten", "core", "prims"] = "aten",
    fullgraph: bool = False,
    dynamic: bool | None = None,
) -> Callable:
    """Compile with compilers for functional graphs: the forward and the backward pass as one graph each. Also a decorator.

    A compiler is a callable `(graph: torch.fx.GraphModule, example_inputs) -> callable`; what it returns takes the graph's inputs
    and gives a tuple or list of its outputs. Graphs change nothing that comes in, and saved values have names. What the program
    writes to, aliases and views, and autograd are taken care of around them. Without a compiler a graph runs operator by operator.
    Where sizes vary the examples are fake tensors of such sizes, in torch's symbols; what relies on one at hand is compiled for each.

    `level`: `aten` as autograd made it, `core` decomposed, `prims` with type promotion and broadcasting as steps. `decompositions`
    maps operators to functions of tensors, as `torch._decomp.get_decompositions` does; they come first.
    """
    from dynascope.backends import GraphCompilers

    if level not in ("aten", "core", "prims"):
        raise ValueError(f"level is aten, core or prims, not {level!r}")
    for compiler in (forward_compiler, backward_compiler):
        if compiler is not None and not callable(compiler):
            raise TypeError(f"a compiler is a callable (graph, example_inputs) -> callable, not {compiler!r}")
    compilers = GraphCompilers(forward_compiler, backward_compiler or forward_compiler, level, dict(decompositions or {}))
    return compile(target, backend=compilers, fullgraph=fullgraph, dynamic=dynamic)


def disable(target: Callable | None = None, recursive: bool = True) -> Callable:
    """Keep a function out of compilation: calling it from a compiled function breaks the graph there. Also a decorator.

    What it calls is not compiled either, unless `recursive` is false: then functions that it calls may be. Of a class its making
    and its objects' calls are kept out; a module stays a module, with the original's parameters.
    """
    if target is None:
        return functools.partial(disable, recursive=recursive)
    if isinstance(target, type):
        return _disable_class(target, recursive)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(target, torch.nn.Module):
        from dynascope.compiled_module import kept_out

        return kept_out(cast(Any, uncompiled_target(target)), lambda function: disable(function, recursive))

    @functools.wraps(target)
    def uncompiled(*args, **kwargs):
        if not recursive:
            return target(*args, **kwargs)
        from dynascope.frame import hook

        with hook.suspended() if recursive else nullcontext():
            return target(*args, **kwargs)

    if not recursive:
        from dynascope.watching import leave_alone

        leave_alone(target)
    setattr(uncompiled, DISABLED, True)
    return uncompiled


def _disable_class(cls: type, recursive: bool) -> type:
    for name in ("__init__", "__call__"):
        entry = inspect.getattr_static(cls, name, None)
        if isinstance(entry, types.FunctionType):
            setattr(cls, name, disable(entry, recursive))
    return cls


def reset() -> None:
    """Forget every compiled entry. Compiled functions stay usable and compile anew."""
    for table in list(_tables):
        sys.modules["dynascope.pipeline"].begin_again(table)


@dataclass(frozen=True)
class Explanation:
    """What compiling did for one call. Prints as the annotated report; unpacks as torch's first `explain` did."""

    report: CompileReport
    graphs: tuple[Any, ...]
    """The captured graphs, `torch.fx.GraphModule`s in order."""
    result: Any
    recorder: Any = field(default=None, repr=False)

    def show(self, stage: str) -> str:
        """The text of a stage, as `dynascope show` prints it: torch, joint, aten, core, prims, loops, kernels, guards, ..."""
        from dynascope.report.stages import one_text, stage_texts

        self.recorder.read_levels()
        return one_text(stage_texts(self.recorder.report(), stage))

    def times(self) -> str:
        """What compiling each function cost by stage, and how many calls each compilation served."""
        from dynascope.report.times import times_text

        return times_text(self.recorder.report())

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def break_reasons(self) -> tuple:
        entries = [entry for function in self.report.functions for entry in function.entries]
        return tuple(entry.reason for entry in entries if entry.reason is not None)

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    @property
    def guards(self) -> tuple:
        return tuple(guard for f in self.report.functions for entry in f.entries for guard in entry.guards)

    @property
    def operations_per_graph(self) -> tuple[int, ...]:
        return tuple(graph.operations for graph in self.report.graphs)

    def __iter__(self):
        return iter((str(self), self.guards, self.graphs, self.operations_per_graph, self.break_reasons))

    def __str__(self) -> str:
        from dynascope.report.terminal import report_text

        return report_text(self.report)


def explain(target: Callable, *args: Any, **kwargs: Any) -> Explanation | Callable[..., Explanation]:
    """Call `target(*args, **kwargs)` freshly compiled, and say what was captured and made of it.

    A target that `compile` returned is compiled with the options it was given (`explain(compile(f, backend="eager"), x)`), all
    others with the defaults. With no arguments given, returns a function that takes them: `explain(f)(x)`.
    """
    if not args and not kwargs:
        return functools.partial(_explain, target)
    return _explain(target, *args, **kwargs)


def _explain(target: Callable, *args: Any, **kwargs: Any) -> Explanation:
    graphs: list[Any] = []
    # What strict mode would raise is what is asked for here.
    options = dataclasses.replace(_options_of_compiled(target) or config.options(), strict=False, levels=True, trace=True)
    recorder = recording.Recorder(keep_graph=graphs.append)
    before = recording.use(recorder)
    try:
        result = _compile(target, options)(*args, **kwargs)
        report = recorder.report()
    finally:
        recording.use(before)
    return Explanation(report, tuple(graphs), result, recorder)


def _options_of_compiled(target: Any) -> Options | None:
    """What a compiled function or module was compiled with; None for anything else."""
    from dynascope.compiled_module import CompiledModule
    from dynascope.frame.hook import Dispatcher

    if isinstance(target, CompiledModule):
        return vars(target)["_options"]
    if isinstance(target, types.MethodType):
        target = target.__func__
    return _tables.get(target.table) if isinstance(target, Dispatcher) else None


def uncompiled_target(target: Any) -> Callable:
    """What `compile` was given, for something that `compile` returned; other things unchanged."""
    from dynascope.compiled_module import CompiledModule
    from dynascope.frame.hook import Dispatcher

    if isinstance(target, Dispatcher):
        return target.__wrapped__
    return vars(target)["_original"] if isinstance(target, CompiledModule) else target


_NOT_GIVEN = {"backend": "dynascope", "fullgraph": False, "dynamic": None, "mode": None}


def _options(backend, fullgraph, dynamic, mode, options) -> Options:
    from dynascope.backends import find_backend, takes_fixed_sizes

    # What is given as an argument comes first, then `options`, then `dynascope.config`.
    given = dict(backend=backend, fullgraph=fullgraph, dynamic=dynamic, mode=mode)
    chosen = {name: value for name, value in given.items() if value != _NOT_GIVEN[name]}
    result = config.options(**{**(options or {}), **chosen, **_overruled})
    find_backend(result.backend)
    # Asked first whether it takes a size as a number, such a backend would refuse; and the report would promise one compilation.
    return dataclasses.replace(result, dynamic=False) if result.dynamic is None and takes_fixed_sizes(result.backend) else result


def _compile(target: Callable, options: Options, asked_at: AskedAt = calling_place) -> Callable:
    import torch

    with loading.whole():
        if _unserved() is not None:
            return target
        loading.load()
    target = uncompiled_target(target)
    from dynascope.capture.places import averages_gradients  # the engine is loaded by now

    if averages_gradients(type(target)):
        # What it does around its module is for the whole process group, and no part of a graph.
        compile_calls(cast(Any, target).module, options, asked_at)
        return target
    if isinstance(target, torch.nn.Module):
        from dynascope.compiled_module import class_for

        return class_for(type(target))(target, options, functools.partial(_compile_function, asked_at=asked_at))
    if isinstance(target, type):
        return _compile_class(target, options, asked_at)
    return _compile_function(target, options, asked_at)


@functools.cache
def _unserved() -> Reason | None:
    """Why programs run here as they were written; said once."""
    import torch

    from dynascope.requirements import unserved_python, unserved_torch

    reason = unserved_python() or unserved_torch(str(torch.__version__))
    if reason is not None:
        recorder = recording.current()
        if recorder is not None:
            recorder.problem(reason.explain())
        else:
            warnings.warn(f"dynascope: {reason.message()} {reason.remedy()}", stacklevel=4)
    return reason


def _compile_function(target: Callable, options: Options, asked_at: AskedAt = calling_place) -> Callable:
    import torch

    if isinstance(target, types.MethodType):
        owner = target.__self__
        if isinstance(owner, torch.nn.Module) and target.__name__ in ("_call_impl", "_wrapped_call_impl", "__call__"):
            return _compile_call(owner, options, asked_at)
        return types.MethodType(_compile(target.__func__, options, asked_at), owner)
    if isinstance(target, functools.partial) and type(target).__call__ is functools.partial.__call__:
        return _compile_partial(target, options)
    if not isinstance(target, types.FunctionType) or _stands_for_others(target):
        return _compile_callable(target, options)
    if _is_kept_out(target):
        return target
    from dynascope.pipeline import make_table

    table = make_table(target, options, asked_at=asked_at)
    _tables[table] = options
    _make_picklable()
    compiled = table.bind(target)
    # Names that torch.compile asks for: it then compiles the user's own function, or inlines it.
    compiled._torchdynamo_orig_callable = compiled._torchdynamo_inline = target
    return compiled


def _is_kept_out(function: types.FunctionType) -> bool:
    """By the program; what torch's optimizers mark is read all the same."""
    from dynascope.capture import CodeRegion
    from dynascope.capture.calls.python import disabled_by
    from dynascope.capture.reasons import DisabledFunction

    mark = disabled_by(function)
    if mark is None or (function.__module__ or "").startswith("torch.optim."):
        return False
    recorder = recording.current()
    if recorder is not None:
        name, inside = function.__qualname__, inspect.unwrap(function)
        span = CodeRegion(inside.__code__, name).span if isinstance(inside, types.FunctionType) else None
        recorder.problem(DisabledFunction(name, mark, is_given=True).explain(span))
    return True


def _compile_partial(target: functools.partial, options: Options) -> functools.partial:
    """The same arguments for the compiled function. Keywords and attributes are the very dicts: the program may change them later."""
    compiled: Any = functools.partial(_compile(target.func, options))
    compiled.__setstate__((compiled.func, target.args, target.keywords, vars(target)))
    return compiled


@functools.cache
def _make_picklable() -> None:
    make_picklable(_tables.get, compile_again)


def compile_again(target: Callable, options: Options | None) -> Callable:
    """What unpickling a compiled function or module calls."""
    return _compile(target, options or config.options())


def compile_calls(module: Any, options: Options, asked_at: AskedAt) -> None:
    """From now on calls of the module run compiled: `module.compile()`, which a class may have given another meaning."""
    module._compiled_call_impl = _compile_call(module, options, asked_at)


def _compile_call(module: Any, options: Options, asked_at: AskedAt) -> Callable:
    """For `module.compile()`, which keeps what it gets as an attribute: a module there would be a submodule."""
    from torch.compiler import is_compiling

    compiled = _compile(module, options, asked_at)
    if compiled is module:  # one that averages gradients around what is compiled, or a torch that is not served
        return module._call_impl

    def call(*args, **kwargs):
        if is_compiling():  # what torch.export and torch.compile read is the module itself
            return module._call_impl(*args, **kwargs)
        return compiled(*args, **kwargs)

    return call


def _compile_class(cls: type, options: Options, asked_at: AskedAt) -> type:
    """The class itself, with the calls of its objects compiled: `@torch.compile` above a class."""
    from torch.compiler import is_compiling
    from torch.nn import Module

    plain = inspect.getattr_static(cls, "__call__", None)
    if not isinstance(plain, types.FunctionType):
        raise TypeError(f"compile takes a class whose objects can be called, not {cls!r}")
    if not issubclass(cls, Module):
        cls.__call__ = _compile_function(plain, options, asked_at)
        return cls

    @functools.wraps(plain)
    def call(module, *args, **kwargs):
        if module._compiled_call_impl is None and not is_compiling():
            compile_calls(module, options, asked_at)
        return plain(module, *args, **kwargs)

    cls.__call__ = call
    return cls


def _stands_for_others(function: types.FunctionType) -> bool:
    """Whether a call of it is read as something else than its own code (`torch.compile(flex_attention)`)."""
    from dynascope.capture.calls.registry import MEANINGS, learn_imported

    learn_imported()
    return function in MEANINGS


def _compile_callable(target: Any, options: Options) -> Callable:
    """An object with a Python `__call__`; a C function has no bytecode, so there is nothing of it to compile, nor is the code of a function
    that capture has another meaning of."""
    if not callable(target):
        raise TypeError(f"compile takes a function, a method or an nn.Module, not {target!r}")
    call = uncompiled_target(getattr(type(target), "__call__", None))  # noqa: B004 (its code is wanted)
    if isinstance(call, types.FunctionType):
        return types.MethodType(_compile_function(call, options), target)

    def call_builtin(*args, **kwargs):
        return target(*args, **kwargs)

    if isinstance(target, types.FunctionType):  # a report shows where it is written
        place = {"co_filename": target.__code__.co_filename, "co_firstlineno": target.__code__.co_firstlineno}
        call_builtin.__code__ = call_builtin.__code__.replace(**place)
    return _compile_function(functools.update_wrapper(call_builtin, target, updated=()), options)


def torch_compile(
    model: Callable | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    **others: Any,
) -> Callable:
    """What `torch.compile` becomes under `dynascope run`: torch's arguments, our engine.

    torch's default backend stands for ours. `options` are Inductor's own and say nothing to us.
    """
    chosen = "dynascope" if backend == "inductor" else backend
    return compile(model, backend=chosen, fullgraph=fullgraph, dynamic=dynamic, mode=mode, disable=disable)


setattr(compile, COMPILES, True)
setattr(torch_compile, COMPILES, True)


def optimize(
    backend: str | Callable = "inductor",
    *,
    nopython: bool = False,
    guard_export_fn: Callable[[list], None] | None = None,
    guard_fail_fn: Callable[[Any], None] | None = None,
    disable: bool = False,
    dynamic: bool | None = None,
    **others: Any,
) -> Callable[[F], F]:
    """`optimize(backend)(function)`, as programs of 2022 write it, and what `torch._dynamo.optimize` becomes under `dynascope run`.

    `guard_export_fn` is called with the guards of each compilation, `guard_fail_fn` with what a guard says that failed
    (`reason`, `orig_code`). torch's default backend stands for ours.
    """
    chosen = "dynascope" if backend == "inductor" else backend
    options = {"on_guards": guard_export_fn, "on_guard_failure": guard_fail_fn}
    settings: dict[str, Any] = dict(backend=chosen, fullgraph=nopython, dynamic=dynamic, disable=disable, options=options)
    return lambda target: compile(target, **settings)


def skip(target: Callable | None = None) -> Callable:
    """Keep this function out of compilation, and not what it calls: compiled functions stay so inside. Also a decorator."""
    if target is None:
        return skip
    kept_out = disable(target, recursive=False)
    if isinstance(kept_out, types.FunctionType):
        setattr(kept_out, DISABLED, "skip")  # as the word that the program has used
    return kept_out


def torch_disable(fn: Callable | None = None, recursive: bool = True, **others: Any) -> Callable:
    """What `torch.compiler.disable` becomes."""
    return disable(fn, recursive)


def overruled_options(defaults: Any) -> Options:
    """The options of functions that are compiled without being asked for."""
    return defaults.options(**_overruled)


def overrule(chosen: dict[str, Any]) -> None:
    """Options of the command line, which win over what the program asks for."""
    _overruled.update(chosen)
