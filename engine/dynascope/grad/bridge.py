"""The callable that stands for a compiled graph: autograd node, copy-back of mutated inputs, views made again.

The code is generated flat for each graph, so that a call runs no loop and no wrapper of ours:

    class Region(Function):
        def forward(ctx, *inputs):
            outputs = run_forward(*inputs)
            ctx.save_for_backward(inputs[1], outputs[2])
            ctx.kept = (keep(inputs[0]),)                 # for a second derivative alone
            return outputs[0], outputs[1]

        def backward(ctx, *tangents):
            if is_grad_enabled() or not fits(tangents):   # second derivatives; undefined or unusual tangents
                return otherwise(ctx, tangents)
            saved = ctx.saved_tensors
            given = [saved[0], saved[1], tangents[0]]
            ctx.maybe_clear_saved_tensors()               # unless the graph is retained
            del saved
            return run_backward(given)                    # which empties the list

    def call(x, w):
        outputs = apply(x, w)
        x.copy_(outputs[1])
        return (outputs[0], x)
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from dynascope.autograd_functions import hooks_from_now_on, names_read
from dynascope.grad.copying_back import copy_back
from dynascope.grad.gradients import until_the_pass_ends
from dynascope.grad.inputs import InputFacts
from dynascope.grad.pair import Computed, Constant, Expression, GradPair, InputItself, Saved, ViewOf, Watched
from dynascope.grad.partition import root_of
from dynascope.grad.second_derivative import Keeping, plan_keeping
from dynascope.grad.tangents import AS_WRITTEN, Backends, Otherwise
from dynascope.grad.tape import names_of, numbers_at, sizes_in
from dynascope.grad.versions import check_of, of_view, without_way
from dynascope.grad.views import ViewRecipe
from dynascope.sizes.expression import Root, of_root, substitute, text

aten = torch.ops.aten


def bridge(
    pair: GradPair,
    forward_callable: Callable[..., Any],
    backward_callable: Callable[..., Any] | None,
    backends: Backends = AS_WRITTEN,
) -> Callable[..., Any]:
    """`callable(*flat inputs) -> tuple`, as the captured graph's own. A backward callable that has a `with_list` takes its inputs in a
    list that it empties: what was saved is then free when it has been read, as in eager, not at the end."""
    environment: dict[str, Any] = {"run_forward": forward_callable, "no_grad": torch.no_grad, "copy_back": copy_back}
    environment |= {"view": _view, "view_unrecorded": _view_unrecorded}
    environment |= {"increment_version": torch.autograd.graph.increment_version, "written": _written}
    lines: list[str] = []
    if backward_callable is not None:
        keeping = plan_keeping(pair)
        with_list = getattr(backward_callable, "with_list", None)
        environment |= {
            "run_backward": with_list or backward_callable,
            "Function": torch.autograd.Function,
            "is_grad_enabled": torch.is_grad_enabled,
        }
        environment |= {
            "ref": weakref.ref,
            "of_view": of_view,
            "check": check_of(pair.watched),
            "nothing": torch.empty(0),
            "functions": pair.functions,
            "until_the_pass_ends": until_the_pass_ends,
            "hooks_from_now_on": hooks_from_now_on,
        }
        names = names_read(pair.program.graph) if pair.program is not None else ()
        otherwise = Otherwise(pair, keeping, backward_callable, backends, names)
        otherwise.install(environment)
        environment["result_again"] = otherwise.result_again
        lines += [*_function_source(pair, keeping, with_list is not None, bool(names)), ""]
    source = "\n".join([*lines, *_call_source(pair, environment)]) + "\n"
    exec(compile(source, f"<bridge of {pair.region}>", "exec"), environment)
    return environment["call"]  # type: ignore[return-value]


def _function_source(pair: GradPair, keeping: Keeping, with_list: bool, reads_names: bool) -> list[str]:
    count = pair.visible_count
    views = _view_outputs(pair)
    tensors = [saved for saved in pair.saved if saved.layout is not None]
    numbers = [saved for saved in pair.saved if saved.layout is None]
    inside = {output: given for given, output in pair.written_inside}
    plain = [i for i in range(count) if i not in {tangent.output for tangent in pair.tangents} and _is_tensor(pair, i)]
    marked = [f"*(() if o{i} is None else (o{i},))" if i in inside else f"o{i}" for i in plain]
    return [
        "class Region(Function):",
        "    functions, result_again = functions, result_again",
        "    @staticmethod",
        "    def forward(ctx, *inputs):",
        *_unpacked_inputs(pair),
        *(["        ctx.random_state = random_state()"] if keeping.draws else []),
        *_tuple_source("ctx.copies", [f"keep_copy(inputs[{i}])" for i in keeping.copies if not keeping.obstacle]),
        *_tuple_source("ctx.came", [f"inputs[{m.input}]._version" for m in pair.mutations if pair.overwritten]),
        "        outputs = run_forward(*inputs)",
        *(f"        o{i} = outputs[{i}]{'.data' if i in views else ''}" for i in range(count)),
        *(f"        if o{i} is inputs[{given}]: o{i} = None" for i, given in inside.items()),
        *_counting_source(pair),
        f"        ctx.save_for_backward({', '.join(_saved_source(s, pair, views) for s in tensors) or _mark(pair)})",
        *_tuple_source("ctx.numbers", [_saved_source(n, pair, views) for n in numbers]),
        *_tuple_source("ctx.kept", [f"inputs[{i}]" if held else f"keep(inputs[{i}])" for i, held in keeping.tensors]),
        *_tuple_source("ctx.versions", [f"inputs[{i}]._version" for i, _ in keeping.tensors]),
        *_tuple_source("ctx.values", [f"inputs[{i}]" for i in keeping.values]),
        *_tuple_source("ctx.watched", _watched_sources(pair)),
        *_tuple_source("ctx.held", [f"(ref(o{i}), o{i}._version)" for i in _held_results(pair)]),
        *([f"        ctx.mark_non_differentiable({', '.join(marked)})"] if marked else []),
        "        ctx.set_materialize_grads(False)",
        f"        return ({''.join(f'o{i}, ' for i in range(count))})",
        "",
        "    @staticmethod",
        "    def backward(ctx, *tangents):",
        *_backward_source(pair, tensors, numbers, with_list, reads_names),
        "",
        "apply = Region.apply",
    ]


def _unpacked_inputs(pair: GradPair) -> list[str]:
    hidden = without_way(pair)
    if not hidden:
        return []
    inputs = (f"inputs[{i}][0], " if i in hidden else f"inputs[{i}], " for i in range(pair.input_count))
    return [f"        inputs = ({''.join(inputs)})"]


def _tuple_source(name: str, items: list[str]) -> list[str]:
    return [f"        {name} = ({''.join(item + ', ' for item in items)})"] if items else []


def _backward_source(pair: GradPair, tensors: list[Saved], numbers: list[Saved], with_list: bool, reads_names: bool) -> list[str]:
    if pair.overwritten:  # which pass it is that raises, is found out there
        return ["        return otherwise(ctx, tangents)"]
    unusual = "is_grad_enabled() or not fits(tangents)" + (" or names_changed()" if reads_names else "")
    usual = [f"        if {unusual}:", "            return otherwise(ctx, tangents)"]
    names = {id(saved): f"saved[{i}]" for i, saved in enumerate(tensors)}
    names |= {id(saved): f"ctx.numbers[{i}]" for i, saved in enumerate(numbers)}
    arguments = [names[id(saved)] for saved in pair.saved]
    arguments += [f"tangents[{tangent.output}]" for tangent in pair.tangents]
    read = [*usual, "        check(ctx.watched)"] if pair.watched else usual
    if tensors or _mark(pair):
        read += ["        try: saved = ctx.saved_tensors", "        except RuntimeError: saved = None"]
        read += ["        if saved is None: return otherwise(ctx, tangents)"]
    run = f"run_backward({', '.join(arguments)})"
    if with_list:
        read.append(f"        given = [{', '.join(arguments)}]")
        read += ["        ctx.maybe_clear_saved_tensors()", "        del saved"] if tensors else []
        run = "run_backward(given)"
    if not pair.twins:
        return [*read, f"        return {_handed_on(pair, f'tuple({run})')}"]
    twins = {t.index: f"gradients[{t.first}]" + ("" if t.is_same_object else ".detach()") for t in pair.twins}
    results = "".join(twins.get(i, f"gradients[{i}]") + ", " for i in range(pair.input_count))
    return [*read, f"        gradients = {run}", f"        return {_handed_on(pair, f'({results})')}"]


def _handed_on(pair: GradPair, gradients: str) -> str:
    return f"until_the_pass_ends({gradients}, {pair.viewed})" if pair.viewed else gradients


def _mark(pair: GradPair) -> str:
    """What is saved where eager saves something and we do not: autograd notes that it was freed."""
    return "" if len(pair.possible_after) == len(pair.tangents) else "nothing"


def _results_passed_by(pair: GradPair) -> list[int]:
    """Results that a pass through the region may not come from: where there are others."""
    tangents = [tangent.output for tangent in pair.tangents]
    given = {output.index for output in pair.outputs if isinstance(output, Computed)}
    return [output for output in tangents if output in given] if len(tangents) > 1 else []


def _held_results(pair: GradPair) -> list[int]:
    return [saved.origin.index for saved in pair.saved if saved.is_held and isinstance(saved.origin, Computed)]


def _watched_sources(pair: GradPair) -> list[str]:
    sources = []
    for position, watched in enumerate(pair.watched_before_writes):
        tensor = _watched_source(watched)
        version = f"{tensor}._version" if watched.writes is None else f"version_{position}"
        may_be_view = isinstance(watched.origin, InputItself) and not _is_leaf(pair, watched.origin.index)
        reference = f"(ref({tensor}) if {tensor}._base is None else of_view({tensor}))" if may_be_view else f"ref({tensor})"
        sources.append(f"({reference}, {version})")
    return sources


def _watched_when_written(pair: GradPair) -> list[str]:
    """What eager keeps of inputs as the region leaves them is known when the writes that autograd records are counted: the region's node is
    told then."""
    inputs = [f"i{watched.origin.index}" for watched in pair.watched_after_writes]
    if not inputs:
        return []
    references = (f"(ref({i}) if {i}._base is None else of_view({i}), {i}._version), " for i in inputs)
    return [
        f"    node = outputs[{pair.tangents[0].output}].grad_fn",
        f"    if node is not None: node.watched = (*getattr(node, 'watched', ()), {''.join(references)})",
    ]


def _is_leaf(pair: GradPair, index: int) -> bool:
    facts = pair.program.inputs[index] if pair.program is not None else None
    return isinstance(facts, InputFacts) and facts.requires_grad and facts.is_leaf


def _watched_source(watched: Watched) -> str:
    index = watched.origin.index
    return f"inputs[{index}]" if isinstance(watched.origin, InputItself) else f"o{index}"


def _counting_source(pair: GradPair) -> list[str]:
    """Writes are counted before anything is saved, in eager's order: autograd looks at the versions of what a region saves when the
    region has returned, and an input that is saved may share its version with one that is written. Writes that autograd records it
    counts itself, after that."""
    last = {each.input: each.count for each in pair.mutations if not each.records_history}
    done = dict.fromkeys(last, 0)
    early = [(watched.writes, f"version_{at} = {_watched_source(watched)}._version")
             for at, watched in enumerate(pair.watched) if watched.writes is not None]  # fmt: skip
    early.sort(key=lambda each: sum(count for _, count in each[0]))
    lines = []
    for writes, line in (*early, (tuple(last.items()), "")):
        counted = [f"inputs[{at}]" for at, count in writes for _ in range(done.get(at, count), count)]
        done |= {at: count for at, count in writes if at in done}
        lines += [f"        increment_version(({', '.join(counted)},))"] if counted else []
        lines += [f"        {line}"] if line else []
    unchanged = "".join(f"inputs[{at}], " for at in pair.counted)
    lines += [f"        increment_version(({unchanged}))"] if unchanged else []
    return [*lines, *(f"        {line}" for line in _results_counted(pair, "o{}"))]


def _results_counted(pair: GradPair, name: str) -> list[str]:
    """Results that were written inside count that."""
    counted = ", ".join(name.format(output) for output, count in pair.versions for _ in range(count))
    return [f"increment_version(({counted},))"] if counted else []


def _saved_source(saved: Saved, pair: GradPair, views: dict[int, fx.Node]) -> str:
    """A saved value that shares memory with an output shares its version counter too, as in eager. By `.data` writes are not counted."""
    data = ".data" if saved.is_held else ""
    if isinstance(saved.origin, InputItself):
        return f"inputs[{saved.origin.index}]{data}"
    index = saved.origin.index
    if index < pair.visible_count:
        return f"o{index}{data}"
    root = root_of(_output_nodes(pair)[index])
    sharing = next(
        (i for i, node in enumerate(_output_nodes(pair)[: pair.visible_count]) if root_of(node) is root), None
    )
    if sharing is None or saved.layout is None:
        return f"outputs[{index}]"
    own = f"outputs[{index}]"
    return f"o{sharing}.as_strided({own}.shape, {own}.stride(), {own}.storage_offset())"


def saved_alone(pair: GradPair) -> tuple[tuple[int, int], ...]:
    """(forward output, its place among what is saved) of tensors that the backward pass alone sees: they share no memory with what the
    program gets."""
    if pair.backward is None:
        return ()
    nodes = _output_nodes(pair)
    seen = {root_of(node) for node in nodes[: pair.visible_count] if isinstance(node, fx.Node)}
    computed = ((s.origin.index, place) for place, s in enumerate(pair.saved) if isinstance(s.origin, Computed) and s.layout is not None)
    return tuple((index, place) for index, place in computed if index >= pair.visible_count and root_of(nodes[index]) not in seen)


def _view_outputs(pair: GradPair) -> dict[int, fx.Node]:
    """Outputs that are views inside the graph. Autograd forbids changing such outputs in place; eager does not."""
    nodes = _output_nodes(pair)[: pair.visible_count]
    return {i: node for i, node in enumerate(nodes) if root_of(node) is not node}


def _output_nodes(pair: GradPair) -> Any:
    return pair.forward.graph.output_node().args[0]


def _lies_contiguously(pair: GradPair, index: int) -> bool:
    inputs = [node for node in pair.forward.graph.nodes if node.op == "placeholder"]
    return inputs[index].meta["val"].is_contiguous()


def _is_tensor(pair: GradPair, index: int) -> bool:
    return isinstance(_output_nodes(pair)[index].meta["val"], torch.Tensor)


def _call_source(pair: GradPair, environment: dict[str, Any]) -> list[str]:
    parameters = ", ".join(f"i{i}" for i in range(pair.input_count))
    run = "apply" if pair.backward is not None else "run_forward"
    lines = [f"def call({parameters}):"]
    if pair.backward is not None:
        hidden = without_way(pair)
        parameters = ", ".join(f"(i{i},)" if i in hidden else f"i{i}" for i in range(pair.input_count))
    if pair.backward is None and pair.inputs_require_grad:
        lines += ["    with no_grad():", f"        outputs = run_forward({parameters})"]
    else:
        lines.append(f"    outputs = {run}({parameters})")
        lines += [f"    hooks_from_now_on(outputs[{i}])" for i in _results_passed_by(pair)]
    # Autograd may refuse those that it records: they come first, so that nothing was written when it does.
    for mutation in pair.mutations:
        if mutation.records_history:
            target, value = f"i{mutation.input}", f"outputs[{mutation.output}]"
            is_usual = _lies_contiguously(pair, mutation.input)
            lines.append(f"    {target}.copy_({value})" if is_usual else f"    copy_back({target}, {value})")
        lines += _counted([mutation.input] * (mutation.count - 1) if mutation.records_history else [])
    lines += [*_copies_back(pair), *_watched_when_written(pair)]
    if pair.backward is None:
        lines += [f"    {line}" for line in _results_counted(pair, "outputs[{}]")]
    return [*lines, f"    return ({''.join(f'{source}, ' for source in _result_sources(environment, pair))})"]


def _result_sources(environment: dict[str, Any], pair: GradPair) -> list[str]:
    """A view that is returned twice is one object; what was split is split once."""
    again = collections.Counter(id(output) for output in pair.outputs if isinstance(output, ViewOf))
    names: dict[int, str] = {}
    pieces: dict[str, str] = {}
    sources = []
    for output in pair.outputs:
        if again[id(output)] < 2:
            sources.append(_output_source(output, environment, pair, pieces))
        elif id(output) in names:
            sources.append(names[id(output)])
        else:
            name = names[id(output)] = f"view_{len(names)}"
            sources.append(f"({name} := {_output_source(output, environment, pair, pieces)})")
    return sources


def _copies_back(pair: GradPair) -> list[str]:
    """Kernels may have written an input's memory themselves: then they give the input, and an autograd node nothing."""
    lines, counted = [], list(pair.counted)
    for mutation in pair.mutations:
        if not mutation.records_history:
            target, value = f"i{mutation.input}", f"outputs[{mutation.output}]"
            unchanged = f"{value} is not None" if pair.backward is not None else f"{value} is not {target}"
            lines.append(f"    if {unchanged}: {target}.data.copy_({value})")
            counted += [mutation.input] * mutation.count
    return lines + _counted(counted if pair.backward is None else [])


