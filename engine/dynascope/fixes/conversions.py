"""A number that is taken out of a tensor stays a tensor: it takes part in arithmetic all the same.

x / x.abs().max().item()        ->  x / x.abs().max()
math.exp(x.mean())              ->  torch.exp(x.mean())
torch.tensor([x.mean(), x.std()])  ->  torch.stack([x.mean(), x.std()])
"""

from __future__ import annotations

import ast

from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.source import called_name, method_called

CONVERSIONS = frozenset({"float", "bool"})
MATH = {
    "exp": "exp", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p", "expm1": "expm1", "sqrt": "sqrt", "sin": "sin",
    "cos": "cos", "tan": "tan", "tanh": "tanh", "sinh": "sinh", "cosh": "cosh", "asin": "asin", "acos": "acos", "atan": "atan",
    "atan2": "atan2", "erf": "erf", "fabs": "abs", "pow": "pow", "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite",
    "hypot": "hypot", "copysign": "copysign", "lgamma": "lgamma", "degrees": "rad2deg", "radians": "deg2rad",
}  # fmt: skip
"""What `math` and torch call the same function."""
OF_TWO = {"max": "maximum", "min": "minimum"}


def item_dropped(site: Site) -> Fix | None:
    found = method_called(site.node)
    if found is None or found[1] != "item" or found[2].args:
        return None
    return Fix(
        "Leave out .item(): the tensor does what the number did",
        (site.source.replaced(site.node, site.source.text_of(found[0])),),
    )


def conversion_dropped(site: Site) -> Fix | None:
    node, name = site.node, called_name(site.node)
    if name not in CONVERSIONS or not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return None
    text = site.source.operand(node.args[0])
    return Fix(f"Leave out {name}(): the tensor does what the number did", (site.source.replaced(node, text),))


def int_kept(site: Site) -> Fix | None:
    node = site.node
    if called_name(node) != "int" or not isinstance(node, ast.Call) or len(node.args) != 1:
        return None
    text = f"{site.source.operand(node.args[0])}.long()"
    return Fix("Convert with .long(): the tensor does what the number did", (site.source.replaced(node, text),))


def list_unbound(site: Site) -> Fix | None:
    found = method_called(site.node)
    if found is None or found[1] != "tolist":
        return None
    text = f"{site.source.operand(found[0])}.unbind()"
    return Fix("Take the tensor apart with .unbind() in place of .tolist()", (site.source.replaced(site.node, text),))


def stacked(site: Site) -> Fix | None:
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
        return Fix("Join the tensors with torch.stack", (site.source.replaced(call.func, f"{torch}.stack"), *taken))
    return None


def _bare(node: ast.expr) -> ast.expr:
    """The tensor that a number is taken out of."""
    found = method_called(node)
    if found is not None and found[1] == "item" and not found[2].args:
        return found[0]
    if isinstance(node, ast.Call) and called_name(node) in CONVERSIONS and len(node.args) == 1 and not node.keywords:
        return _bare(node.args[0])
    return node


def math_twin(site: Site) -> Fix | None:
    name, node = called_name(site.node), site.node
    if not name.startswith("math.") or not isinstance(node, ast.Call):
        return None
    twin = MATH.get(name.removeprefix("math."))
    torch, imports = site.source.torch
    if twin is None:
        return None
    return Fix(f"Call torch.{twin} in place of {name}", (*imports, site.source.replaced(node.func, f"{torch}.{twin}")))


def of_two(site: Site) -> Fix | None:
    """`max(a, b)` of tensors asks which is greater; of three it is that of two twice."""
    node = site.node
    call = next((n for n in (node, *site.source.above(node)) if called_name(n) in OF_TWO), None)
    if not isinstance(call, ast.Call) or len(call.args) < 2 or call.keywords:
        return None
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    torch, imports = site.source.torch
    twin = OF_TWO[called_name(call)]
    first, *others = map(site.source.text_of, call.args)
    for other in others:
        first = f"{torch}.{twin}({first}, {other})"
    return Fix(f"Call torch.{twin} in place of {called_name(call)}", (*imports, site.source.replaced(call, first)))
