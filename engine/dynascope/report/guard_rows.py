"""What a compilation assumes, a row for each thing that a person asks about.

`x` is a float32 tensor of shape [8, 4] on cpu  (model.py:12)
`self.heads` is 4  (model.py:17)
`self`, `self.head` and 3 others have no hooks, and nothing of their own in place of what their classes define  (21 checks)

`dynascope show guards` has each check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dynascope.report.facts import GuardFact
from dynascope.report.lines import ranked

NAMED = 2
"""Places that a row of many names."""
AS_DEFINED = ("HasNoKey", "ModuleHasNoHooks")
APART = " are different objects"
"""Asked in both directions, which says the same."""
DICTIONARY = ".__dict__"
TORCHS_HOOKS = "torch.nn.modules.module._global_"
OF_CODE = (".__code__", ".__defaults__", ".__kwdefaults__", ".__closure__")
CODE = ("function", "method", "builtin_function_or_method", "module")


def guard_rows(guards: Iterable[GuardFact]) -> Iterator[str]:
    objects: list[str] = []
    code: list[str] = []
    checks = {"objects": 0, "code": 0}
    apart: set[frozenset[str]] = set()
    for guard in ranked(list(guards)):
        if guard.check.endswith(APART):
            pair = frozenset(guard.check.removesuffix(APART).split(" and "))
            if pair not in apart:
                yield guard.check
            apart.add(pair)
        elif _is_of_objects(guard):
            checks["objects"] += 1
            objects += [] if guard.expression.startswith("torch.") else [guard.expression.removesuffix(DICTIONARY)]
        elif _is_of_code(guard):
            checks["code"] += 1
            code.append(_function_of(guard.expression))
        else:
            yield guard.check + (f"  ({guard.span.place})" if guard.span is not None else "")
    if checks["objects"]:
        what = "no hooks, and nothing of their own in place of what their classes define"
        yield f"{_some(objects, 'modules', 'have')} {what}  ({_counted(checks['objects'])})"
    if checks["code"]:
        of_code = _some(code, "functions", "are")
        yield f"{of_code} what {'it was' if of_code.endswith(' is') else 'they were'}  ({_counted(checks['code'])})"


def _is_of_objects(guard: GuardFact) -> bool:
    if guard.kind == "HasNoKey":
        return guard.expression.endswith(DICTIONARY)
    return guard.kind == "ModuleHasNoHooks" or guard.expression.startswith(TORCHS_HOOKS)


def _is_of_code(guard: GuardFact) -> bool:
    of_function = guard.kind in ("TypeIs", "IdentityIs", "LengthIs") and guard.expression.endswith(OF_CODE)
    is_code = guard.kind == "IdentityIs" and any(f" is the {kind} " in guard.check for kind in CODE)
    return of_function or is_code or (guard.kind == "TypeIs" and guard.value in CODE)


def _function_of(expression: str) -> str:
    return next((expression.removesuffix(end) for end in OF_CODE if expression.endswith(end)), expression)


def _some(names: list[str], noun: str, verb: str) -> str:
    own = list(dict.fromkeys(names))
    if not own:
        return f"torch's {noun} {verb}"
    shown, rest = own[:NAMED], len(own) - NAMED
    if rest == 1:
        shown, rest = own, 0
    quoted = [f"`{name}`" for name in shown]
    if rest > 0:
        return f"{', '.join(quoted)} and {rest} others {verb}"
    if len(quoted) == 1:
        return f"{quoted[0]} {'has' if verb == 'have' else 'is'}"
    return f"{', '.join(quoted[:-1])} and {quoted[-1]} {verb}"


def _counted(number: int) -> str:
    return "1 check" if number == 1 else f"{number} checks"
