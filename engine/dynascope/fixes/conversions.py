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
        if isinstance(call, ast.Call) and len(call.args) == 1 and isinstance(call.args[0], ast.List | ast.Tuple):
            return Fix("Join the tensors with torch.stack", (site.source.replaced(call.func, f"{torch}.stack"),))
    return None


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
    """`max(a, b)` of two tensors asks which is greater."""
    node = site.node
    call = next((n for n in (node, *site.source.above(node)) if called_name(n) in OF_TWO), None)
    if not isinstance(call, ast.Call) or len(call.args) != 2 or call.keywords:
        return None
    torch, imports = site.source.torch
    twin = OF_TWO[called_name(call)]
    return Fix(
        f"Call torch.{twin} in place of {called_name(call)}",
        (*imports, site.source.replaced(call.func, f"{torch}.{twin}")),
    )
