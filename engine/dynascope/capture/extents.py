"""Sizes of tensors that the program asks for, as expressions of the numbers that vary.

    y = torch.zeros((2 * n, 3)); y.shape[0]      ->  the size 2*n

The graph so far runs on meta tensors at other values of the numbers, as far as the tensor needs it; what comes out is read as
one form (`sizes.worlds`). What has no form is fixed: then the numbers are what they are in this call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice, product
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from dynascope.autograd_functions import gradients
from dynascope.capture.answers_elsewhere import AnswersElsewhere, ChangesOperand
from dynascope.capture.calls.tensor_names import FACTORIES
from dynascope.capture.metadata import META, on_meta
from dynascope.capture.operators_called import inside_on_meta
from dynascope.capture.raising import operator_name
from dynascope.capture.stated_extents import SPLITS, parts_are_stated
from dynascope.capture.values import TensorValue
from dynascope.meta_kernels import autocast, known_results, torch_warnings
from dynascope.meta_kernels.quiet_torch import without_messages
from dynascope.sizes import Scope, Size, evaluate, fix, roots_of
from dynascope.sizes.likely import likely
from dynascope.sizes.reach import edges, is_possible, keep_above, keep_below, keep_between, keep_dividing
from dynascope.sizes.steps import suitable
from dynascope.sizes.worlds import MANY_STEPS, Worlds

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


MOST_CUTS = 24
"""Relations to try, each in worlds of its own."""


def are_alike(lengths: Sequence[int], now: Any) -> bool:
    return bool(lengths) and all(length == len(now) for length in lengths)


class Extents:
    """Of one capture. `nodes` remembers what each node gives in each world."""

    def __init__(self, machine: Machine, answers: AnswersElsewhere | None = None) -> None:
        self.machine = machine
        self.answers = answers or AnswersElsewhere()
        self.are_shared = self.answers.are_shared
        self.worlds: Worlds | None = None
        self.known = (0, 0)
        self.computed = 0
        """How many numbers the program had computed when the worlds were last asked about them."""
        self.nodes: list[dict[fx.Node, Any]] = []
        self.tried: dict[tuple, dict[fx.Node, Any]] = {}
        """What each node gives with numbers that are of no world, or those at hand, by these."""
        self.varying: dict[fx.Node, bool] = {}
        """Whether numbers that vary lead to a node, of those that were asked about."""
        self.learned: set[fx.Node] = set()
        """Nodes whose sizes these worlds know."""
        self.limited: set[str] = set()
        """Roots with a largest value that the graph runs with."""
        self.warnings: Sequence[Any] = ()
        """What torch warns of while operators are asked."""

    @property
    def vary(self) -> bool:
        return bool(self.machine.sizes.scope.roots)

    def sizes(self, tensor: TensorValue) -> tuple[Any, ...]:
        """The shape, of ints and sizes."""
        sizes = tuple(self.ask(tensor, lambda example: tuple(example.shape)))
        self._keep_from_zero(sizes)
        return sizes

    def _keep_from_zero(self, sizes: Iterable[Any]) -> None:
        """No tensor has a size below 0: what would have one (`F.pad(x, (0, n))`) raises."""
        for size in sizes:
            if isinstance(size, Size) and not self.machine.sizes.are_late([size]):
                _ = size >= 0

    def ask(self, tensor: TensorValue, read: Callable[[torch.Tensor], Any]) -> Any:
        """What `read` gives of the tensor's metadata, for every value of the numbers: an answer or a tuple of them."""
        now = read(tensor.example)
        if not self.vary or not self._may_vary(tensor.node):
            return now
        is_one = not isinstance(now, tuple)
        while True:
            answers = [now, *self._answers_elsewhere(tensor.node, read)]
            if len(answers) == 1 or (not is_one and any(len(answer) != len(now) for answer in answers)):
                return self.ask(tensor, read) if self._fix_floats(tensor.node, read) else self._fixed(now)
            self.worlds.wanted = None
            found = tuple(map(self._form, [tuple(answers)] if is_one else zip(*answers, strict=True)))
            if None not in found or not (self._grow() or self._learn_on_the_way(tensor.node)):
                break
        if None in found and (self._fix_floats(tensor.node, read) or self._keep_within(tensor.node, read, now)):
            return self.ask(tensor, read)
        found = tuple(
            self._fixed(here) if form is None else form for form, here in zip(found, (now,) if is_one else now, strict=True)
        )
        self._keep_above(tensor.node, read, found[0] if is_one else found)
        return found[0] if is_one else found

    def _may_vary(self, node: fx.Node) -> bool:
        """Whether numbers that vary lead to it: what is made of others alone is the same for all of them."""
        pending = [node]
        while pending:
            each = pending[-1]
            if each in self.varying:
                pending.pop()
                continue
            own = any(word in each.meta for word in ("size", "late_result")) or (each.op == "placeholder" and "sizes" in each.meta)
            unknown = () if own else [other for other in each.all_input_nodes if other not in self.varying]
            if unknown:
                pending += unknown
            else:
                self.varying[each] = own or any(self.varying[other] for other in each.all_input_nodes)
        return self.varying[node]

    def _learn_on_the_way(self, node: fx.Node) -> bool:
        """The sizes of what the node is computed from: what it is asked for may be plain beside them (`4 * (n // 8) + 1` patches). Whether
        there were any that nobody had asked for."""
        way, pending = [], [node]
        while pending:
            unknown = [other for other in pending.pop().all_input_nodes if other not in self.learned and self._may_vary(other)]
            self.learned.update(unknown)
            pending += unknown
            way += unknown
        for other in reversed(way):
            if isinstance(example := other.meta.get("example_value"), torch.Tensor):
                self._sizes_of(other, example.shape)
        return bool(way)

    def check_runs(self, nodes: Iterable[fx.Node]) -> None:
        """Fixes the numbers that these nodes do not run with others of. One that nobody reads counts: for other sizes it may raise."""
        for node in nodes if self.vary else ():
            if self._may_vary(node) and self._answers_elsewhere(node, _shape):
                self._keep_above(node, _shape, None)
                if isinstance(example := node.meta.get("example_value"), torch.Tensor):
                    self._keep_from_zero(self._sizes_of(node, example.shape) or ())

    def settle(self, nodes: Iterable[fx.Node]) -> None:
        """Fixes the numbers that the graph does not run with others of, and says what every size is for all calls."""
        self.check_runs(nodes)
        for node in self.machine.graph.graph.nodes if self.worlds is not None else ():
            example = node.meta.get("example_value")
            if (
                isinstance(example, torch.Tensor)
                and "sizes" not in node.meta
                and node in self.nodes[0]
            ):
                sizes = self._sizes_of(node, example.shape)
                if sizes is None:  # what `out=` resized
                    self._fixed(None)
                    continue
                if None not in sizes and any(isinstance(size, Size) for size in sizes):
                    node.meta["sizes"] = sizes
                if None not in sizes:
                    self._keep_above(node, _shape, sizes)

    def _sizes_of(self, node: fx.Node, shape: torch.Size) -> tuple[Any, ...] | None:
        while True:
            shapes = [shape, *self._elsewhere(node, _shape)]
            if len({*map(len, shapes)}) > 1:
                return None
            self.worlds.wanted = None
            sizes = tuple(map(self._form, zip(*shapes, strict=True)))
            if len(shapes) == 1 or None not in sizes or not self._grow():
                break
        return sizes if len(shapes) > 1 else (None,)

    def settle_identity(self, node: fx.Node, operand: fx.Node) -> None:
        """An operation gave its operand back (`contiguous` of one row): it does so always, or the numbers are fixed. One that does not
        where it is run again here (`cpu`) asks for no sizes."""
        if not self.vary or not self._may_vary(operand):
            return
        hints = self.machine.sizes.scope.hints
        if self._is_same(node, operand, hints, self._made_with(hints)) is not True:
            return
        self._start(self.machine.sizes.scope)
        others = zip(self.worlds.values[1:], self.nodes, strict=True) if self.worlds is not None else ()
        if self.worlds is None or any(self._is_same(node, operand, values, made) is False for values, made in others):
            self._fixed(None)

    def _made_with(self, values: Mapping[str, Any]) -> dict[fx.Node, Any]:
        return self.tried.setdefault(tuple(values.values()), {})

    def _is_same(self, node: fx.Node, operand: fx.Node, values: Mapping[str, Any], made: dict[fx.Node, Any]) -> bool | None:
        """Whether an operation gives its operand back with these numbers; None where the graph does not run with them."""
        try:
            with self._on_meta():
                return self._run(node, values, made) is made[operand]
        except Exception:
            return None

    def settle_length(self, node: fx.Node, now: Any) -> None:
        """The program goes through the parts that an operation gives: there are always as many, or the numbers are fixed."""
        if operator_name(node).partition(".")[0].removesuffix("_copy") == "unbind":  # a tensor for each row, where there may be millions
            self._fix_unbound(node)
            return
        if node.target is gradients or hasattr(type(now), "n_sequence_fields"):
            return  # one for each leaf, or for each of the names that the class has
        if parts_are_stated(node):
            return
        lengths = self._answers_elsewhere(node, len)
        if not are_alike(lengths, now) and self._keep_length(node, len(now)):
            return
        if not are_alike(lengths, now) and self._rely_on_parts(node, len(now)):
            lengths = self._answers_elsewhere(node, len)
        if are_alike(lengths, now):
            self._keep_above(node, len, len(now))
        else:
            self._fixed(None)

    def _rely_on_parts(self, node: fx.Node, count: int) -> bool:
        """Of parts of a size that varies (`x.split(n // 2)`): that there are as many. Whether that could be said."""
        tensor, size, dimension = [*node.args, *node.kwargs.values(), 0][:3]
        if node.target not in SPLITS or not isinstance(size, fx.Node) or not isinstance(dimension, int):
            return False
        sizes = self._sizes_of(tensor, tensor.meta["example_value"].shape)
        whole, part = sizes[dimension] if sizes else None, size.meta.get("size")
        if whole is None or part is None or self.machine.sizes.are_late([whole, part]):
            return False
        return bool((whole + part - 1) // part == count)

    def _fix_unbound(self, node: fx.Node) -> None:
        tensor: Any = node.args[0] if node.args else node.kwargs["input"]
        dimension: Any = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
        if isinstance(dimension, fx.Node):
            fix(dimension.meta["size"])
            dimension = dimension.meta["size"].hint
        sizes: tuple[Any, ...] | None = None
        if self._answers_elsewhere(tensor, _shape):
            shape = tensor.meta["example_value"].shape
            sizes = self._sizes_of(tensor, shape)
            if sizes is not None and None in sizes and self._learn_on_the_way(tensor):
                sizes = self._sizes_of(tensor, shape)
        if sizes is None or None in sizes:
            self._fixed(None)
        else:
            self._keep_above(tensor, _shape, sizes)
            fix(sizes[dimension])

    def fix_least(self, node: fx.Node) -> None:
        """A count without which being what it is at least the call would raise is that: who counts in a table means its length."""
        scope = self.machine.sizes.scope
        counts = [name for name in scope.late if scope.roots[name].low > 1]
        for name in set(counts) - scope.pinned() if counts and self._may_vary(node) else ():
            if not self._asked(Worlds(scope, [name], {name: MANY_STEPS}), node, _shape):
                fix(scope.root(name, scope.hints[name]))

    def _keep_length(self, node: fx.Node, length: int) -> bool:
        """Whether there are as many for numbers from some least to some largest one, which is then relied on."""
        scope = self.machine.sizes.scope

        def fits(values: Mapping[str, Any]) -> bool:
            try:
                with self._on_meta():
                    return len(self._run(node, values, {})) == length
            except Exception:
                return False

        varied = [] if self.worlds is None else self.worlds.varied
        deciding = [name for name in varied if not all(fits({**scope.hints, name: v[name]}) for v in self.worlds.values)]
        return len(deciding) == 1 and keep_between(scope, deciding[0], fits)

    def _keep_above(self, node: fx.Node, read: Callable[[Any], Any], found: Any) -> None:
        """What was found holds for all sizes that are no less than what is relied on; without any, that the program runs."""

        def holds(values: Mapping[str, Any]) -> bool:
            try:
                with self._on_meta():
                    tensor = self._run(node, values, self._made_with(values))
            except Exception:
                return self._are_late_where_not_at_hand(values)
            try:
                with self._on_meta():
                    answer = read(tensor)
            except Exception:
                return False
            return found is None or _agree(found, answer, values)

        def fits(values: Mapping[str, Any]) -> bool:
            return holds(values) and all(holds({**values, **beside}) for beside in besides)

        if self.worlds is not None:
            besides = self.worlds.beside_hand()
            keep_above(self.machine.sizes.scope, self.worlds.varied, fits, self.worlds.steps)

    def _are_late_where_not_at_hand(self, values: Mapping[str, Any]) -> bool:
        """Whether the run finds out itself that the program does not run with these numbers: no guard can be asked about them."""
        scope = self.machine.sizes.scope
        return all(name in scope.late for name, value in values.items() if value != scope.hints.get(name))

    def _form(self, row: tuple) -> Any:
        if all(type(answer) is type(row[0]) and answer == row[0] for answer in row):
            return row[0]
        return self.worlds.expression(row) if type(row[0]) is int and not self.worlds.wanted else None

    def _grow(self) -> bool:
        """Whether there is a world more, as two forms fitted."""
        if self.worlds is None or not self.worlds.grow():
            return False
        self.nodes.append({})
        return True

    def _fixed(self, now: Any) -> Any:
        scope = self.machine.sizes.scope
        for name, root in scope.roots.items():
            fix(scope.root(name, scope.hints[name], root.low, root.high))
        return now

    def _answers_elsewhere(self, node: fx.Node, read: Callable[[torch.Tensor], Any]) -> list[Any]:
        """Numbers that the graph does not run with others of are fixed, and only those, where it is each by itself."""
        self._start(self.machine.sizes.scope)
        if self.worlds is None or (answers := self._elsewhere(node, read)):
            return answers if self.worlds is not None else []
        if self._fix_floats(node, read):
            return self._answers_elsewhere(node, read)
        if self._keep_together(node, read):
            return self._answers_elsewhere(node, read)
        scope = self.machine.sizes.scope
        limited = self.limited - scope.pinned()
        for name in limited:
            fix(scope.root(name, scope.hints[name]))
        if limited:
            return self._answers_elsewhere(node, read)
        needed = [
            name
            for name in self.worlds.varied
            if not self._asked(Worlds(scope, [name], {name: MANY_STEPS}), node, read)
        ]
        for name in needed:
            if not self._limit(name, node):
                fix(scope.root(name, scope.hints[name]))
        if needed:
            return self._answers_elsewhere(node, read)
        found = suitable(scope, self.worlds.varied, lambda worlds: self._asked(worlds, node, read) or None, of_floats=True)
        if found is None:
            return []
        self._start(scope)
        self._begin(found[0])
        return self._elsewhere(node, read)

    def _fix_floats(self, node: fx.Node, read: Callable[[torch.Tensor], Any]) -> bool:
        """Whether what floats say is relied on from now on, because what is asked follows from them: the integers that the program made
        of floats, else the floats themselves."""
        if self.worlds is None or not self.worlds.floats:
            return False
        sizes = [size for size in self._numbers_before(node) if self.worlds.follows_floats(size)]
        scope, floats = self.machine.sizes.scope, self.worlds.floats
        moved = [{**scope.hints, **{name: world[name] for name in floats}} for world in self.worlds.values[1:] if sizes]
        here = self._answer(node, read, scope.hints) if moved else None
        elsewhere = (self._answer(node, read, values) for values in moved if is_possible(scope, values))
        if all(answer is not None and answer == here for answer in elsewhere):
            return False
        for kind in (int, float):
            relied_on = len(scope.log)
            for size in sizes:
                if kind is int and size.kind is int:
                    fix(size)
                for root in roots_of([size]) if kind is float else ():
                    if root.name in floats:
                        fix(scope.root(root.name, scope.hints[root.name]))
            if len(scope.log) > relied_on:
                return True
        return False

    def _keep_within(self, node: fx.Node, read: Callable[[torch.Tensor], Any], now: Any) -> bool:
        """Whether what is asked has a form where a number stays on its side of an end at which something is cut (`table[:, :n]`,
        `x[:, -20:]`), which is relied on then."""
        scope = self.machine.sizes.scope
        for size, end in islice(self._cuts(node), MOST_CUTS):
            relied_on = len(scope.log)
            _ = size <= end
            if len(scope.log) > relied_on and self._has_form(node, read, now):
                return True
            scope.log.take_back(relied_on)
            self.known = 0, 0
        return False

    def _keep_together(self, node: fx.Node, read: Callable[[torch.Tensor], Any]) -> bool:
        """Whether the graph runs where a number that it is given keeps to a size that it is given for, both of which vary; that is relied
        on then."""
        scope = self.machine.sizes.scope
        if len(scope.roots.keys() - scope.pinned()) < 2:
            return False
        for rely in likely(self._cuts(node), scope.pinned()):
            relied_on = len(scope.log)
            if rely() and len(scope.log) > relied_on and self._runs_up_to_edges(node, read):
                return True
            scope.log.take_back(relied_on)
            self.known = 0, 0
        self._start(scope)
        return False

    def _runs_up_to_edges(self, node: fx.Node, read: Callable[[torch.Tensor], Any]) -> bool:
        self._start(self.machine.sizes.scope)
        if self.worlds is None or not self._elsewhere(node, read):
            return False
        at_edges = (values for world in self.worlds.values[:2] for values in edges(self.machine.sizes.scope, world, self.worlds.varied))
        return all(self._runs(node, values) for values in at_edges)

    def _cuts(self, node: fx.Node) -> Iterator[tuple[Size | int, Any]]:
        """What operations are given as numbers, beside the sizes of the tensors that they are given; the nearest operation first."""
        pending, met = [node], {node}
        while pending:
            operation = pending.pop(0)
            inputs, numbers = operation.all_input_nodes, _numbers_given(operation)
            for other in inputs if numbers else ():
                example = other.meta.get("example_value")
                if isinstance(example, torch.Tensor):
                    sizes = (self._sizes_of(other, example.shape) if self._may_vary(other) else None) or example.shape
                    for size, number in product(sizes, numbers):
                        if size is not None and any(isinstance(each, Size) for each in (size, number)):
                            yield number, size
            pending += [other for other in inputs if other not in met]
            met.update(inputs)

    def _has_form(self, node: fx.Node, read: Callable[[torch.Tensor], Any], now: Any) -> bool:
        """Whether what is asked has one where all that is relied on holds, up to its edges: there things are cut off first."""
        scope = self.machine.sizes.scope
        self._start(scope)
        answers = [now, *self._elsewhere(node, read)] if self.worlds is not None else []
        if len(answers) < 2:
            return False
        self.worlds.wanted = None
        found = tuple(map(self._form, zip(*answers, strict=False) if isinstance(now, tuple) else [tuple(answers)]))
        if None in found:
            return False
        known = [values for world in self.worlds.values[:2] for values in edges(scope, world, self.worlds.varied)]
        answers_there = [self._answer(node, read, values) for values in known]
        return all(
            answer is not None and _agree(found, answer if isinstance(now, tuple) else (answer,), values)
            for answer, values in zip(answers_there, known, strict=True)
        )

    def _answer(self, node: fx.Node, read: Callable[[torch.Tensor], Any], values: Mapping[str, Any]) -> Any:
        try:
            with self._on_meta():
                return read(self._run(node, values, {}))
        except Exception:
            return None

    def _numbers_before(self, node: fx.Node) -> list[Size]:
        """Those that lead to a node."""
        pending, met = [node], {node: None}
        while pending:
            for other in pending.pop().all_input_nodes:
                if other not in met:
                    met[other] = None
                    pending.append(other)
        return [each.meta["size"] for each in met if isinstance(each.meta.get("size"), Size)]

    def _limit(self, name: str, node: fx.Node) -> bool:
        """Whether the graph runs with the divisors of a size, or with numbers up to some largest one, which is then relied on."""
        if name in self.limited:
            return False
        self.limited.add(name)
        scope, nodes = self.machine.sizes.scope, self.machine.graph.graph.nodes
        shapes = [getattr(each.meta.get("example_value"), "shape", ()) for each in nodes]
        runs = partial(self._runs, node)
        return keep_dividing(scope, name, shapes, runs) or keep_below(scope, name, runs)

    def _runs(self, node: fx.Node, values: Mapping[str, Any]) -> bool:
        try:
            with self._on_meta():
                self._run(node, values, {})
        except Exception:
            return False
        return True

    def _asked(self, worlds: Worlds, node: fx.Node, read: Callable[[torch.Tensor], Any]) -> list[Any]:
        """The answers in worlds of another kind."""
        other = Extents(self.machine, self.answers)
        other._begin(worlds)
        return other._elsewhere(node, read) if other.worlds is not None else []

    def _elsewhere(self, node: fx.Node, read: Callable[[torch.Tensor], Any]) -> list[Any]:
        """The answers in the other worlds; none where the graph does not run there."""
        try:
            with self._on_meta():
                return [
                    read(self._run(node, values, made))
                    for values, made in zip(self.worlds.values[1:], self.nodes, strict=True)
                ]
        except Exception:
            return []

    def varying_dimensions(self, tensor: TensorValue) -> tuple[int, ...]:
        """The dimensions of which other calls have another size, as far as that is seen without relying on anything."""
        if not self.vary or not self._may_vary(tensor.node):
            return ()
        scope, here = self.machine.sizes.scope, tensor.example.shape
        is_known = self.worlds is not None and self.known == (len(scope.roots), len(scope.log))
        worlds = self.worlds if is_known else Worlds(scope, of_floats=True)
        try:
            with self._on_meta():
                shapes = [self._run(tensor.node, values, self._made_with(values)).shape for values in worlds.values[1:]]
        except Exception:
            return ()
        return tuple(d for d, size in enumerate(here) if any(len(shape) > d and shape[d] != size for shape in shapes))

    def _start(self, scope: Scope) -> None:
        """Worlds that keep to all that was relied on so far."""
        if self.known == (len(scope.roots), len(scope.log)):
            self._follow_computed()
            return
        if self.worlds is None or self.known[0] != len(scope.roots) or not self.worlds.are_possible:
            worlds = self._wide_enough(scope)  # to fix a number that only the run knows is a break: then these are the old ones
            self.known = (len(scope.roots), len(scope.log))
            self._begin(worlds)
        else:
            self.known = (len(scope.roots), len(scope.log))
            self._follow_computed()

    def _wide_enough(self, scope: Scope) -> Worlds:
        """Worlds of all numbers that vary; without those that hardly can by what was relied on (`h // 8 <= 4` where h is 32): they are
        fixed, and the others go on."""
        worlds = Worlds(scope, of_floats=True)
        if worlds.are_enough:
            return worlds
        confined = [name for name in worlds.varied if not Worlds(scope, [name]).are_enough]
        if not confined or len(confined) == len(worlds.varied):
            return worlds
        for name in confined:
            fix(scope.root(name, scope.hints[name]))
        return Worlds(scope, of_floats=True)

    def _follow_computed(self) -> None:
        """Numbers that the program computed since: other worlds may be needed to tell them apart."""
        if self.worlds is not None and self.computed != len(self.machine.graph.numbers):
            self.worlds.tell_apart(self._computed())
            self.nodes += [{} for _ in range(len(self.worlds.values) - 1 - len(self.nodes))]

    def _computed(self) -> list[Size]:
        numbers = self.machine.graph.numbers
        self.computed = len(numbers)
        return [node.meta["size"] for node in numbers.values() if "size" in node.meta]

    def _begin(self, worlds: Worlds) -> None:
        self.worlds = worlds if worlds.are_enough else None
        self.learned = set()
        worlds.tell_apart(self._computed())
        worlds.learn(self._computed())
        self.nodes = [{} for _ in worlds.values[1:]]

    @contextmanager
    def _on_meta(self) -> Iterator[None]:
        """How the graph's operators are asked: of what torch warns there no program hears, whose sizes are others."""
        with torch_warnings.noted() as self.warnings, torch.device("meta"), torch.no_grad():
            yield

    def _run(self, wanted: fx.Node, values: Mapping[str, Any], made: dict[fx.Node, Any]) -> Any:
        if self.are_shared is not self.answers.are_shared:
            self._ask_anew()
        try:
            return self._follow(wanted, values, made)
        except ChangesOperand:
            self._ask_anew()
            made.clear()
            return self._follow(wanted, values, made)

    def _ask_anew(self) -> None:
        """Of nodes that may hold what other questions changed."""
        self.are_shared = self.answers.are_shared
        for made in (*self.nodes, *self.tried.values()):
            made.clear()

    def _follow(self, wanted: fx.Node, values: Mapping[str, Any], made: dict[fx.Node, Any]) -> Any:
        pending = [wanted]
        while pending:
            node = pending[-1]
            # A number is what the values say: what it is computed of may be known to the run alone (`tolist`).
            read = () if "size" in node.meta else node.all_input_nodes
            missing = [other for other in read if other not in made]
            if node in made or not missing:
                pending.pop()
            if node not in made and not missing:
                operands = map(made.__getitem__, read)
                made[node] = self.answers.of(node, values, operands, partial(self._value, node, values, made))
            pending += missing
        return made[wanted]

    def _value(self, node: fx.Node, values: Mapping[str, Any], made: dict[fx.Node, Any]) -> Any:
        if node.op == "placeholder":
            return self._placeholder(node, values)
        if "size" in node.meta:
            return evaluate(node.meta["size"].expression, values)
        arguments = fx.node.map_arg(node.args, made.__getitem__)
        keywords = {
            name: META if name == "device" and item is not None else on_meta(fx.node.map_arg(item, made.__getitem__))
            for name, item in node.kwargs.items()
        }
        if (late := node.meta.get("late_result")) is not None:
            return late.made(arguments, keywords, values)
        if node.target is gradients:
            return tuple(map(torch.empty_like, arguments[1]))
        if _is_factory(node, arguments):
            keywords["device"] = META
        arguments = tuple(map(on_meta, arguments))
        called = getattr(type(arguments[0]), node.target) if node.op == "call_method" else node.target
        with (
            autocast.simulated(lambda tensor: "cpu"),
            without_messages(),
            inside_on_meta(called),
            known_results.used(called, self.warnings),
        ):
            return called(*arguments, **keywords)

    def _placeholder(self, node: fx.Node, values: Mapping[str, Any]) -> Any:
        if "size" in node.meta:
            return evaluate(node.meta["size"].expression, values)
        example = node.meta["example_value"]
        if not isinstance(example, torch.Tensor) or "sizes" not in node.meta:
            return example.detach() if isinstance(example, torch.Tensor) else example
        sizes, strides = (
            tuple(
                evaluate(extent.expression, values) if isinstance(extent, Size) else extent
                for extent in node.meta[name]
            )
            for name in ("sizes", "strides")
        )
        return torch.empty_strided(sizes, strides, dtype=example.dtype, device=META)


def _numbers_given(node: fx.Node) -> list[Size | int]:
    """Those that vary, and how far from an end the fixed ones are that say where something is cut."""
    varying = [other.meta["size"] for other in node.all_input_nodes if isinstance(other.meta.get("size"), Size)]
    fixed: list[int] = []
    fx.node.map_aggregate((node.args, node.kwargs), lambda each: fixed.append(abs(each)) if type(each) is int else None)
    return [*dict.fromkeys(varying), *sorted({*fixed} - {0, 1})]


def _is_factory(node: fx.Node, arguments: tuple) -> bool:
    """Whether it makes a tensor of numbers alone. Not every such function asks for the default device, and one that draws
    random numbers for a real tensor (`torch.normal`) takes them from the program's generator."""
    return (
        node.op == "call_function"
        and getattr(node.target, "__name__", None) in FACTORIES
        and not any(isinstance(item, torch.Tensor) for item in tree_leaves(arguments))
    )


def _shape(example: Any) -> Any:
    return getattr(example, "shape", None)


def _agree(found: Any, answer: Any, values: Mapping[str, Any]) -> bool:
    """Whether sizes and numbers are what an answer at these values says."""
    if isinstance(found, tuple):
        return len(found) == len(answer) and all(
            _agree(each, part, values) for each, part in zip(found, answer, strict=True)
        )
    return bool((evaluate(found.expression, values) if isinstance(found, Size) else found) == answer)
