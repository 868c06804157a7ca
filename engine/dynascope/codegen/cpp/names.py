"""A name of the user's as a C++ identifier that means nothing else in the unit.

identifier("hidden")  ->  "hidden"
identifier("tanh_")   ->  "the_tanh_", because the prelude has a function of that name
"""

from __future__ import annotations

import re
from functools import cache

from dynascope.codegen.cpp.prelude import prelude_names

_KEYWORDS = frozenset(
    [
        "auto",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "class",
        "const",
        "constexpr",
        "continue",
        "default",
        "delete",
        "do",
        "double",
        "else",
        "enum",
        "explicit",
        "export",
        "extern",
        "false",
        "float",
        "for",
        "friend",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "mutable",
        "namespace",
        "new",
        "noexcept",
        "nullptr",
        "operator",
        "private",
        "protected",
        "public",
        "register",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "template",
        "this",
        "throw",
        "true",
        "try",
        "typedef",
        "typeid",
        "typename",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "wchar_t",
        "while",
        "and",
        "or",
        "not",
        "xor",
        "bitand",
        "bitor",
        "compl",
        "asm",
        "main",
        "unix",
        "linux",
    ]
)
_LOCALS = re.compile(
    r"[rcv]\d+(_at|_end|_first|_last)?|kept_\w+|given\d+|[pnNM]|error|block|stop|last|again|item|lanes|begin|end|tile|edge"
)
"""What the emitter itself names in a kernel."""


@cache
def identifier(name: str) -> str:
    name = re.sub(r"\W", "_", name)
    taken = name in _KEYWORDS or name in prelude_names() or _LOCALS.fullmatch(name)
    return f"the_{name}" if taken else name
