"""Graphs some of whose inputs are numbers that vary, through backends that might take their examples for constants.

    call = compile_with_symbols(backend, graph, example_inputs, when_kept)      Torch IR
    call = compile_functional_with_symbols(compiler, graph, when_kept)          a functional graph

A backend gets what torch.compile's backends get: fake tensors, and torch's symbols for the numbers, in which the tensors' sizes are
written too. What the backend asks of them while it compiles (`n <= 4096`, `n % 8 == 0`) is relied on, and guarded as what our own stages
rely on. A symbol that becomes a number of Python's is fixed: `SymbolFixed` is raised, and the graph
captured again with a constant. What the backend keeps for its run (`torch.ones(example.shape[0])`) becomes a number only then,
namely the one at hand, or torch's operators refuse it. So the symbols are watched as long as they live: what becomes a number holds
for calls with the numbers at hand alone, `when_kept(names)` is told so, and other calls run the graph's operators.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import torch
from torch import fx
from torch._dynamo.source import ConstantSource
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from dynascope.backends import Backend, SymbolFixed
from dynascope.dataclass import dataclass
from dynascope.runtime.operators import run_operators
from dynascope.sizes import Scope, Size, evaluate, is_size, roots_of

WhenKept = Callable[[frozenset[str]], None]
DESCRIPTIONS = ("example_value", "val", "tensor_meta")
"""Where backends look for what a node's value is."""


class WatchedSymbols(ShapeEnv):
    """Torch's symbols, which know whether one of them was taken for the number at hand, also after the backend is done."""

    def __init__(self) -> None:
        super().__init__()
        self.is_compiled = False
        self.names: dict[Any, str] = {}
        """The program's number for each symbol."""
        self.has_served_others = False
        """Whether the backend's code has run with other numbers than those at hand."""
        self.guarded = 0
        """How many of the first guards are ours now."""

    @property
    def is_fixed(self) -> bool:
        return bool(self.guards[self.guarded :] or self.replacements)

    def rely_in(self, scope: Scope) -> None:
        """What was decided so far is relied on in `scope`, all or nothing. Not where it says which number one is."""
        relied_on, pinned = len(scope.log), scope.pinned()
        known = scope.roots.keys() - scope.late  # no guard can be asked of numbers that come with the run
        sizes = {symbol: scope.of(name) for symbol, name in self.names.items() if name in known}
        try:
            hold = not self.replacements and all(
                sympy_interp(PythonReferenceAnalysis, sizes, guard.expr) is True for guard in self.guards
            )
        except Exception:  # a function that sizes do not have, or a symbol of no number of ours
            hold = False
        if hold and scope.pinned() == pinned:
            self.guarded = len(self.guards)
        else:
            scope.log.take_back(relied_on)

    def error(self) -> SymbolFixed:
        expressions = [guard.expr for guard in self.guards[self.guarded :]]
        symbols = {symbol for expression in (*expressions, *self.replacements) for symbol in expression.free_symbols}
        names = frozenset(self.names[symbol] for symbol in symbols if symbol in self.names)
        return SymbolFixed(names, ", ".join(map(str, expressions)))

    def evaluate_expr(self, *arguments: Any, **keywords: Any) -> Any:
        answer = super().evaluate_expr(*arguments, **keywords)
        if self.is_compiled and self.is_fixed and self.has_served_others:
            raise self.error()
        return answer


def compile_with_symbols(
    backend: Backend, graph: fx.GraphModule, example_inputs: tuple, when_kept: WhenKept, *, leaves_nothing: bool
) -> Callable:
    """Raises `SymbolFixed` where the backend relied on a number's value, and whatever the backend raises. `leaves_nothing` says that
    the graph writes and draws nothing: its operators can run after the backend's code has failed.

    What lies inside of the graph is described for the numbers at hand alone, so it is described to nobody."""
    shapes = WatchedSymbols()
    fake_mode = FakeTensorMode(shape_env=shapes)
    placeholders = _placeholders(graph)
    counted = {root.name for root in roots_of(extent for node in placeholders for extent in _extents(node))}
    roots = [str(node.meta.get("size", node.name)) for node in placeholders]
    symbols = {
        root: _symbol(shapes, root, at, example, is_size=root in counted)
        for at, (root, example) in enumerate(zip(roots, example_inputs, strict=True))
        if not isinstance(example, torch.Tensor)
    }
    inputs = [
        _fake(fake_mode, example, node, symbols) if isinstance(example, torch.Tensor) else symbols[root]
        for node, root, example in zip(placeholders, roots, example_inputs, strict=True)
    ]
    given = _copied(graph)
    for node in given.graph.nodes:
        for name in DESCRIPTIONS:
            node.meta.pop(name, None)
    for node, value in zip(_placeholders(given), inputs, strict=True):
        node.meta["example_value"] = value
    numbers = {at: example for at, example in enumerate(example_inputs) if not isinstance(example, torch.Tensor)}
    sizes = (node.meta.get("size") for node in placeholders)
    scope = next((size.scope for size in sizes if isinstance(size, Size)), None)
    watch = Watch(numbers, lambda: graph.forward, when_kept, leaves_nothing, scope)
    return _compiled(backend, given, inputs, fake_mode, watch)


