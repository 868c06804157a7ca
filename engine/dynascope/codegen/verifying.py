"""Whether texts use only names that they have: a wrapper what it was given, what it was made with, and what it has not let go; a kernel
for a GPU what stands in its text.

    verify_wrapper(module)                        raises Invalid
    verify_kernels(module)

For tests, as `loops/verifying.py`. A wrapper is straight-line code: a name is there from its assignment to its `del`.
"""

from __future__ import annotations

import ast
import builtins
import symtable

from dynascope.codegen.kernels import KernelModule
from dynascope.loops.nodes import ExternCall
from dynascope.loops.verifying import Invalid

HELPERS = frozenset(("empty", "empty_on", "empty_cuda", "view", "restrided", "laid_out"))


def verify_wrapper(module: KernelModule) -> None:
    """Raises Invalid."""
    for step, kernel in zip(module.schedule.steps, module.kernels, strict=True):
        if isinstance(step, ExternCall) != (kernel is None):
            raise Invalid(f"{step} has a kernel where it is a library call, or none where it is not")
        for name in () if kernel is None else kernel.buffers:
            if name not in module.schedule.buffers:
                raise Invalid(f"{kernel.name} is called with {name}, which is no buffer")
    (function,) = ast.parse(module.wrapper).body
    assert isinstance(function, ast.FunctionDef)
    given = HELPERS | module.values.keys() | module.schedule.program.constants.keys() | {k.name for k in module.distinct}
    _Names(module, set(given) | {argument.arg for argument in function.args.args}).walk(function.body)


def verify_kernels(module: KernelModule) -> None:
    """Raises Invalid. Triton reads a kernel when it is built, on a machine that has a GPU."""
    for kernel in module.distinct:
        if kernel.triton is None:
            continue
        text = symtable.symtable(kernel.text, kernel.name, "exec")
        there = {symbol.get_name() for symbol in text.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
        for function in text.get_children():
            for symbol in function.get_symbols():
                if symbol.is_global() and symbol.get_name() not in there and not hasattr(builtins, symbol.get_name()):
                    raise Invalid(f"{function.get_name()} uses {symbol.get_name()}, which is not there:\n{kernel.text}")


class _Names:
    def __init__(self, module: KernelModule, there: set[str]) -> None:
        self.module, self.there = module, there

    def walk(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            match statement:
                case ast.Delete(targets=targets):
                    for target in targets:
                        assert isinstance(target, ast.Name)
                        self._used(target)
                        self.there.discard(target.id)
                case ast.If(test=test, body=body, orelse=[]):
                    self._used(test)
                    self.walk(body)
                case ast.Assign(targets=targets, value=value):
                    self._used(value)
                    self.there.update(n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
                case ast.Expr(value=value) | ast.Return(value=value):
                    self._used(value)
                case _:
                    raise Invalid(f"the wrapper has a statement of another kind: {ast.unparse(statement)}")

    def _used(self, expression: ast.AST | None) -> None:
        for node in ast.walk(expression) if expression is not None else ():
            if isinstance(node, ast.Name) and node.id not in self.there and not hasattr(builtins, node.id):
                raise Invalid(f"line {node.lineno} of the wrapper uses {node.id}, which is not there:\n{self.module.wrapper}")
