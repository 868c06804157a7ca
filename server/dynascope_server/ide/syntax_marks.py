"""Before any run: what in a function under `@torch.compile` will likely break the graph, from the syntax alone.

    @torch.compile
    def f(x):
        if x.max().item() > 0:     ->  Mark(line 3, "data-dependent-branch", "`if x.max().item() > 0` asks for ...")
            print(x)               ->  Mark(line 4, "print-call", ...)

A number out of a tensor (`.item()`) and a size that depends on data (`nonzero`) are no marks: the graph holds them until Python
decides by one. What a logger says is none: it is said when the graph has run. Only what is sure from the words is marked: a value
counts as a tensor where it is a parameter that is used as one, or was made by torch or from a tensor. Once the program has run, its
report says what happened, and nothing is marked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from dynascope.report.span import Span

COMPILERS = frozenset({"torch.compile", "dynascope.compile"})
REDUCTIONS = frozenset(
    {"sum", "mean", "max", "min", "any", "all", "norm", "std", "var", "prod", "median", "amax", "amin"}
)
"""Methods that tensors have and that give tensors; `shape`, `dim()` and the like give plain values."""
MAKE_TENSORS = REDUCTIONS | {
    "tanh", "relu", "sigmoid", "exp", "log", "sqrt", "rsqrt", "abs", "sin", "cos", "softmax", "log_softmax", "matmul", "mm", "bmm",
    "einsum", "cat", "stack", "where", "clamp", "add", "sub", "mul", "div", "pow", "isnan", "isinf", "isfinite", "logical_and",
    "logical_or", "logical_not", "cumsum", "argmax", "argmin", "square", "maximum", "minimum", "detach", "clone", "float", "view",
    "reshape", "item", "squeeze", "unsqueeze", "transpose", "permute", "flatten", "nan_to_num", "gelu", "silu", "zeros_like", "ones_like",
}  # fmt: skip
"""The same, of torch's functions: what is called by such a name on a tensor, or on torch, gives a tensor."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Mark:
    span: Span
    code: str
    """That of the break which is to be expected."""
    message: str


def marks(path: str, text: str) -> tuple[Mark, ...]:
    """In the order of the text; none where Python cannot read it."""
    if ".compile" not in text:
        return ()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    found = [mark for function in _compiled(tree) for mark in _of_function(path, function)]
    return tuple(sorted(dict.fromkeys(found), key=lambda mark: (mark.span.line, mark.span.column or 0)))


def _compiled(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions under the decorator, functions and modules of this file that are handed to `torch.compile`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    handed = [call.args[0] for call in calls if call.args and _dotted(call.func) in COMPILERS]
    named = {_dotted(each) for each in handed}
    classes = {_dotted(each.func) for each in handed if isinstance(each, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            if named & {_dotted(target) for target in node.targets}:
                classes.add(_dotted(node.value.func))
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS) and (node.name in named or any(map(_names_compiler, node.decorator_list))):
            yield node
        elif isinstance(node, ast.ClassDef) and node.name in classes:
            yield from (each for each in node.body if isinstance(each, FUNCTIONS) and each.name == "forward")


def _names_compiler(decorator: ast.expr) -> bool:
    return _dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) in COMPILERS


def _of_function(path: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Mark]:
    tensors = _tensors(function)
    left_out = {id(each) for node in ast.walk(function) if _is_left_out(node) for each in ast.walk(node)}
    for node in ast.walk(function):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Call):
            yield from _of_call(path, node)
        elif isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert) and _is_tensor(node.test, tensors):
            words = {ast.If: "if", ast.While: "while", ast.Assert: "assert"}.get(type(node), "if")
            yield Mark(
                _span(path, node.test), "data-dependent-branch",
                f"`{words} {ast.unparse(node.test)}` asks for the value of a tensor: the graph will break here.",
            )  # fmt: skip


def _of_call(path: str, node: ast.Call) -> Iterator[Mark]:
    span = _span(path, node)
    if isinstance(node.func, ast.Name) and node.func.id == "print":
        yield Mark(span, "print-call", "`print` writes while the function runs: the graph will break here.")


def _is_left_out(node: ast.AST) -> bool:
    """`if not torch.compiler.is_compiling():` and functions inside, which may never be called."""
    if isinstance(node, ast.If):
        return "is_compiling" in ast.unparse(node.test)
    return False


def _tensors(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """Variables that hold tensors as far as the words say: parameters called `x.sum()`, results of torch's functions."""
    arguments = {each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    known = {
        node.func.value.id
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in arguments - {"self"}
        and node.func.attr in REDUCTIONS
    }
    # A variable made from others that are made later in the text, as in loops.
    for _ in range(2):
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                if _is_tensor(node.value, frozenset(known)):
                    known.add(node.targets[0].id)
    return frozenset(known)


def _is_tensor(node: ast.expr, tensors: frozenset[str]) -> bool:
    match node:
        case ast.Name(id=name):
            return name in tensors
        case ast.Compare(left=left, ops=operators, comparators=others):
            plain = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
            return not any(isinstance(each, plain) for each in operators) and any(
                _is_tensor(each, tensors) for each in (left, *others)
            )
        case ast.BinOp(left=left, right=right):
            return _is_tensor(left, tensors) or _is_tensor(right, tensors)
        case ast.UnaryOp(operand=operand):
            return _is_tensor(operand, tensors)
        case ast.BoolOp(values=values):
            return any(_is_tensor(each, tensors) for each in values)
        case ast.Call(func=ast.Attribute(value=ast.BinOp() | ast.UnaryOp(), attr=name)) if name in REDUCTIONS:
            return True  # what arithmetic gives has such a method only where it is a tensor
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            return name in MAKE_TENSORS and (_is_tensor(owner, tensors) or _dotted(owner) == "torch")
        case _:
            return False


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def _span(path: str, node: ast.expr) -> Span:
    return Span(path, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
