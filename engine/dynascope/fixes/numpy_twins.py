"""NumPy in the middle of torch: the whole expression is written with torch.

torch.from_numpy(np.tanh(b.numpy()))  ->  torch.tanh(b)

Where arrays go from statement to statement, all of the function is.
"""

from __future__ import annotations

import ast
import copy

from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.source import called_name, dotted, method_called, numpy_name
from dynascope.fixes.words import words_of

SAME = frozenset({
    "abs", "exp", "log", "log2", "log10", "log1p", "expm1", "sqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh", "arctan", "arcsin",
    "arccos", "add", "subtract", "multiply", "divide", "maximum", "minimum", "sign", "floor", "ceil", "round", "sum", "mean", "std",
    "var", "dot", "matmul", "where", "clip", "square", "isnan", "isinf", "isfinite", "cumsum", "cumprod", "argmax", "argmin", "outer",
    "prod", "any", "all", "zeros_like", "ones_like", "stack", "flip", "roll", "tril", "triu", "einsum", "linspace", "max", "min",
    "argsort", "corrcoef", "cov", "median", "diff", "cross", "trace", "diag", "floor_divide", "logical_and", "logical_or", "logical_not",
})  # fmt: skip
"""What torch and NumPy call by one name, with the same order of arguments."""
RENAMED = {"concatenate": "cat", "absolute": "abs", "power": "pow", "negative": "neg", "expand_dims": "unsqueeze"}
KEYWORDS = {"axis": "dim", "keepdims": "keepdim", "ddof": "correction", "a_min": "min", "a_max": "max"}
DTYPES = frozenset({"float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "complex64", "complex128"})
QUANTILES = {"quantile": 1, "percentile": 100}
"""What the whole is to them."""
INTO_TORCH = ("from_numpy", "as_tensor", "tensor")


def with_torch(site: Site) -> Fix | None:
    source = site.source
    torch, imports = source.torch
    numpy = numpy_name(source.tree) or "numpy"
    whole = site.node
    for node in source.above(site.node):
        if not isinstance(node, ast.Call | ast.Attribute | ast.BinOp | ast.UnaryOp):
            break
        if isinstance(node, ast.Call) and (_is_entry(node, torch) or _is_numpy(node, numpy) or _is_exit(node)):
            whole = node
    text = _written(whole, torch, numpy)
    if text is None:
        return None
    return Fix("Compute it with torch in place of NumPy", (*imports, source.replaced(whole, text)))


def array_with_torch(site: Site) -> Fix | None:
    """What goes on as an array is made one of what torch gives."""
    source, node = site.source, site.node
    torch, imports = source.torch
    numpy = numpy_name(source.tree) or "numpy"
    if not isinstance(node, ast.Call) or not _is_numpy(node, numpy):
        return None
    text = _written(node, torch, numpy)
    return Fix("Compute it with torch, and give the array", (*imports, source.replaced(node, f"{text}.numpy()"))) if text else None


def function_with_torch(site: Site) -> Fix | None:
    """Every value of the function that is computed or converted with NumPy."""
    source = site.source
    torch, imports = source.torch
    numpy = numpy_name(source.tree) or "numpy"
    function = source.function(site.node)
    if function is None:
        return None
    edits = []
    for statement in ast.walk(function):
        value = statement.value if isinstance(statement, ast.Assign | ast.AugAssign | ast.Return) else None
        text = _written(value, torch, numpy) if value is not None else None
        if value is not None and text is not None:
            edits.append(source.replaced(value, text))
    return Fix("Compute all of the function with torch in place of NumPy", (*imports, *edits)) if len(edits) > 1 else None


def _written(whole: ast.expr, torch: str, numpy: str) -> str | None:
    """None where nothing of NumPy is in it."""
    text = words_of(_Twins(torch, numpy).visit(copy.deepcopy(whole)))
    return None if text == words_of(whole) else text


class _Twins(ast.NodeTransformer):
    def __init__(self, torch: str, numpy: str) -> None:
        self._torch, self._numpy = torch, numpy

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _is_entry(node, self._torch) and len(node.args) == 1 and not node.keywords:
            return node.args[0]
        if _is_exit(node):
            assert isinstance(node.func, ast.Attribute)
            return _on_its_device(node.func.value)
        found = method_called(node)
        if found is not None and found[1] == "astype" and len(node.args) == 1 and not node.keywords:
            return ast.Call(ast.Attribute(found[0], "to"), [self._dtype(node.args[0])], [])
        name = called_name(node).removeprefix(f"{self._numpy}.")
        if name in QUANTILES and _is_numpy(node, self._numpy) and len(node.args) == 2 and not node.keywords:
            return _quantile(self._torch, node.args[0], node.args[1], QUANTILES[name])
        if name in AS_IT_IS and _is_numpy(node, self._numpy) and len(node.args) == 1 and not node.keywords:
            return node.args[0]
        if name == "pad" and _is_numpy(node, self._numpy) and (padded := _padded(self._torch, node)) is not None:
            return padded
        if name in OF_ROWS and _is_numpy(node, self._numpy) and len(node.args) == 2:
            rows = ast.Call(ast.Attribute(ast.Name(self._torch), "stack"), [ast.List(node.args)], [])
            return ast.Call(ast.Attribute(ast.Name(self._torch), name), [rows], node.keywords)
        twin = name if name in SAME else RENAMED.get(name)
        if twin is not None and _is_numpy(node, self._numpy):
            keywords = [ast.keyword(KEYWORDS.get(k.arg or "", k.arg), k.value) for k in node.keywords]
            return ast.Call(ast.Attribute(ast.Name(self._torch), twin), node.args, keywords)
        return node

    def _dtype(self, node: ast.expr) -> ast.expr:
        name = dotted(node).removeprefix(f"{self._numpy}.")
        return ast.Attribute(ast.Name(self._torch), name) if name in DTYPES and dotted(node) != name else node


PADDING = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "wrap": "circular"}
AS_IT_IS = frozenset({"asarray", "ascontiguousarray"})
OF_ROWS = frozenset({"corrcoef", "cov"})
"""What NumPy gives two variables, torch takes them as rows of one tensor."""


def _padded(torch: str, node: ast.Call) -> ast.Call | None:
    """torch counts from the last dimension, and pads by other than a constant the last ones only."""
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    mode = keywords.pop("mode", ast.Constant("constant"))
    value = keywords.pop("constant_values", None)
    name = PADDING.get(mode.value) if isinstance(mode, ast.Constant) and isinstance(mode.value, str) else None
    match node.args:
        case [array, ast.Tuple(elts=[*pairs]) | ast.List(elts=[*pairs])] if name and not keywords:
            widths = [pair.elts for pair in pairs if isinstance(pair, ast.Tuple | ast.List) and len(pair.elts) == 2]
            if len(widths) != len(pairs):
                return None
            while widths and all(isinstance(each, ast.Constant) and each.value == 0 for each in widths[0]):
                widths = widths[1:]
            flat = [each for pair in reversed(widths) for each in pair]
            told = [ast.keyword("mode", ast.Constant(name)), *([ast.keyword("value", value)] if value is not None else [])]
            pad = ast.Attribute(ast.Attribute(ast.Attribute(ast.Name(torch), "nn"), "functional"), "pad")
            return ast.Call(pad, [array, ast.Tuple(flat)], told)
    return None


def _quantile(torch: str, values: ast.expr, share: ast.expr, whole: int) -> ast.expr:
    part = share if whole == 1 else ast.BinOp(share, ast.Div(), ast.Constant(whole))
    if isinstance(share, ast.List | ast.Tuple):
        shares = ast.Call(ast.Attribute(ast.Name(torch), "tensor"), [ast.List(share.elts)], [])
        part = shares if whole == 1 else ast.BinOp(shares, ast.Div(), ast.Constant(whole))
    if isinstance(share, ast.Constant) and isinstance(share.value, int | float):
        part = ast.Constant(share.value / whole)
    return ast.Call(ast.Attribute(ast.Name(torch), "quantile"), [values, part], [])


def _on_its_device(node: ast.expr) -> ast.expr:
    """`x.detach().cpu()` is gone through for NumPy's sake; only that no gradient flows is kept."""
    found = method_called(node)
    return _on_its_device(found[0]) if found is not None and found[1] == "cpu" else node


def _is_entry(node: ast.Call, torch: str) -> bool:
    return called_name(node) in [f"{torch}.{name}" for name in INTO_TORCH]


def _is_exit(node: ast.Call) -> bool:
    found = method_called(node)
    return found is not None and found[1] == "numpy" and not node.args


def _is_numpy(node: ast.Call, numpy: str) -> bool:
    return dotted(node.func).startswith(f"{numpy}.")
