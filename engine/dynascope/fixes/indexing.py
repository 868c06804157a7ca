"""Where the number of elements would depend on values, the mask is kept beside all of them.

losses[mask].mean()          ->  torch.where(mask, losses, 0).sum() / mask.sum()
len(torch.nonzero(x > 0))    ->  torch.count_nonzero(x > 0)
x[torch.where(m)] = 0        ->  x[m] = 0
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.source import Source, called_name, method_called

Made = Callable[[str, str, str], str]
"""From what torch is called, the values and the mask."""
REDUCED: dict[str, Made] = {
    "sum": lambda torch, values, mask: f"{torch}.where({mask}, {values}, 0).sum()",
    "mean": lambda torch, values, mask: f"({torch}.where({mask}, {values}, 0).sum() / ({mask}).sum())",
    "max": lambda torch, values, mask: f"{torch}.where({mask}, {values}, -{torch}.inf).max()",
    "min": lambda torch, values, mask: f"{torch}.where({mask}, {values}, {torch}.inf).min()",
    "amax": lambda torch, values, mask: f"{torch}.where({mask}, {values}, -{torch}.inf).amax()",
    "amin": lambda torch, values, mask: f"{torch}.where({mask}, {values}, {torch}.inf).amin()",
    "numel": lambda torch, values, mask: f"({mask}).sum()",
    "any": lambda torch, values, mask: f"({torch}.where({mask}, {values}, 0) != 0).any()",
}


def reduced_under_mask(site: Site) -> Fix | None:
    """A selection by a mask whose elements are then summed up."""
    source, selected = site.source, _selected(site)
    if selected is None:
        return None
    values, mask = selected
    parent = source.parent(site.node)
    call = source.parent(parent) if isinstance(parent, ast.Attribute) else parent
    torch, imports = source.torch
    if isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and not call.args and not call.keywords:
        name = parent.attr
    elif isinstance(call, ast.Call) and call.args == [site.node] and not call.keywords:
        name = called_name(call).removeprefix(f"{torch}.")
    else:
        return None
    if name not in REDUCED:
        return None
    text = REDUCED[name](torch, source.text_of(values), _mask_text(source, mask))
    return Fix("Keep the mask: its elements count, the others do not", (*imports, source.replaced(call, text)))


def counted(site: Site) -> Fix | None:
    """`len(torch.nonzero(m))`, `m.nonzero().shape[0]`, `m.nonzero().size(0)`"""
    source, places = site.source, _nonzero_of(site)
    if places is None:
        return None
    torch, imports = source.torch
    parent = source.parent(site.node)
    whole: ast.AST | None = None
    if called_name(parent) == "len":
        whole = parent
    elif isinstance(parent, ast.Attribute) and parent.attr in ("shape", "size"):
        whole = source.parent(parent)
    if not isinstance(whole, ast.Call | ast.Subscript):
        return None
    return Fix(
        "Count with torch.count_nonzero",
        (*imports, source.replaced(whole, f"{torch}.count_nonzero({source.text_of(places)})")),
    )


def counted_in_a_table(site: Site) -> Fix | None:
    """`torch.bincount(codes, minlength=n)`: as long as that, where no code is larger. A larger one is an error of the table's."""
    source = site.source
    torch, imports = source.torch
    # The break stands where the unknown length is in the way, which may be further down.
    within = source.function(site.node) or source.statement(site.node)
    for call in [n for n in ast.walk(within) if called_name(n) == f"{torch}.bincount"][:1]:
        match call:
            case ast.Call(args=[codes], keywords=[ast.keyword(arg="minlength", value=length)]):
                values, kind = source.operand(codes), f"dtype={torch}.int64"
                table = f"{values}.new_zeros({source.text_of(length)}, {kind})"
                text = f"{table}.index_add(0, {source.text_of(codes)}, {torch}.ones_like({source.text_of(codes)}, {kind}))"
                return Fix("Count in a table of this length (with a larger number it is an error)", (*imports, source.replaced(call, text)))
    return None


def mask_in_place_of_places(site: Site) -> Fix | None:
    """An index by `torch.where(m)` is one by `m`."""
    places = _nonzero_of(site)
    if places is None or method_called(site.node) is None:
        return None
    return Fix("Index by the mask itself", (site.source.replaced(site.node, site.source.operand(places)),))


def written_under_mask(site: Site) -> Fix | None:
    """`x[m] = y[m]`"""
    source, statement = site.source, site.source.statement(site.node)
    match statement:
        case ast.Assign(
            targets=[ast.Subscript(value=into, slice=first)], value=ast.Subscript(value=values, slice=second)
        ):
            if ast.dump(first) != ast.dump(second):
                return None
            torch, imports = source.torch
            x, y, mask = (source.text_of(node) for node in (into, values, first))
            return Fix(
                "Choose with torch.where",
                (*imports, source.replaced(statement, f"{x}[:] = {torch}.where({mask}, {y}, {x})")),
            )
    return None


def _selected(site: Site) -> tuple[ast.expr, ast.expr] | None:
    node, (torch, _) = site.node, site.source.torch
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Load)
        and not isinstance(node.slice, ast.Tuple | ast.Slice)
    ):
        return node.value, node.slice
    if called_name(node) == f"{torch}.masked_select" and isinstance(node, ast.Call) and len(node.args) == 2:
        return node.args[0], node.args[1]
    found = method_called(node)
    if found is not None and found[1] == "masked_select" and len(found[2].args) == 1:
        return found[0], found[2].args[0]
    return None


def _nonzero_of(site: Site) -> ast.expr | None:
    node, (torch, _) = site.node, site.source.torch
    if (
        isinstance(node, ast.Call)
        and called_name(node) in (f"{torch}.nonzero", f"{torch}.where")
        and len(node.args) == 1
    ):
        return node.args[0]
    found = method_called(node)
    return found[0] if found is not None and found[1] in ("nonzero", "argwhere") and not found[2].args else None


def _mask_text(source: Source, mask: ast.expr) -> str:
    return source.text_of(mask)
