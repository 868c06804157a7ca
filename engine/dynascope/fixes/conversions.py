"""A number that is taken out of a tensor stays a tensor: it takes part in arithmetic all the same.

x / x.abs().max().item()        ->  x / x.abs().max()
math.exp(x.mean())              ->  torch.exp(x.mean())
torch.tensor([x.mean(), x.std()])  ->  torch.stack([x.mean(), x.std()])

A number led no gradient, and the tensor in its place does: where that makes another result, it is detached.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from dynascope.fixes.edits import Edit
from dynascope.fixes.fix import Fix, Kind, Site
from dynascope.fixes.source import called_name, end_of, method_called, numpy_name

CONVERSIONS = frozenset({"float", "bool"})
MATH = {
    "exp": "exp", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p", "expm1": "expm1", "sqrt": "sqrt", "sin": "sin",
    "cos": "cos", "tan": "tan", "tanh": "tanh", "sinh": "sinh", "cosh": "cosh", "asin": "asin", "acos": "acos", "atan": "atan",
    "atan2": "atan2", "erf": "erf", "fabs": "abs", "pow": "pow", "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite",
    "hypot": "hypot", "copysign": "copysign", "lgamma": "lgamma", "degrees": "rad2deg", "radians": "deg2rad",
}  # fmt: skip
"""What `math` and torch call the same function."""
DETACHED = ".detach()"
OF_TWO = {"max": "maximum", "min": "minimum"}
LIMIT = {"max": "min", "min": "max"}


Conversion = Callable[[Site, bool], Fix | None]


def leading(kind: Conversion) -> Kind:
    """The tensor takes part with its gradient."""
    return lambda site: kind(site, False)


def detached(kind: Conversion) -> Kind:
    """It leads no gradient, as the number did."""
    return lambda site: kind(site, True)


def item_dropped(site: Site, is_detached: bool) -> Fix | None:
    found = method_called(site.node)
    if found is None or found[1] != "item" or found[2].args:
        return None
    text = site.source.operand(found[0]) + DETACHED if is_detached else site.source.text_of(found[0])
    return Fix("Leave out .item(): " + _does(is_detached), (site.source.replaced(site.node, text),))


def conversion_dropped(site: Site, is_detached: bool) -> Fix | None:
    node, name = site.node, called_name(site.node)
    if name not in CONVERSIONS or not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return None
    text = site.source.operand(node.args[0]) + DETACHED * is_detached
    return Fix(f"Leave out {name}(): " + _does(is_detached), (site.source.replaced(node, text),))


def int_kept(site: Site) -> Fix | None:
    node = site.node
    if called_name(node) != "int" or not isinstance(node, ast.Call) or len(node.args) != 1:
        return None
    text = f"{site.source.operand(node.args[0])}.long()"
    return Fix("Convert with .long(): the tensor does what the number did", (site.source.replaced(node, text),))


def list_unbound(site: Site, is_detached: bool) -> Fix | None:
    found = method_called(site.node)
    if found is None or found[1] != "tolist":
        return None
    text = f"{site.source.operand(found[0])}{DETACHED * is_detached}.unbind()"
    return Fix("Take the tensor apart with .unbind() in place of .tolist()", (site.source.replaced(site.node, text),))


def stacked(site: Site, is_detached: bool) -> Fix | None:
    """`torch.tensor` of a list of tensors takes each one's value out."""
    torch, _ = site.source.torch
    calls = [
        n
        for n in (site.node, *site.source.above(site.node))
        if called_name(n) in (f"{torch}.tensor", f"{torch}.as_tensor")
    ]
    for call in calls[:1]:
        if not isinstance(call, ast.Call) or len(call.args) != 1:
            continue
        given = call.args[0]
        if isinstance(given, ast.ListComp | ast.GeneratorExp):
            elements = [given.elt]
        elif isinstance(given, ast.List | ast.Tuple):
            elements = given.elts
        else:
            continue
        bare = [(element, _bare(element)) for element in elements]
        taken = [site.source.replaced(element, site.source.text_of(inside)) for element, inside in bare if inside is not element]
        title = "Join the tensors with torch.stack" + ", detached" * is_detached
        return Fix(title, (site.source.replaced(call.func, f"{torch}.stack"), *taken, *_end(call, is_detached)))
    return None


