"""`dynascope explain CODE`: the page of a reason, as the editor opens it."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

PAGES = Path(__file__).parent.parent / "pages"


def explain(code: str | None) -> int:
    """Print the page of `code`, or the list of all codes; 1 for a code that does not exist, with the nearest that does."""
    known = codes()
    if code is None:
        print("\n".join(f"{name:32} {title(name)}" for name in known))
        return 0
    if code not in known:
        near = difflib.get_close_matches(code, known, 1)
        hint = f" Did you mean {near[0]}?" if near else " `dynascope explain` lists all codes."
        print(f"dynascope: no reason has the code {code!r}.{hint}", file=sys.stderr)
        return 1
    print(page(code))
    return 0


def codes() -> list[str]:
    return sorted(path.stem for path in PAGES.glob("*.md"))


def page(code: str) -> str:
    return (PAGES / f"{code}.md").read_text(encoding="utf-8").rstrip()


def title(code: str) -> str:
    return page(code).splitlines()[0].lstrip("# ").partition(":")[2].strip()
