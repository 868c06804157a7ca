"""The page of a reason where no written page is at hand: what this very report says about it."""

from __future__ import annotations

from collections.abc import Iterable

from dynascope_server.ide.problems import Problem
from dynascope_server.ide.summary import place_link


def page_from_problems(code: str, problems: Iterable[Problem]) -> str:
    met = [problem for problem in problems if problem.code == code]
    lines = [f"# {code}", ""]
    for problem in met:
        first, *rest = problem.message.split("\n")
        lines += [f"At {place_link(problem.span)}: {first}", "", *(line for line in rest if line), ""]
    if not met:
        lines += ["No result at hand has this reason. Run the program again to see where it occurs.", ""]
    return "\n".join(lines)