def _bare(node: ast.expr) -> ast.expr:
    """The tensor that a number is taken out of."""
    found = method_called(node)
    if found is not None and found[1] == "item" and not found[2].args:
        return found[0]
    if isinstance(node, ast.Call) and called_name(node) in CONVERSIONS and len(node.args) == 1 and not node.keywords:
        return _bare(node.args[0])
    return node


def compared_in_graph(site: Site) -> Fix | None:
    """`torch.allclose(a, b)`, or the method, answers with a truth of Python's."""
    source, node = site.source, site.node
    torch, imports = source.torch
    found = method_called(node)
    if found is None or found[1] != "allclose":
        return None
    owner, _, call = found
    given = [*(() if called_name(call) == f"{torch}.allclose" else (owner,)), *call.args]
    words = [*map(source.text_of, given), *(f"{each.arg}={source.text_of(each.value)}" for each in call.keywords)]
    text = f"{torch}.isclose({', '.join(words)}).all()"
    return Fix(f"Call {torch}.isclose in place of allclose", (*imports, source.replaced(node, text)))


def math_twin(site: Site, is_detached: bool) -> Fix | None:
    name, node = called_name(site.node), site.node
    if not name.startswith("math.") or not isinstance(node, ast.Call):
        return None
    twin = MATH.get(name.removeprefix("math."))
    torch, imports = site.source.torch
    if twin is None:
        return None
    title = f"Call torch.{twin} in place of {name}" + ", detached" * is_detached
    return Fix(title, (*imports, site.source.replaced(node.func, f"{torch}.{twin}"), *_end(node, is_detached)))


def _does(is_detached: bool) -> str:
    return "the tensor does what the number did" + ", detached" * is_detached


def _end(call: ast.Call, is_detached: bool) -> tuple[Edit, ...]:
    return (Edit(*end_of(call), *end_of(call), DETACHED),) if is_detached else ()


def of_two(site: Site) -> Fix | None:
    """`max(a, b)` of tensors asks which is greater; of three it is that of two twice. A number is a limit."""
    node = site.node
    call = next((n for n in (node, *site.source.above(node)) if called_name(n) in OF_TWO), None)
    if not isinstance(call, ast.Call) or len(call.args) < 2 or call.keywords:
        return None
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    torch, imports = site.source.torch
    name = called_name(call)
    if all(map(_is_number, call.args)):
        return None
    numbers = [argument for argument in call.args if _is_number(argument)]
    first, *others = (site.source.text_of(argument) for argument in call.args if argument not in numbers)
    for other in others:
        first = f"{torch}.{OF_TWO[name]}({first}, {other})"
    for number in numbers:
        first = f"{torch}.clamp({first}, {LIMIT[name]}={site.source.text_of(number)})"
    twin = OF_TWO[name] if not numbers else "clamp"
    return Fix(f"Call torch.{twin} in place of {name}", (*imports, site.source.replaced(call, first)))


def of_two_numpy(site: Site) -> Fix | None:
    """`max(hits.sum(), 1)` of NumPy's numbers."""
    source, node = site.source, site.node
    call = next((n for n in (node, *source.above(node)) if called_name(n) in OF_TWO), None)
    numpy = numpy_name(source.tree)
    if not isinstance(call, ast.Call) or len(call.args) != 2 or call.keywords or numpy is None:
        return None
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    twin = f"{numpy}.{OF_TWO[called_name(call)]}"
    return Fix(f"Call {twin} in place of {called_name(call)}", (source.replaced(call.func, twin),))


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)
