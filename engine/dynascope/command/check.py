"""`dynascope check FILE`: is compiled code as right as eager's? Every line's value and the gradients, beside a run in float64.

model.py:16   hidden        eager 3e-08   compiled 2e-08
model.py:23   loss          eager 1e-08   compiled 4e-03   <- differs
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from dynascope.command.run import run_for_report
from dynascope.report.facts import CheckFact, CompileReport

DIFFERS = 1


def check(options: argparse.Namespace) -> int:
    """The program's own exit code; 1 where it went well and a line differs more than eager does."""
    options.check = True
    code, report = run_for_report(options)
    if report is None:
        return code
    print(check_text(report, options.all), file=sys.stderr)
    return code or (DIFFERS if any(fact.differs for fact in report.checks) else 0)


def check_text(report: CompileReport, every: bool = False) -> str:
    facts = report.checks
    differing = [fact for fact in facts if fact.differs]
    rows = [_row(fact) for fact in (facts if every else differing)]
    width = max((len(row[0]) for row in rows), default=0), max((len(row[1]) for row in rows), default=0)
    lines = [f"  {place:<{width[0]}}  {name:<{width[1]}}  {numbers}" for place, name, numbers in rows]
    unchecked = Counter(note.message for note in report.notes if note.code == "not-checked")
    lines += [f"  {message}{f' ({times} graphs)' if times > 1 else ''}" for message, times in unchecked.items()]
    values = sum(fact.kind == "value" for fact in facts)
    checked = f"{values} values and {len(facts) - values} gradients compared with float64"
    if not facts:
        lines.append("Nothing was compared: no graph was compiled.")
    elif differing:
        first = differing[0]
        verb = "differs" if len(differing) == 1 else "differ"
        lines.append(f"{checked}. {len(differing)} {verb} more than eager does, first `{first.name}`{_at(first)}.")
    else:
        lines.append(f"{checked}. None differs more than eager does.")
    return "\n".join(lines)


def _row(fact: CheckFact) -> tuple[str, str, str]:
    name = f"gradient of {fact.name}" if fact.kind == "gradient" else fact.name
    mark = "   <- differs" if fact.differs else ""
    return fact.span.place if fact.span else "", name, f"eager {fact.eager:7.1e}   compiled {fact.compiled:7.1e}{mark}"


def _at(fact: CheckFact) -> str:
    return f" at {fact.span.place}" if fact.span else ""
