"""An order that tensors say is one that torch finds.

sorted(range(n), key=lambda i: scores[i].item(), reverse=True)   ->  torch.argsort(scores[:n], descending=True, stable=True)
max(x.item() for x in lengths)                                   ->  torch.stack([x for x in lengths]).amax()
"""

from __future__ import annotations

import ast

from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.loops import without_item
from dynascope.fixes.source import Source, called_name
from dynascope.fixes.words import words_of

EXTREMES = {"max": "amax", "min": "amin"}


def order_found_by_torch(site: Site) -> Fix | None:
    """The places come as a tensor: where the program needs Python's numbers, the results are others."""
    source = site.source
    call = next((n for n in (site.node, *source.above(site.node)) if called_name(n) == "sorted"), None)
    if not isinstance(call, ast.Call) or len(call.args) != 1:
        return None
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    key, backwards = given.pop("key", None), given.pop("reverse", ast.Constant(False))
    if given or not isinstance(backwards, ast.Constant) or not isinstance(key, ast.Lambda) or len(key.args.args) != 1:
        return None
    if called_name(call.args[0]) != "range":
        return None
    torch, imports = source.torch
    name = key.args.args[0].arg
    values = f"{torch}.stack([{source.text_of(without_item(key.body))} for {name} in {source.text_of(call.args[0])}])"
    order = ", descending=True" if backwards.value else ""
    return Fix("Find the order with torch.argsort", (*imports, source.replaced(call, f"{torch}.argsort({values}{order}, stable=True)")))


def extreme_found_by_torch(site: Site) -> Fix | None:
    """`max(... for ...)`, whose numbers are taken out of tensors, or whose tensors are compared."""
    source = site.source
    call = next((n for n in (site.node, *source.above(site.node)) if called_name(n) in EXTREMES), None)
    match call:
        case ast.Call(args=[ast.GeneratorExp() | ast.ListComp() as made], keywords=[]):
            torch, imports = source.torch
            name = EXTREMES[called_name(call)]
            return Fix(f"Call torch's {name}", (*imports, source.replaced(call, _stacked(source, made, name, torch))))
    return None


def _stacked(source: Source, made: ast.GeneratorExp | ast.ListComp, name: str, torch: str) -> str:
    loops = " ".join(words_of(each).strip() for each in made.generators)
    return f"{torch}.stack([{source.text_of(without_item(made.elt))} {loops}]).{name}()"
