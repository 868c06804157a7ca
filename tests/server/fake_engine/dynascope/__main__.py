"""`python -m dynascope run FILE --json PATH --events-fd FD [--keep-fd FD] --levels -- ARGS`, as the server speaks to the engine."""

import argparse
import json
import os
import runpy
import shutil
import sys
import time
import traceback

WAY = os.environ.get("FAKE_ENGINE", "")


def main():
    if sys.argv[1] == "doctor":
        print("ok: this is the stand-in")
        sys.exit(3)
    if sys.argv[1] == "backends":
        print(json.dumps([{"name": "inductor", "words": "torch's own compiler", "state": "ready", "sizes": "symbolic"}]))
        return
    if sys.argv[1] in ("compare", "compare-captures", "show"):
        if WAY == "unusable":
            sys.exit("dynascope: no torch here")
        print("# beside", *sys.argv[1:])
        return
    if sys.argv[1] == "fix":
        find_fixes(sys.argv[sys.argv.index("--") - 1], json.load(sys.stdin))
        return
    split = sys.argv.index("--")
    own, arguments = sys.argv[2:split], sys.argv[split + 1 :]
    parser = argparse.ArgumentParser()
    for name in ("--json", "--events-fd", "--device", "--backend", "--timeout", "--keep-fd"):
        parser.add_argument(name)
    for name in ("--dynamic", "--fullgraph", "--levels"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("file")
    options = parser.parse_args(own)
    sys.argv = [options.file, *arguments]
    with os.fdopen(int(options.events_fd), "w", buffering=1, closefd=False) as events:
        compile_and_run(options, lambda **event: events.write(json.dumps(event) + "\n"))


def find_fixes(file, texts):
    print(f"dynascope: trying 1 of at most 1, {os.path.basename(file)}:5: Leave it out", file=sys.stderr, flush=True)
    time.sleep(0.3)
    """Every line that prints goes."""
    if WAY == "unusable":
        sys.exit("There is no torch here.")
    rows = texts[file].splitlines(keepends=True)
    numbers = [number for number, row in enumerate(rows, start=1) if "print(" in row]
    fixes = [
        {
            "file": file, "title": "Leave it out", "codes": ["data-dependent-branch"], "words": "1 graph instead of 2",
            "spans": [{"file": file, "line": number, "column": 4, "end_line": number, "end_column": 8}],
            "edits": [{"line": number, "column": 0, "end_line": number + 1, "end_column": 0, "text": ""}],
        }
        for number in numbers
    ]  # fmt: skip
    after = {file: "".join(row for row in rows if "print(" not in row)}
    everything = {"words": "no break instead of 2", "texts": after} if fixes else None
    print(json.dumps({"fixes": fixes, "all": everything, "before": texts, "left": 0, "trouble": "", "cut": False}))


def compile_and_run(options, say):
    if WAY == "unusable":
        words = {"code": "no-torch", "severity": "error", "message": "There is no torch here.", "remedy": "Install it."}
        say(event="problem", explanation=words)
        print("There is no torch here. Install it.", file=sys.stderr)
        sys.exit(78)
    if WAY == "garbage events":
        os.write(
            int(options.events_fd), b"not json\n" + b"x" * 5_000_000 + b"\n[1, 2]\n" + b'{"event": "unheard-of"}\n'
        )
    for stage in ("capture", "fuse", "build"):
        say(event="stage", stage=stage, function="forward", span=None)
    if WAY != "no report":
        write_report(options)
        say(event="report")
    code = run(options.file)
    if WAY == "no report":
        sys.exit(code)
    say(event="end", exit_code=code)
    sys.exit(code)


def write_report(options):
    source = options.file + ".report.json"
    temporary = options.json + ".part"
    if WAY == "partial":
        with open(source) as whole, open(temporary, "w") as part:
            part.write(whole.read()[:100])
    elif WAY == "newer":
        with open(temporary, "w") as file:
            file.write('{"version": 1000, "what": "nobody knows"}')
    elif WAY == "malformed":
        with open(temporary, "w") as file:
            file.write('{"version": 1, "program": 7}')
    else:
        shutil.copyfile(source, temporary)
    os.replace(temporary, options.json)


def run(file):
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else 0 if exit.code is None else 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main()