def _counted(inputs: list[int]) -> list[str]:
    return [f"    increment_version(({''.join(f'i{at}, ' for at in inputs)}))"] if inputs else []


def _output_source(output: Any, environment: dict[str, Any], pair: GradPair, pieces: dict[str, str]) -> str:
    if isinstance(output, Computed):
        return f"outputs[{output.index}]"
    if isinstance(output, InputItself):
        return f"i{output.index}"
    if isinstance(output, Expression):
        return _number_source(output.size.expression, pair, environment)
    if isinstance(output, Constant):
        name = f"constant_{len(environment)}"
        environment[name] = output.value
        return name
    assert isinstance(output, ViewOf)
    source = _output_source(output.base, environment, pair, pieces)
    source = _detached(source, output) if output.detached == "before" else source
    done = 0
    for number, recipe in enumerate(output.recipes):
        if recipe.piece_of is not None:
            base = _viewed(source, output.recipes[done:number], environment, pair, output.unrecorded)
            piece = _piece_source(base, recipe, environment, pair, pieces)
            if number == len(output.recipes) - 1 and pieces.setdefault(f"returned {base} {recipe}", piece) is not piece:
                piece = _own_piece(base, recipe, environment, pair)  # the same elements were returned already: another object
            source, done = piece, number + 1
    source = _viewed(source, output.recipes[done:], environment, pair, output.unrecorded)
    return _detached(source, output) if output.detached == "after" else source