def compile_functional_with_symbols(
    compiler: Backend, graph: fx.GraphModule, when_kept: WhenKept, *, is_guarded: bool
) -> Callable:
    """The same for a functional graph, of an entry whose guards are made later (`is_guarded`) or were made before. The compiler gets a
    copy whose every value (`meta["val"]`, what `print_readable` shows) is a fake tensor of such sizes; `graph` stays as it is."""
    copied = _copied(graph)
    nodes = [node for node in copied.graph.nodes if "val" in node.meta]
    shapes = WatchedSymbols()
    fake_mode = FakeTensorMode(shape_env=shapes)
    extents = [extent for node in nodes for extent in _extents_inside(node)]
    counted = {root.name for root in roots_of(extents)}
    placeholders = [node for node in nodes if node.op == "placeholder"]
    numbers = {
        at: node.meta["val"] for at, node in enumerate(placeholders) if not isinstance(node.meta["val"], torch.Tensor)
    }
    names = {at: str(placeholders[at].meta.get("size", placeholders[at].name)) for at in numbers}
    symbols = {name: _symbol(shapes, name, at, numbers[at], is_size=name in counted) for at, name in names.items()}
    # A backward graph gets sizes only of which it computes; its tensors have others.
    hints = {name: number for extent in extents if is_size(extent) for name, number in extent.scope.hints.items()}
    for at, name in enumerate(sorted(counted - symbols.keys()), len(placeholders)):
        symbols[name] = _symbol(shapes, name, at, hints[name], is_size=True)
    for node in nodes:
        _describe_in_symbols(node, fake_mode, symbols)
    shapes_at_hand = {
        at: tuple(node.meta["val"].shape)
        for at, node in enumerate(_placeholders(graph))
        if isinstance(node.meta.get("val"), torch.Tensor)
    }
    scope = next((extent.scope for extent in extents if is_size(extent)), None) if is_guarded else None
    watch = Watch(numbers, lambda: run_operators(graph), when_kept, True, scope, shapes_at_hand)
    return _compiled(compiler, copied, [node.meta["val"] for node in placeholders], fake_mode, watch)


@dataclass(frozen=True)
class Watch:
    """What a call is told from others by: `numbers` are those at hand, by position, `shapes` those of tensors. `otherwise()` makes what
    serves any call. What the backend relies on can be relied on in `scope`."""

    numbers: Mapping[int, int | float]
    otherwise: Callable[[], Callable]
    when_kept: WhenKept
    leaves_nothing: bool
    scope: Scope | None
    shapes: Mapping[int, tuple[int, ...]] | None = None

    def is_at_hand(self, inputs: tuple[Any, ...]) -> bool:
        return all(inputs[at] == number for at, number in self.numbers.items()) and all(
            inputs[at].shape == shape for at, shape in (self.shapes or {}).items()
        )


def _compiled(backend: Backend, graph: fx.GraphModule, inputs: list[Any], fake_mode: Any, watch: Watch) -> Callable:
    with tracing(TracingContext(fake_mode)):
        compiled = backend(graph, inputs)
    shapes = fake_mode.shape_env
    if shapes.is_fixed and watch.scope is not None:
        shapes.rely_in(watch.scope)
    if shapes.is_fixed:
        raise shapes.error()
    shapes.is_compiled = True
    run = _watched(compiled, shapes, watch)
    if (left := getattr(compiled, "left", None)) is not None:
        run.left = left  # type: ignore[attr-defined]
    return run


