"""What only tells people something (print, logging, warnings, a clock) runs where the function is not compiled.

print("so far", y.mean())    ->    if not torch.compiler.is_compiling():
                                       print("so far", y.mean())
"""

from __future__ import annotations

import ast

from dynascope.fixes.edits import Edit
from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.source import CLOCKS, Source, called_name, dotted, end_of

TELLS = frozenset({
    "print", "pprint", "debug", "info", "warning", "warn", "error", "exception", "critical", "log",
    "set_postfix", "set_description", "add_scalar", "add_histogram", "log_dict",
    "breakpoint", "set_trace",
})  # fmt: skip
"""Last parts of the names of functions that are called to tell something, or to look at something."""
STREAMS = frozenset({"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__", "stdout", "stderr", "tqdm"})
WRITES = frozenset({"write", "writelines", "flush"})
"""They tell where they write to the terminal. What goes into a file is what the program makes: it is not left out."""


def told_uncompiled(site: Site) -> Fix | None:
    source, statement = site.source, site.source.statement(site.node)
    found = _told_with(source, statement)
    torch, imports = source.torch
    edits = [_wrapped(source, each, f"if not {torch}.compiler.is_compiling():") for each in found]
    made = [edit for edit in edits if edit is not None]
    if not made or len(made) < len(edits):
        return None
    what = "this" if len(made) == 1 else f"these {len(made)} statements"
    return Fix(f"Run {what} only where nothing is compiled", (*imports, *made))


def told_under_condition(site: Site) -> Fix | None:
    """`if norm > 1: warnings.warn(...)`: the branch is there for what it tells."""
    source, statement = site.source, site.source.statement(site.node)
    if not isinstance(statement, ast.If) or not (_only_tells(statement) or _tells_once(source, statement)):
        return None
    torch, imports = source.torch
    test = source.text_of(statement.test)
    joined = f"({test})" if isinstance(statement.test, ast.BoolOp | ast.IfExp | ast.NamedExpr | ast.Lambda) else test
    edit = source.replaced(statement.test, f"not {torch}.compiler.is_compiling() and {joined}")
    return Fix("Ask for this only where nothing is compiled", (*imports, edit))


def _told_with(source: Source, statement: ast.stmt) -> list[ast.stmt]:
    """The statement, where it only tells something, with what it is in for that; a clock's reading, or a text, with all that it is used
    for."""
    around = source.parent(statement)
    if isinstance(around, ast.With) and all(map(tells, around.body)):
        statement = around
    if tells(statement) or (isinstance(statement, ast.With) and all(map(tells, statement.body))):
        return [statement]
    function = source.function(statement)
    if function is None:
        return []
    statements = [each for each in ast.walk(function) if isinstance(each, ast.stmt) and each is not function]
    if _makes_text(statement):
        users = [each for each in statements if _uses(each) & _names(statement) and not isinstance(each, ast.With)]
        return [statement, *users] if users and all(map(tells, users)) else []
    if not _reads_clock(statement):
        return []
    found = [each for each in statements if _reads_clock(each)]
    names = set().union(*map(_names, found))
    for each in statements:
        # What a loop or a `with` uses, the statements inside do.
        if each not in found and not isinstance(each, ast.For | ast.While | ast.With | ast.Try) and _uses(each) & names:
            found.append(each)
            names |= _names(each)
    # What a reading is put into (`seconds.append(time.time() - start)`, `self.last = start`) is the program's own, and anybody may ask
    # for it.
    shared = {name for each in ast.walk(function) if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names}
    if names & shared or not all(tells(each) or _only_tells(each) or _gives_names(each) for each in found):
        return []
    inside = {part for each in found for part in ast.walk(each) if part is not each}
    return [each for each in found if each not in inside]


def tells(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    function = statement.value.func
    last = function.attr if isinstance(function, ast.Attribute) else dotted(function)
    if last in WRITES:
        return isinstance(function, ast.Attribute) and dotted(function.value) in STREAMS
    into = next((keyword.value for keyword in statement.value.keywords if keyword.arg == "file"), None)
    return last in TELLS and (into is None or dotted(into) in STREAMS)


def _only_tells(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and not statement.orelse and all(map(tells, statement.body))


def _tells_once(source: Source, statement: ast.If) -> bool:
    """`if not self.warned and norm > 1: warnings.warn(...); self.warned = True`: the flag says that it was told, and nobody else asks."""
    flags = {dotted(target) for each in statement.body if isinstance(each, ast.Assign) for target in each.targets}
    if statement.orelse or not flags or not any(map(tells, statement.body)) or "" in flags:
        return False
    if not all(tells(each) or (isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)) for each in statement.body):
        return False
    inside = set(ast.walk(statement.test))
    # Whatever the object is called elsewhere: `layer.warned` may be `self.warned`.
    names = {flag.rpartition(".")[2] for flag in flags}
    read = [each for each in ast.walk(source.tree) if _last_name(each) in names and isinstance(getattr(each, "ctx", None), ast.Load)]
    return bool(read) and all(each in inside for each in read)


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _reads_clock(statement: ast.stmt) -> bool:
    """A name is given a reading, or something is done with one."""
    if not isinstance(statement, ast.Assign | ast.Expr):
        return False
    return any(called_name(node).startswith(CLOCKS) for node in ast.walk(statement))


def _makes_text(statement: ast.stmt) -> bool:
    """`message = f"loss {loss.item()}"`; the same by `format` and by `%`."""
    if not isinstance(statement, ast.Assign) or not _names(statement):
        return False
    match statement.value:
        case ast.JoinedStr() | ast.Call(func=ast.Attribute(attr="format")):
            return True
        case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod()):
            return True
    return False


def _names(statement: ast.stmt) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _gives_names(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and all(isinstance(target, ast.Name) for target in statement.targets)


def _uses(statement: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def has_long_text(statement: ast.stmt) -> bool:
    """Whether a text in it goes over several lines, whose indentation is part of it."""
    texts = (node for node in ast.walk(statement) if isinstance(node, ast.Constant | ast.JoinedStr))
    return any(node.end_lineno != node.lineno for node in texts)


def _wrapped(source: Source, statement: ast.stmt, head: str) -> Edit | None:
    indentation = source.indentation(statement)
    if indentation is None:
        return None
    line, column = end_of(statement)
    rows = [row.decode() for row in source.lines[statement.lineno - 1 : line]]
    rows[-1] = source.lines[line - 1][:column].decode()
    if not has_long_text(statement):
        rows[1:] = [f"    {row}" if row.strip() else row for row in rows[1:]]
    body = "\n".join([f"{indentation}    {rows[0].lstrip()}", *rows[1:]])
    return Edit(statement.lineno, statement.col_offset, line, column, f"{head}\n{body}")
