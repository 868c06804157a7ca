"""`dynascope fix FILE`: edits that mend its breaks, each proved by running the program with it in a process of its own.

--diff (the usual)     the edits, as a patch on standard output
--write                the files are changed
--json                 every fix with its edits and its proof, for an editor
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dynascope.command.modules import as_module
from dynascope.command.named_program import USAGE, cannot_be_run
from dynascope.fixes.edits import line_before
from dynascope.proving.asking import Program, Prover, ProverEnded, is_served
from dynascope.proving.mending import Mended, ProvedFix, mend, text_of
from dynascope.proving.program_files import line_end, write_program
from dynascope.report.json_format import to_json
from dynascope.report.tables import width_of, wrapped
from dynascope.report.user_files import shown_path

FAILED = 1
INTERRUPTED = 130


def fix(options: argparse.Namespace) -> int:
    """0, also where nothing is to be mended; 1 where the program could not be looked at."""
    if cannot_be_run(options.file, "fix FILE [ARGS]"):
        return USAGE
    if not is_served():
        return _complain("fixes are proved in processes that fork, which this system does not have.", FAILED)
    module = as_module(options)
    program = Program(
        os.path.abspath(options.file),
        tuple(options.arguments),
        options.device,
        module.name if module is not None else None,
        module.root if module is not None else None,
    )
    texts = {os.path.abspath(file): text for file, text in json.load(sys.stdin).items()} if options.texts else {}
    try:
        with Prover(seconds=options.timeout) as prover:
            mended = mend(program, prover, texts, options.json, _teller(options), options.recompilations, options.within)
    except KeyboardInterrupt:
        return _complain("interrupted; no file was changed.", INTERRUPTED)
    except ProverEnded as error:
        return _complain(f"{error}.", FAILED)
    if options.json:
        print(json.dumps(as_json(mended, texts), ensure_ascii=False))
        return 0
    if mended.trouble:
        return _complain(f"no fix can be proved: {mended.trouble}.", FAILED)
    return _show(mended, texts, options.write)


def as_json(mended: Mended, texts: dict[str, str]) -> dict[str, Any]:
    return {
        "fixes": [_fix_as_json(fix) for fix in mended.fixes],
        "all": None if mended.proof is None else {"words": mended.proof.words(), "texts": mended.texts},
        "before": {file: text_of(texts, file) for file in {*mended.texts, *(fix.file for fix in mended.fixes)}},
        "left": len(mended.left),
        "trouble": mended.trouble,
        "cut": mended.is_cut,
    }


def _fix_as_json(proved: ProvedFix) -> dict[str, Any]:
    return {
        "file": proved.file,
        "title": proved.fix.title,
        "codes": list(dict.fromkeys(finding.code for finding in proved.findings)),
        "spans": [to_json(finding.span) for finding in proved.findings],
        "edits": [asdict(edit) for edit in proved.fix.edits],
        "words": proved.proof.words(),
    }


def _show(mended: Mended, texts: dict[str, str], is_written: bool) -> int:
    for file, text in mended.texts.items():
        before = text_of(texts, file)
        if is_written:
            write_program(file, text)
        else:
            print(_patch(file, before, text), end="")
    sys.stdout.flush()
    for line in _summary(mended, texts, is_written):
        print("\n".join(wrapped(f"dynascope: {line}", width_of(sys.stderr))), file=sys.stderr)
    return 0


def _summary(mended: Mended, texts: dict[str, str], is_written: bool) -> list[str]:
    """Lines are those of the files as they are then."""
    names = ", ".join(shown_path(file) for file in mended.texts)
    lines = []
    if mended.proof is not None:
        lines += [f"{shown_path(one.file)}:{one.line}: {one.title}." for one in mended.made]
        lines.append(f"{'mended' if is_written else 'would mend'} {names}: {mended.proof.words()}.")
    elif not mended.left:
        lines.append("there is no break to mend." if mended.is_compiled else "nothing is compiled, so there is no break to mend.")
    for finding in mended.left:
        where = "?"
        if (span := finding.span) is not None:
            is_moved = not is_written and span.file in mended.texts
            line = line_before(text_of(texts, span.file), mended.texts[span.file], span.line) if is_moved else span.line
            where = f"{shown_path(span.file)}:{line}"
        lines.append(f"no fix was proved for {where} [{finding.code}]: {finding.remedy}")
    if mended.raised:
        lines.append(f"the program as it is written ends with {mended.raised}: what would come after was not tried.")
    if mended.is_cut:
        lines.append("the time was over before every edit was tried; there may be more, which a larger `--within SECONDS` tries.")
    if mended.proof is not None and not is_written:
        lines.append("`--write` makes these changes.")
    return lines


def _patch(file: str, before: str, after: str) -> str:
    name, end = _patched_path(file), line_end(Path(file).read_bytes())
    before, after = (text.replace("\n", end) for text in (before, after))
    rows = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{name}", f"b/{name}")
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows)


def _patched_path(file: str) -> str:
    """`patch -p1` and `git apply` take the first part off, and refuse what then begins with a slash or leads upwards."""
    relative = os.path.relpath(file)
    return os.path.abspath(file).lstrip("/") if relative.startswith("..") else relative


def _teller(options: argparse.Namespace) -> Any:
    """What is being tried, where somebody looks on: at a terminal, or in an editor, which gives the texts."""
    if not options.texts and (options.json or not sys.stderr.isatty()):
        return lambda words: None
    return lambda words: print(f"dynascope: trying {words}", file=sys.stderr, flush=True)


def _complain(words: str, code: int) -> int:
    print("\n".join(wrapped(f"dynascope: {words}", width_of(sys.stderr))), file=sys.stderr)
    return code
