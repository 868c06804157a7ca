"""Facts on the user's own lines: stacks led by who called, layers by the expression that built them, conditions exactly.

lines = UserLines(calling_stack())
lines.places(span, stack)      the user's places of a step that lies in torch/nn/modules/linear.py
lines.told(explanation)        the same explanation at the user's place
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType

from dynascope.capture.reasons import DataDependentBranch
from dynascope.dataclass import dataclass
from dynascope.report.facts import ChangeFact
from dynascope.report.reason import Explanation
from dynascope.report.span import Span, UserFrame, UserStack
from dynascope.report.syntax import (
    argument_texts,
    built_expression,
    collected_texts,
    condition,
    owner_texts,
    statement_text,
)
from dynascope.report.user_files import is_user_file, user_places

MARKED = re.compile(r"`dynascope\.mark_dynamic\((\w+), ([^`]*)\)`(, or )?")
ITEM = r"(\w+)((?:\[(?:'\w+'|\d+)\])?)"
QUOTED = re.compile(r"`([^`]+)`")
LEADING = re.compile(rf"^{ITEM}(?=$|[.\[])")
ASKS = re.compile(r"(if|elif|while)\b")
"""How a place begins that is a whole statement, and means what it asks."""


@dataclass(frozen=True)
class UserLines:
    """`callers` led to the region; they count where library code was compiled as a whole, as `nn.Sequential.forward` is."""

    callers: UserStack = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """Of a library's function: what the calling line gives for each parameter, so that `input` is called `xb`."""
    nameless: frozenset[str] = frozenset()
    """A library's parameters that the calling line gives an expression for which has no name."""
    _known: dict[UserFrame, UserFrame] = field(default_factory=dict, repr=False, compare=False)
    """Frames that were refined: the guards and values of a large model share a few hundred."""

    def words(self, text: str, line: str = "") -> str:
        """With the user's names in place of a library's parameters; only where text quotes code, and not what stands in `line`, which is
        the user's own: there `self` is another object."""
        if not self.names and not self.nameless:
            return text
        own = "".join(line.split())
        text = MARKED.sub(self._marked, text)
        return QUOTED.sub(lambda quoted: quoted[0] if "".join(quoted[1].split()) in own else f"`{self.expression(quoted[1])}`", text)

    def _marked(self, match: re.Match[str]) -> str:
        """What has no name cannot be marked: what else helps is said alone."""
        name, dimensions, rest = match.groups()
        if name in self.nameless and rest:
            return ""
        return f"`dynascope.mark_dynamic({self.names.get(name, name)}, {dimensions})`{rest or ''}"

    def expression(self, text: str) -> str:
        return LEADING.sub(self._named, text)

    def _named(self, match: re.Match[str]) -> str:
        """By the item of collected arguments, else by the name in front."""
        name, item = match.groups()
        return self.names.get(name + item) or self.names.get(name, name) + item

    def stack(self, stack: UserStack) -> UserStack:
        known = any(is_user_file(frame.span.file) for frame in stack)
        return tuple(map(self._refined, stack if known else (*self.callers, *stack)))

    def _refined(self, frame: UserFrame) -> UserFrame:
        found = self._known.get(frame)
        if found is None:
            found = self._known[frame] = _refined(frame)
        return found

    def places(self, span: Span | None, stack: UserStack) -> tuple[Span, ...]:
        return user_places(span, self.stack(stack))

    def told(self, explanation: Explanation) -> Explanation:
        """With its whole stack; at the condition itself where a branch asked for a tensor's value."""
        if explanation.span is None and not explanation.stack:
            return explanation
        span = explanation.span
        if span is not None and (explanation.code == DataDependentBranch.code or ASKS.match(span.text())):
            span = condition(span).span or span
        line = statement_text(span) if span is not None and is_user_file(span.file) else ""
        words = {"message": self.words(explanation.message, line), "remedy": self.words(explanation.remedy, line)}
        return replace(explanation, span=span, stack=self.stack(explanation.stack), **words)

    def change(self, change: ChangeFact | None) -> ChangeFact | None:
        return None if change is None else replace(change, expression=self.expression(change.expression))


def _of_library(names: Mapping[str, str], parameters: tuple[str, ...], callers: UserStack) -> UserLines:
    return UserLines(callers, names, frozenset(parameters) - names.keys())


def lines_of(code: CodeType, callers: UserStack, compiled_at: Span | None, is_called_by_program: bool = True) -> UserLines:
    """Of a region whose function is `code`: where that is a library's, its parameters are called as the user calls them. Where a library
    calls it (`trainer.train()`), they have no names there, and what was asked for only one that the user wrote."""
    if is_user_file(code.co_filename) or not callers:
        return UserLines(callers)
    parameters = code.co_varnames[: code.co_argcount]
    owner: dict[str, str] = {}
    if parameters[:1] == ("self",):
        owner = owner_texts(compiled_at, is_called_by_program) if compiled_at is not None else {}
        parameters = parameters[1:]
    if not is_called_by_program:
        return _of_library(owner, parameters, callers)
    positional, keywords = _collecting(code)
    place = callers[-1].span
    given = collected_texts(place, len(parameters), positional, keywords) if positional or keywords else {}
    return _of_library({**argument_texts(place, parameters), **given, **owner}, parameters, callers)


def _collecting(code: CodeType) -> tuple[str, str]:
    """The names of `*args` and `**kwargs`, empty where the function has none."""
    behind = list(code.co_varnames[code.co_argcount + code.co_kwonlyargcount :])
    positional = behind.pop(0) if code.co_flags & CO_VARARGS else ""
    return positional, behind[0] if code.co_flags & CO_VARKEYWORDS else ""


def _refined(frame: UserFrame) -> UserFrame:
    """The layer's own part of the expression that built it: an argument of `nn.Sequential(...)`, not all of it."""
    if frame.layer is None or frame.layer.built is None:
        return frame
    name = frame.layer.expression.replace("]", "").replace("[", ".").rpartition(".")[2].strip("'")
    return replace(frame, layer=replace(frame.layer, built=built_expression(frame.layer.built, name)))
