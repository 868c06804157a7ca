"""Straight code and forks of it as Python to read: what compiled code does instead of the function.

    LOAD_CONST <graph>, LOAD_FAST x, CALL 1, UNPACK_SEQUENCE 2, ...      (a, b) = graph(x)

`decompiled(code)` is None where the code has loops, or instructions that no expression stands for. Objects among the constants are
called by their names; `named(value)` may have better ones.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import re
from collections.abc import Callable, Collection, Iterator
from types import BuiltinFunctionType, CodeType, MethodType
from typing import Any

from dynascope.frame.instructions import Instruction, decode

MOST_FORKS = 24
PLAIN = (int, float, complex, str, bytes, bool, type(None), type(...))
Name = Callable[[Any], str | None]


class _Unknown(Exception):
    """No words for this."""


def decompiled(code: CodeType, named: Name = lambda value: None) -> str | None:
    instructions = decode(code)
    reader = _Reader(instructions, named)
    try:
        body, _ = reader.block(0, [], 1)
    except (_Unknown, IndexError):
        return None
    name = code.co_name if code.co_name.isidentifier() else "function"
    handled = ["    # where the graph raises, the call runs once more as it was written"] if _repeats(instructions) else []
    outer = [f"    {word} {', '.join(names)}" for word, names in _names_outside(code, instructions) if names]
    return "\n".join([f"def {name}({', '.join(_parameters(code))}):", *outer, *handled, *body])


def _parameters(code: CodeType) -> list[str]:
    names = list(map(_identifier, code.co_varnames))
    rest = iter(names[code.co_argcount + code.co_kwonlyargcount :])
    parameters = names[: code.co_posonlyargcount]
    parameters += ["/"] if parameters else []
    parameters += names[code.co_posonlyargcount : code.co_argcount]
    if code.co_flags & inspect.CO_VARARGS:
        parameters.append(f"*{next(rest)}")
    elif code.co_kwonlyargcount:
        parameters.append("*")
    parameters += names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return [*parameters, f"**{next(rest)}"] if code.co_flags & inspect.CO_VARKEYWORDS else parameters


def _names_outside(code: CodeType, instructions: list[Instruction]) -> Iterator[tuple[str, list[str]]]:
    stored = {i.operation: [j.value for j in instructions if j.operation == i.operation] for i in instructions}
    yield "global", sorted({*stored.get("STORE_GLOBAL", ()), *stored.get("DELETE_GLOBAL", ())})
    yield "nonlocal", sorted({*stored.get("STORE_DEREF", ())} & {*code.co_freevars})


def _repeats(instructions: list[Instruction]) -> bool:
    return any(instruction.handler is not None for instruction in instructions)


class _Constant(str):
    """Words for what is the same whenever it is read."""


class _Reader:
    """Reads from a place on with the expressions that are on the stack; gives the lines of a block."""

    def __init__(self, instructions: list[Instruction], named: Name) -> None:
        self.instructions, self.named = instructions, named
        self.positions = {id(instruction): at for at, instruction in enumerate(instructions)}
        self.forks = 0
        self.temporaries = 0

    def block(self, at: int, stack: list[str], depth: int, until: int | None = None) -> tuple[list[str], list[str] | None]:
        """The lines from `at` on, and the stack at `until`; None where every way ends before."""
        lines: list[str] = []
        indent = "    " * depth
        seen = set()
        while at < len(self.instructions):
            if at == until:
                return lines, stack
            if at in seen:
                raise _Unknown
            seen.add(at)
            instruction = self.instructions[at]
            operation = instruction.operation
            if operation in ("RETURN_VALUE", "RERAISE", "RAISE_VARARGS"):
                lines.append(indent + self.ending(instruction, stack))
                return lines, None
            if operation in ("JUMP_FORWARD", "JUMP_BACKWARD"):
                at = self.positions[id(instruction.target)]
            elif operation in CONDITIONS:
                told, at, stack = self.fork(at, stack, depth)
                lines += told
            else:
                stored = self.stored_next(at, stack)
                statement, end = stored if stored is not None else (self.statement(instruction, stack), at + 1)
                if statement is not None:
                    names = {_identifier(i.value) for i in self.instructions[at:end] if i.operation == "STORE_FAST"}
                    own = 1 if operation == "COPY" else 0
                    kept, top = stack[: len(stack) - own], stack[len(stack) - own :]
                    lines += [indent + each for each in self.settled(kept, names)]
                    lines.append(indent + statement)
                    stack = [*kept, *top]
                at = end
        return lines, None

    def ending(self, instruction: Instruction, stack: list[str]) -> str:
        if instruction.operation == "RETURN_VALUE":
            return f"return {stack.pop()}"
        if instruction.operation == "RAISE_VARARGS":
            raised = [stack.pop() for _ in range(instruction.argument or 0)][::-1]
            return f"raise {' from '.join(raised)}".rstrip()
        raise _Unknown

    def fork(self, at: int, stack: list[str], depth: int) -> tuple[list[str], int, list[str]]:
        """What runs where the jump is not taken stands below the `if`, if it ends there or leads to where the jump does; else what
        runs where it is taken, to its end."""
        self.forks += 1
        if self.forks > MOST_FORKS:
            raise _Unknown
        instruction, indent = self.instructions[at], "    " * depth
        taken, not_taken = CONDITIONS[instruction.operation]
        condition = stack.pop()
        before = [indent + each for each in self.settled(stack, frozenset())]
        target = self.positions[id(instruction.target)]
        if target > at:
            inside, rest = self.block(at + 1, list(stack), depth + 1, target)
            if rest is None or rest == stack:
                head = f"{indent}if {not_taken.format(condition)}:"
                return [*before, head, *(inside or [f"{indent}    pass"])], target, stack
        inside, _ = self.block(target, list(stack), depth + 1)
        return [*before, f"{indent}if {taken.format(condition)}:", *inside], at + 1, stack

    def stored_next(self, at: int, stack: list[str]) -> tuple[str, int] | None:
        """A value that the next instructions give to locals: at once, with no name in between. With where they end."""
        instruction = self.instructions[at]
        if instruction.operation == "UNPACK_SEQUENCE":
            count = instruction.argument or 0
            names = [self.target(each) for each in self.instructions[at + 1 : at + 1 + count]]
            if count and None not in names:
                return f"{', '.join(filter(None, names))}{',' if count == 1 else ''} = {stack.pop()}", at + 1 + count
        if instruction.operation == "COPY" and instruction.argument == 1 and self.instructions[at + 1].operation == "STORE_FAST":
            name, text = _identifier(self.instructions[at + 1].value), stack[-1]
            stack[-1] = name
            return f"{name} = {text}", at + 2
        return None

    def target(self, instruction: Instruction) -> str | None:
        return {"STORE_FAST": _identifier(instruction.value), "POP_TOP": "_"}.get(instruction.operation)

    def settled(self, stack: list[str], stored: Collection[str]) -> Iterator[str]:
        """A statement stands before what is still on the stack: that gets a name first, unless it is the same afterwards."""
        for index, text in enumerate(stack):
            if text in stored or not (isinstance(text, _Constant) or text.isidentifier()):
                stack[index] = self.temporary()
                yield f"{stack[index]} = {text}"

    def statement(self, instruction: Instruction, stack: list[str]) -> str | None:
        """What it does; None where it only moves expressions."""
        operation, argument = instruction.operation, instruction.argument or 0
        if operation in NOTHING:
            return None
        if operation == "COPY" and not stack[-argument].replace(".", "").isidentifier():
            name, text = self.temporary(), stack[-argument]
            stack[-argument] = name
            stack.append(name)
            return f"{name} = {text}"
        if operation in IN_PLACE:
            given, target = stack.pop(), stack[-argument]
            if target.isidentifier():
                return f"{target}.{IN_PLACE[operation]}({given})"
            stack[-argument] = JOINED[operation].format(target, given)
            return None
        if operation in EXPRESSIONS:
            EXPRESSIONS[operation](self, instruction, stack, argument)
            return None
        if operation == "STORE_FAST" or operation in ("STORE_GLOBAL", "STORE_DEREF"):
            return f"{_identifier(instruction.value)} = {stack.pop()}"
        if operation == "STORE_ATTR":
            owner = stack.pop()
            return f"{owner}.{instruction.value} = {stack.pop()}"
        if operation == "STORE_SUBSCR":
            key, container = stack.pop(), stack.pop()
            return f"{container}[{key}] = {stack.pop()}"
        if operation == "DELETE_FAST":
            return f"del {_identifier(instruction.value)}"
        if operation == "POP_TOP":
            text = stack.pop()
            return text if text.endswith(")") else None
        if operation == "UNPACK_SEQUENCE":
            names = [self.temporary() for _ in range(argument)]
            text = stack.pop()
            stack += reversed(names)
            return f"{', '.join(names)}{',' if argument == 1 else ''} = {text}" if names else f"[] = {text}"
        raise _Unknown

    def temporary(self) -> str:
        self.temporaries += 1
        return f"value_{self.temporaries}"

    def constant(self, value: Any) -> str:
        name = self.named(value)
        if name is not None:
            return name
        if isinstance(value, PLAIN) or type(value) is range:
            return repr(value)
        if isinstance(value, (tuple, frozenset)):
            inside = ", ".join(map(self.constant, value))
            return f"({inside}{',' if len(value) == 1 else ''})" if isinstance(value, tuple) else f"frozenset(({inside},))"
        if isinstance(value, BuiltinFunctionType) and value.__module__ not in (None, "builtins"):
            return f"{value.__module__}.{value.__name__}"  # pybind's qualified names are those of its own types
        if isinstance(value, MethodType):
            return f"{_snake_case(type(value.__self__).__name__)}.{value.__name__}"
        return getattr(value, "__qualname__", None) or f"<{type(value).__qualname__}>"


def _identifier(name: Any) -> str:
    text = str(name)
    return text if text.isidentifier() and not keyword.iskeyword(text) else re.sub(r"\W", "_", f"local_{text}")


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _call(reader: _Reader, instruction: Instruction, stack: list[str], argument: int) -> None:
    names = instruction.keyword_names or ()
    given = [stack.pop() for _ in range(argument)][::-1]
    plain = len(given) - len(names)
    texts = given[:plain] + [f"{name}={value}" for name, value in zip(names, given[plain:], strict=True)]
    first, second = stack.pop(), stack.pop()
    callee = second if first == NULL else first
    if NULL not in (first, second):
        callee, texts = second, [first, *texts]
    if callee.rpartition(".")[2] == TAIL_CALL:
        stack.append(f"{texts[0]}({', '.join(texts[1:])})")
        return
    stack.append(f"{callee}({', '.join(texts)})")


def _attribute(reader: _Reader, instruction: Instruction, stack: list[str], argument: int) -> None:
    text = f"{stack.pop()}.{instruction.value}"
    stack += [text, NULL] if instruction.is_method else [text]


def _load_global(reader: _Reader, instruction: Instruction, stack: list[str], argument: int) -> None:
    stack += [NULL, str(instruction.value)] if instruction.pushes_null else [str(instruction.value)]


def _built(opening: str, closing: str) -> Callable[..., None]:
    def build(reader: _Reader, instruction: Instruction, stack: list[str], argument: int) -> None:
        items = [stack.pop() for _ in range(argument)][::-1]
        lone = "," if opening == "(" and argument == 1 else ""
        stack.append(f"{opening}{', '.join(items)}{lone}{closing}")

    return build


def _mapping(reader: _Reader, instruction: Instruction, stack: list[str], argument: int) -> None:
    items = [stack.pop() for _ in range(2 * argument)][::-1]
    stack.append("{" + ", ".join(f"{key}: {value}" for key, value in zip(items[::2], items[1::2], strict=True)) + "}")


def _mapping_of_constants(reader: _Reader, instruction: Instruction, stack: list[str], argument: int) -> None:
    try:
        keys = ast.literal_eval(stack.pop())
    except ValueError:
        raise _Unknown from None
    items = [stack.pop() for _ in range(argument)][::-1]
    stack.append("{" + ", ".join(f"{key!r}: {value}" for key, value in zip(keys, items, strict=True)) + "}")


def _two(text: str) -> Callable[..., None]:
    def combine(reader: _Reader, instruction: Instruction, stack: list[str], argument: int) -> None:
        second, first = stack.pop(), stack.pop()
        stack.append(text.format(first, second, instruction.value))

    return combine


def _one(text: str) -> Callable[..., None]:
    return lambda reader, instruction, stack, argument: stack.append(text.format(stack.pop()))


def _swap(reader: _Reader, instruction: Instruction, stack: list[str], argument: int) -> None:
    stack[-1], stack[-argument] = stack[-argument], stack[-1]


NULL, TAIL_CALL = _Constant("NULL"), "tail_call"
NOTHING = frozenset(["RESUME", "NOP", "MAKE_CELL", "COPY_FREE_VARS", "CACHE", "PRECALL"])
CONDITIONS = {
    "POP_JUMP_IF_FALSE": ("not {}", "{}"),
    "POP_JUMP_IF_TRUE": ("{}", "not {}"),
    "POP_JUMP_IF_NONE": ("{} is None", "{} is not None"),
    "POP_JUMP_IF_NOT_NONE": ("{} is not None", "{} is None"),
}
"""Where the jump is taken, and where not."""
IN_PLACE = {"LIST_EXTEND": "extend", "LIST_APPEND": "append", "SET_UPDATE": "update", "SET_ADD": "add", "DICT_UPDATE": "update"}
JOINED = {
    "LIST_EXTEND": "[*{0}, *{1}]", "LIST_APPEND": "[*{0}, {1}]", "SET_UPDATE": "{{*{0}, *{1}}}", "SET_ADD": "{{*{0}, {1}}}",
    "DICT_UPDATE": "{{**{0}, **{1}}}",
}  # fmt: skip
EXPRESSIONS: dict[str, Callable[[_Reader, Instruction, list[str], int], None]] = {
    "LOAD_FAST": lambda r, i, s, a: s.append(_identifier(i.value)),
    "LOAD_DEREF": lambda r, i, s, a: s.append(_identifier(i.value)),
    "LOAD_CLOSURE": lambda r, i, s, a: s.append(_identifier(i.value)),
    "LOAD_CONST": lambda r, i, s, a: s.append(_Constant(r.constant(i.value))),
    "LOAD_GLOBAL": _load_global,
    "LOAD_ATTR": _attribute,
    "PUSH_NULL": lambda r, i, s, a: s.append(NULL),
    "COPY": lambda r, i, s, a: s.append(s[-a]),
    "SWAP": _swap,
    "CALL": _call,
    "BUILD_TUPLE": _built("(", ")"),
    "BUILD_LIST": _built("[", "]"),
    "BUILD_SET": _built("{", "}"),
    "BUILD_MAP": _mapping,
    "BINARY_SUBSCR": _two("{0}[{1}]"),
    "BINARY_OP": _two("({0} {2} {1})"),
    "COMPARE_OP": _two("({0} {2} {1})"),
    "CONTAINS_OP": _two("({0} {2} {1})"),
    "GET_ITER": _one("iter({})"),
    "IS_OP": lambda r, i, s, a: s.append(f"({s.pop(-2)} is{' not' if a else ''} {s.pop()})"),
    "UNARY_NOT": _one("(not {})"),
    "UNARY_NEGATIVE": _one("(-{})"),
    "UNARY_INVERT": _one("(~{})"),
    "TO_BOOL": _one("{}"),
    "BUILD_CONST_KEY_MAP": _mapping_of_constants,
    "LIST_TO_TUPLE": _one("tuple({})"),
}