def _detached(source: str, output: ViewOf) -> str:
    if output.own_writes is None:
        return f"{source}.detach()"
    return f"written({source}.data, {output.own_writes})" if output.own_writes else f"{source}.data"


def _viewed(
    source: str, recipes: tuple[ViewRecipe, ...], environment: dict[str, Any], pair: GradPair, unrecorded: bool = False
) -> str:
    view = "view_unrecorded" if unrecorded else "view"
    return f"{view}({source}, {_recipes_source(recipes, environment, pair)})" if recipes else source


def _piece_source(
    source: str, recipe: ViewRecipe, environment: dict[str, Any], pair: GradPair, pieces: dict[str, str]
) -> str:
    assert recipe.piece_of is not None
    operator, arguments, number = recipe.piece_of
    key = f"{source} {operator} {arguments}"
    if key in pieces:
        return f"{pieces[key]}[{number}]"
    pieces[key] = f"pieces_{len(pieces)}"
    return f"({pieces[key]} := {_viewed(source, (ViewRecipe(operator, arguments),), environment, pair)})[{number}]"


def _own_piece(source: str, recipe: ViewRecipe, environment: dict[str, Any], pair: GradPair) -> str:
    """A piece of a call that gives nothing else."""
    assert recipe.piece_of is not None
    operator, arguments, number = recipe.piece_of
    return f"{_viewed(source, (ViewRecipe(operator, arguments),), environment, pair)}[{number}]"


