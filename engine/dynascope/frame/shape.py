"""What a code object is besides its instructions: parameters, variables, flags, and its names in tracebacks."""

from __future__ import annotations

import inspect
from types import CodeType

from dynascope.dataclass import dataclass

PARAMETER_FLAGS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
# A comprehension that Python inlines (3.12 on) may have a local of the same name as a free variable of the function.
# Slots are told apart by name here, so that local is called `x (comprehension)` until the code is assembled.
HIDDEN = " (comprehension)"
GENERATOR_FLAGS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@dataclass(frozen=True, slots=True)
class CodeShape:
    """`locals` starts with the parameters: positional, keyword-only, then those of `*` and `**` if `flags` has them.

    A local may be a cell variable too; it then has one slot. `documentation` is the first constant (a function made
    from the code takes its docstring from there).
    """

    name: str
    qualified_name: str
    filename: str
    first_line: int
    flags: int = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS
    positional_count: int = 0
    positional_only_count: int = 0
    keyword_only_count: int = 0
    locals: tuple[str, ...] = ()
    cell_variables: tuple[str, ...] = ()
    free_variables: tuple[str, ...] = ()
    documentation: object = None

    @classmethod
    def of(cls, code: CodeType) -> CodeShape:
        """The shape of an existing code object; code specialised from it keeps this shape."""
        return cls(
            name=code.co_name,
            qualified_name=code.co_qualname,
            filename=code.co_filename,
            first_line=code.co_firstlineno,
            flags=code.co_flags,
            positional_count=code.co_argcount,
            positional_only_count=code.co_posonlyargcount,
            keyword_only_count=code.co_kwonlyargcount,
            locals=_apart(code.co_varnames, code.co_freevars),
            cell_variables=_apart(code.co_cellvars, code.co_freevars),
            free_variables=code.co_freevars,
            documentation=next((c for c in code.co_consts[:1] if isinstance(c, str)), None),
        )

    @property
    def parameter_count(self) -> int:
        """Slots filled by the caller, those of `*` and `**` included."""
        extra = (self.flags & PARAMETER_FLAGS).bit_count()
        return self.positional_count + self.keyword_only_count + extra

    def slots(self, more_locals: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The names of all slots in the interpreter's order."""
        locals_ = self.locals + more_locals
        cells = (name for name in self.cell_variables if name not in locals_)
        return (*locals_, *cells, *self.free_variables)


def _apart(names: tuple[str, ...], free_variables: tuple[str, ...]) -> tuple[str, ...]:
    if free_variables and not set(names).isdisjoint(free_variables):
        return tuple(name + HIDDEN if name in free_variables else name for name in names)
    return names


def names_in_code(names: tuple[str, ...]) -> tuple[str, ...]:
    """As the code object has them."""
    return tuple(name.removesuffix(HIDDEN) for name in names)
