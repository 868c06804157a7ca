"""New texts in place of those that ran: functions get new code, names that need nothing run are set; what else changed is unknown.

renewal = renew({"model.py": (old, new)}, functions)
renewal.code_of(code)            the code that stands in the new text for one of the old
renewal.unknown_of(codes)        what they use that only a run can say: `SCALE = measure()` was edited
"""

from __future__ import annotations

import ast
import os
import sys
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field

from dynascope.dataclass import dataclass
from dynascope.live.definitions import Definition, definitions, literal_defaults, loose_statements, names_made

Codes = dict[str, list[types.CodeType]]


@dataclass(frozen=True, slots=True)
class Unknown:
    """`name` means something that only a run can say; all that a class is made of where it ends with a dot."""

    name: str
    file: str
    line: int
    message: str


@dataclass(slots=True)
class Renewal:
    codes: dict[types.CodeType, types.CodeType | None] = field(default_factory=dict)
    unknown: list[Unknown] = field(default_factory=list)

    def code_of(self, code: types.CodeType) -> types.CodeType | None:
        """None where the function is gone; the same where its file was not edited."""
        return self.codes.get(code, code)

    def unknown_of(self, codes: Iterable[types.CodeType]) -> Iterator[Unknown]:
        """Names are told apart by nothing but themselves: in doubt it is unknown."""
        met = list(codes)
        for unknown in self.unknown:
            name = unknown.name.rstrip(".")
            if any(name in code.co_names or f"{code.co_qualname}.".startswith(f"{name}.") for code in met):
                yield unknown


def renew(texts: Mapping[str, tuple[str, str]], functions: Mapping[str, list[types.FunctionType]]) -> Renewal:
    """`functions`: all there are, by file. Raises `SyntaxError` for a new text that is none."""
    renewal = Renewal()
    for file, (old, new) in texts.items():
        _File(file, old, new, functions.get(file, []), renewal).renew()
    return renewal


class _File:
    def __init__(self, file: str, old: str, new: str, functions: list[types.FunctionType], renewal: Renewal) -> None:
        self.file, self.functions, self.renewal = file, functions, renewal
        self.codes = _by_name(compile(new, file, "exec", dont_inherit=True))
        self.old_codes = _by_name(compile(old, file, "exec", dont_inherit=True))
        self.old, self.new = ast.parse(old), ast.parse(new)
        self.module = _module_of(file)

    def renew(self) -> None:
        self.give_codes()
        before, after = definitions(self.old), definitions(self.new)
        for name, now in after.items():
            was = before.get(name)
            if was is None:
                self.add(name, now)
            elif was.head != now.head:
                self.change_head(name, was, now)
        for name in before.keys() - after.keys():
            self.remove(name)
        self.statements()

    def give_codes(self) -> None:
        for function in self.functions:
            old = function.__code__
            new = self.renewal.codes[old] = self.new_code(old)
            if new is None:
                continue
            if len(new.co_freevars) != len(old.co_freevars):
                self.say_unknown(old.co_qualname, new.co_firstlineno, "is closed over other names")
            else:
                function.__code__ = new

    def new_code(self, old: types.CodeType) -> types.CodeType | None:
        """The one of its name in the new text; of several that of the same number, or with the same instructions."""
        news, olds = self.codes.get(old.co_qualname, []), self.old_codes.get(old.co_qualname, [])
        if len(news) == len(olds):
            places = [code.co_firstlineno for code in olds]
            if old.co_firstlineno in places:
                return news[places.index(old.co_firstlineno)]
        return next((new for new in news if new.co_code == old.co_code and new.co_names == old.co_names), None)

    def change_head(self, name: str, was: Definition, now: Definition) -> None:
        """Decorators and what a class is made of have been run; parameters may change where their defaults are plain."""
        defaults = literal_defaults(now.node)
        if (
            was.is_class
            or now.is_class
            or was.decorators != now.decorators
            or (defaults is None and was.defaults != now.defaults)
        ):
            what = "is made by running it" if now.is_class else "is decorated, or has defaults that are computed"
            self.say_unknown(f"{name}." if now.is_class else name, now.node.lineno, what)
        elif defaults is not None:
            for function in self.functions:
                if function.__qualname__ == name:
                    function.__defaults__, function.__kwdefaults__ = defaults

    def add(self, name: str, now: Definition) -> None:
        defaults = None if now.is_class or now.decorators else literal_defaults(now.node)
        owner = self.owner(name)
        codes = self.codes.get(name, [])
        if defaults is None or owner is None or len(codes) != 1 or codes[0].co_freevars:
            self.say_unknown(name.rpartition(".")[2], now.node.lineno, "is new")
            return
        short = name.rpartition(".")[2]
        function = types.FunctionType(codes[0], vars(self.module), short)
        function.__qualname__ = name
        function.__defaults__, function.__kwdefaults__ = defaults
        setattr(owner, short, function)

    def remove(self, name: str) -> None:
        owner = self.owner(name)
        if owner is not None:
            with suppress(AttributeError, TypeError):
                delattr(owner, name.rpartition(".")[2])

    def owner(self, name: str) -> types.ModuleType | type | None:
        """The class of a method, the module of a function; None where the program has put something else there."""
        found: object = self.module
        for part in name.split(".")[:-1]:
            found = vars(found).get(part) if isinstance(found, (type, types.ModuleType)) else None
        return found if isinstance(found, (type, types.ModuleType)) else None

    def statements(self) -> None:
        before, after = loose_statements(self.old), loose_statements(self.new)
        made = {name for node in after.values() for name in names_made(node)}
        for meaning, node in before.items():
            if meaning not in after and self.module is not None:
                for name in set(names_made(node)) - made:
                    vars(self.module).pop(name, None)
        for meaning, node in after.items():
            if meaning not in before and not self.has_set(node):
                for name in names_made(node):
                    self.say_unknown(name, node.lineno, "is set by running the program")

    def has_set(self, node: ast.stmt) -> bool:
        """What names a module that is loaded, or a literal, is known without running anything of the program's."""
        if self.module is None:
            return False
        names = vars(self.module)
        if isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets):
            try:
                value = ast.literal_eval(node.value)
            except (ValueError, TypeError, SyntaxError, RecursionError):
                return False
            names.update((target.id, value) for target in node.targets if isinstance(target, ast.Name))
            return True
        if isinstance(node, ast.Import):
            if not all(alias.name in sys.modules for alias in node.names):
                return False
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = sys.modules[alias.name if alias.asname else top]
            return True
        if isinstance(node, ast.ImportFrom) and not node.level:
            loaded = vars(sys.modules.get(node.module or "", types.ModuleType("")))
            if all(alias.name in loaded for alias in node.names):
                names.update((alias.asname or alias.name, loaded[alias.name]) for alias in node.names)
                return True
        return False

    def say_unknown(self, name: str, line: int, what: str) -> None:
        message = f"`{name.rstrip('.')}` {what}: what it means is known after a run."
        self.renewal.unknown.append(Unknown(name, self.file, line, message))


def _by_name(module: types.CodeType) -> Codes:
    found: Codes = defaultdict(list)
    waiting = [module]
    while waiting:
        code = waiting.pop(0)
        found[code.co_qualname].append(code)
        waiting += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return {name: sorted(codes, key=lambda code: code.co_firstlineno) for name, codes in found.items()}


def _module_of(file: str) -> types.ModuleType | None:
    real = os.path.realpath(file)
    for module in list(sys.modules.values()):
        place = getattr(module, "__file__", None)
        if isinstance(place, str) and os.path.basename(place) == os.path.basename(real):
            if os.path.realpath(place) == real:
                return module
    return None