def _recipes_source(recipes: tuple[ViewRecipe, ...], environment: dict[str, Any], pair: GradPair) -> str:
    name = f"recipes_{len(environment)}"
    roots = sorted(names_of(sizes_in([recipe.arguments for recipe in recipes])))
    if not roots:
        known = (name for name, value in environment.items() if name.startswith("recipes_") and value == recipes)
        name = next(known, name)
        environment[name] = recipes
        return name
    environment[name] = lambda **values: tuple(
        ViewRecipe(recipe.operator, numbers_at(recipe.arguments, values)) for recipe in recipes
    )
    return f"{name}({', '.join(f'{root}=i{pair.roots[root]}' for root in roots)})"


def _number_source(expression: Any, pair: GradPair, environment: dict[str, Any]) -> str:
    """The text that computes a number from the inputs."""
    return text(substitute(expression, lambda root: of_root(Root(f"i{pair.roots[root.name]}", root.kind))), environment)


def _written(tensor: torch.Tensor, times: int) -> torch.Tensor:
    """The tensor, which counts these writes."""
    torch.autograd.graph.increment_version((tensor,) * times)
    return tensor


def _view_unrecorded(base: torch.Tensor, recipes: tuple[ViewRecipe, ...]) -> torch.Tensor:
    with torch.no_grad():
        return _view(base, recipes)


def _view(base: torch.Tensor, recipes: tuple[ViewRecipe, ...]) -> torch.Tensor:
    for recipe in recipes:
        if recipe.operator is aten.as_strided.default and len(recipe.arguments) > 3:
            sizes, strides, offset, _, root_offset = recipe.arguments
            base = base.as_strided(sizes, strides, base.storage_offset() + offset - root_offset)
        else:
            base = recipe.operator(base, *recipe.arguments)
    return base
