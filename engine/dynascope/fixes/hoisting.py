"""What a function reads from outside, and no graph can, is read where the function is called.

@torch.compile                       @torch.compile
def f(x):                            def f(x, *, getpid):
    return x + os.getpid()     ->        return x + getpid
f(x)                                 f(x, getpid=os.getpid())
"""

from __future__ import annotations

import ast

from dynascope.fixes.calls import calls_of
from dynascope.fixes.edits import Edit
from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.scopes import local_names
from dynascope.fixes.source import CLOCKS, Source, called_name, dotted, end_of


def read_at_the_call(site: Site) -> Fix | None:
    """Only where every call stands in the text: a function of the module, which is not given to anybody. Not of a clock: what it says
    is where the work is."""
    source, node = site.source, site.node
    function = source.function(node)
    if function is None or function not in source.tree.body or not isinstance(node, ast.Call | ast.Attribute):
        return None
    if called_name(node).startswith(CLOCKS):
        return None
    if local_names(function) & {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}:
        return None
    calls = calls_of(source, function.name)
    parameter = _parameter(source, function, source.fresh(_name(node)))
    if not calls or parameter is None:
        return None
    name, edit = parameter
    given = [_given(source, call, f"{name}={source.text_of(node)}") for call in calls]
    return Fix(f"Read `{source.text_of(node)}` at the call and pass it", (edit, source.replaced(node, name), *given))


def _parameter(source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> tuple[str, Edit] | None:
    """By its name alone, so that no other argument moves."""
    given = function.args
    if given.vararg or given.kwarg or not given.args:
        return None
    last: ast.arg | ast.expr = given.defaults[-1] if given.defaults else given.args[-1]
    if given.kwonlyargs:
        last = given.kw_defaults[-1] or given.kwonlyargs[-1]
    assert last.end_lineno is not None and last.end_col_offset is not None  # it was parsed
    end = last.end_lineno, last.end_col_offset
    rest = source.lines[end[0] - 1][end[1] :].lstrip()
    if not rest.startswith((b")", b",")):
        return None
    return name, Edit(*end, *end, f", {name}" if given.kwonlyargs else f", *, {name}")


def _given(source: Source, call: ast.Call, text: str) -> Edit:
    last = max((*call.args, *(keyword.value for keyword in call.keywords)), key=end_of, default=None)
    line, column = end_of(last) if last is not None else (end_of(call)[0], end_of(call)[1] - 1)
    return Edit(line, column, line, column, f", {text}" if last is not None else text)


def _name(node: ast.Call | ast.Attribute) -> str:
    """The last of its words; of `random.random()` that is the module's name, and a second `random` would say nothing."""
    function = node.func if isinstance(node, ast.Call) else node
    module, _, name = dotted(function).rpartition(".")
    if not name and isinstance(function, ast.Attribute):
        return function.attr
    return "drawn" if name == module else name or "value"