def _watched(compiled: Callable, shapes: WatchedSymbols, watch: Watch) -> Callable:
    otherwise: Callable | None = None
    is_told = has_failed = False

    def call(*inputs: Any) -> Any:
        nonlocal is_told, has_failed
        is_at_hand = watch.is_at_hand(inputs)
        if has_failed or (shapes.is_fixed and not is_at_hand):
            return by_operators(inputs)
        shapes.has_served_others |= not is_at_hand
        try:
            result = compiled(*inputs)
        except Exception:
            if not watch.leaves_nothing:
                raise
            result = by_operators(inputs)  # what the program itself does wrong raises here as well
            has_failed = True
        is_wrong = shapes.is_fixed and not is_at_hand and not has_failed  # the backend caught what the symbol raised
        if (shapes.is_fixed or has_failed) and not is_told:
            is_told = True
            watch.when_kept(shapes.error().names)
        if is_wrong:
            raise shapes.error()
        return result

    def by_operators(inputs: tuple[Any, ...]) -> Any:
        nonlocal otherwise
        otherwise = otherwise or watch.otherwise()
        return otherwise(*inputs)

    return call


def _copied(graph: fx.GraphModule) -> fx.GraphModule:
    return fx.GraphModule(graph, copy.deepcopy(graph.graph))


def _placeholders(graph: fx.GraphModule) -> list[fx.Node]:
    return [node for node in graph.graph.nodes if node.op == "placeholder"]


def _describe_in_symbols(node: fx.Node, fake_mode: Any, symbols: Mapping[str, Any]) -> None:
    value, layouts = node.meta["val"], _layouts(node)
    if "size" in node.meta:
        known: Collection[str] = {root.name for root in roots_of([node.meta["size"]])}
        if known <= symbols.keys():
            node.meta["val"] = evaluate(node.meta["size"].expression, symbols)
    elif isinstance(value, torch.Tensor):
        layout = layouts[0] if layouts else None
        node.meta["val"] = _fake_of(fake_mode, layout, value, node.meta.get("device") or value.device, symbols)
    elif len(layouts) == len(value):
        fakes = [
            _fake_of(fake_mode, layout, each, layout.device, symbols)
            for layout, each in zip(layouts, value, strict=True)
        ]
        node.meta["val"] = type(value)(fakes)


def _layouts(node: fx.Node) -> tuple[Any, ...]:
    layout = node.meta.get("layout")
    return () if layout is None else tuple(layout) if isinstance(layout, (list, tuple)) else (layout,)


def _extents_inside(node: fx.Node) -> tuple[Any, ...]:
    return tuple(
        extent for layout in _layouts(node) if layout is not None for extent in (*layout.sizes, *layout.strides)
    )


def _fake_of(
    fake_mode: Any, layout: Any, example: torch.Tensor, device: Any, symbols: Mapping[str, Any]
) -> torch.Tensor:
    """Without a layout all of the example's numbers are as they are."""
    sizes, strides = (example.shape, example.stride()) if layout is None else (layout.sizes, layout.strides)
    with fake_mode:
        at = _in_symbols(sizes, symbols), _in_symbols(strides, symbols)
        return torch.empty_strided(*at, dtype=example.dtype, device=device)


def _in_symbols(extents: Iterable[Any], symbols: Mapping[str, Any]) -> list[Any]:
    return [evaluate(extent.expression, symbols) if is_size(extent) else extent for extent in extents]


def _extents(node: fx.Node) -> tuple[Any, ...]:
    return *node.meta.get("sizes", ()), *node.meta.get("strides", ())


def _fake(fake_mode: Any, example: torch.Tensor, node: fx.Node, symbols: Mapping[str, Any]) -> torch.Tensor:
    """A tensor without memory, its sizes and strides written in the symbols."""
    if not any(map(is_size, _extents(node))):
        return fake_mode.from_tensor(example, static_shapes=True)
    extents = node.meta.get("sizes", example.shape), node.meta.get("strides", example.stride())
    with fake_mode:
        made = torch.empty_strided(
            *(_in_symbols(each, symbols) for each in extents), dtype=example.dtype, device=example.device
        )
        return made.requires_grad_(example.requires_grad)


def _symbol(shapes: WatchedSymbols, name: str, position: int, number: int | float, is_size: bool) -> Any:
    """A size is 2 or more, as the entry's guards say."""
    number = number if isinstance(number, int) else float(number)  # a float of NumPy's is one
    source = ConstantSource(f"number_{position}")
    make = shapes.create_symbol if is_size and number >= 2 else shapes.create_unspecified_symbol
    made = make(number, source, dynamic_dim=DimDynamic.DYNAMIC)
    shapes.names[made] = name
    create = shapes.create_symintnode if isinstance(number, int) else shapes.create_symfloatnode
    return create(made, hint=number, source=source)
