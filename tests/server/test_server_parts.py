"""The parts around the protocol: settings, output, events, verdicts, positions, storage, session, interpreter."""

import dataclasses
import json
import signal
import subprocess
import sys

import pytest
import reports
from dynascope.report.facts import GuardFact
from dynascope.report.json_format import to_json
from dynascope.report.reason import Explanation
from dynascope.report.span import Span
from dynascope_server.events import Ended, ProblemMet, ReportWritten, Stage, read_event
from dynascope_server.ide.addresses import Address
from dynascope_server.ide.definitions import gone
from dynascope_server.interpreter import find_interpreter, program_environment
from dynascope_server.lsp.positions import Area, area_of_line, area_of_span, column_of_bytes
from dynascope_server.output import OutputBuffer
from dynascope_server.process_tree import descendants
from dynascope_server.report_file import UnreadableReport, read_report
from dynascope_server.session import Session
from dynascope_server.settings import RunSettings, Settings, read_settings
from dynascope_server.storage import KEPT_RUNS, Storage, open_storage
from dynascope_server.verdict import Seen, judge, refused_arguments


class TestSettings:
    def test_changes_build_on_what_was(self):
        first, _ = read_settings({"interpreter": "py", "run": {"device": "cpu"}})
        second, complaints = read_settings({"run": {"timeout": 5}}, first)
        assert second == dataclasses.replace(first, run=RunSettings(device="cpu", timeout=5)) and not complaints
        assert read_settings({"run": None}, second)[0].run == RunSettings()

    def test_null_and_empty_are_the_default(self):
        base = Settings(interpreter="py", pagesPath="x")
        assert read_settings({"interpreter": None, "pagesPath": ""}, base) == (Settings(), [])

    @pytest.mark.parametrize(
        "data, complaint",
        [
            ({"trusted": "no"}, "`trusted` should be true or false, not 'no'"),
            ({"maximumRuns": True}, "`maximumRuns` should be a whole number"),
            ({"enginePath": [1]}, "`enginePath` should be a list of strings"),
            ({"environment": {"A": 1}}, "`environment` should be an object of strings"),
            ({"run": 3}, "`run` should be an object"),
            ([], "`settings` should be an object"),
        ],
    )
    def test_what_does_not_fit_is_said(self, data, complaint):
        settings, complaints = read_settings(data)
        assert settings == Settings() and len(complaints) == 1 and complaint in complaints[0]

    def test_unknown_keys_are_ignored(self):
        assert read_settings({"of a newer client": 1}) == (Settings(), [])

    def test_run_options(self):
        run = RunSettings(device="cpu", dynamic=True, timeout=1.5)
        assert run.options() == ("--device", "cpu", "--timeout", "1.5", "--dynamic")


class TestOutput:
    def test_streams_keep_their_order(self):
        buffer = OutputBuffer()
        for stream, data in (("stdout", b"a"), ("stdout", b"b"), ("stderr", b"c"), ("stdout", b"d")):
            buffer.add(stream, data)
        assert [(b.stream, b.text, b.dropped) for b in buffer.take()] == [
            ("stdout", "ab", 0),
            ("stderr", "c", 0),
            ("stdout", "d", 0),
        ]
        assert list(buffer.take()) == []

    def test_the_oldest_go_first(self):
        buffer = OutputBuffer(limit=4)
        for data in (b"abc", b"def", b"0123456789"):
            buffer.add("stdout", data)
        (batch,) = buffer.take()
        assert (batch.text, batch.dropped) == ("6789", 12)

    def test_characters_split_between_batches(self):
        buffer = OutputBuffer()
        texts = []
        for byte in "é😀".encode():
            buffer.add("stdout", bytes([byte]))
            texts += [batch.text for batch in buffer.take()]
        assert "".join(texts) == "é😀"


@pytest.mark.parametrize(
    "line, event",
    [
        (b'{"event": "stage", "stage": "fuse", "function": "f", "span": null}', Stage("fuse", "f")),
        (b'{"event": "report"}', ReportWritten()),
        (b'{"event": "end", "exit_code": 3}', Ended(3)),
        (
            b'{"event": "problem", "explanation": {"code": "c", "severity": "error", "message": "m", "remedy": "r"}}',
            ProblemMet(Explanation("c", "error", "m", "r")),
        ),
        (b'{"event": "problem", "explanation": {"code": "c", "severity": "fatal"}}', None),
        (b"[]", None),
        (b"\xff\xfe", None),
        (b'{"event": ["stage"]}', None),
        (b"", None),
    ],
)
def test_events(line, event):
    assert read_event(line) == event


class TestVerdict:
    @pytest.mark.parametrize(
        "seen, state, code",
        [
            (Seen(0, "log", end_announced=True), "exited", None),
            (Seen(1, "log", end_announced=True), "exited", None),
            (Seen(-signal.SIGTERM, "log", cancelled=True), "exited", None),
            (Seen(-signal.SIGKILL, "log", timed_out=3.0), "errored", "run-timeout"),
            (Seen(78, "log", problems=(Explanation("no-torch", "error", "m", "r"),)), "errored", "no-torch"),
            (Seen(78, "log", end_announced=True), "exited", None),
            (Seen(-signal.SIGABRT, "log"), "errored", "interpreter-crashed"),
            (Seen(1, "log", last_words="/usr/bin/python: No module named dynascope\n"), "errored", "engine-missing"),
            (Seen(0, "log", problems=(Explanation("wrong-python", "error", "m", "r"),)), "errored", "wrong-python"),
            (Seen(1, "log", last_words="boom"), "errored", "no-report"),
            (Seen(0, "log", report_written=True), "exited", "left-early"),
        ],
    )
    def test_cases(self, seen, state, code):
        verdict = judge(seen)
        assert (verdict.state, verdict.failure and verdict.failure.code) == (state, code)

    def test_every_failure_says_what_to_do(self):
        for code in (-11, -9, -15, -64, 1, 78):
            failure = judge(Seen(code, "/log")).failure
            assert failure.message and failure.remedy


    @pytest.mark.parametrize(
        "code, last_words, expected",
        [
            (2, "usage: a.py [-h] --data DATA\na.py: error: argument --n: invalid value: 3\n", "argument --n: invalid value: 3"),
            (2, "[--lr LR]\na.py: error: the following arguments are required: --data\n", "the following arguments are required: --data"),
            (2, "Usage: a.py [OPTIONS]\n\nError: Missing option '--data'.\n", "Missing option '--data'"),
            (1, "a.py: error: no\n", ""),
            (2, "Error: disk full\n", ""),
            (2, "boom\n", ""),
        ],
    )
    def test_a_program_that_wants_other_arguments(self, code, last_words, expected):
        assert refused_arguments(Seen(code, "/log", end_announced=True, last_words=last_words)) == expected


class TestPositions:
    LINES = ("größe = '😀' + x", "\ty = 1  ", "")

    @pytest.mark.parametrize("encoding, expected", [("utf-8", 18), ("utf-16", 14), ("utf-32", 13)])
    def test_bytes_to_units(self, encoding, expected):
        assert column_of_bytes(self.LINES[0], len("größe = '😀' +".encode()) - 1, encoding) == expected - 1 + 0

    def test_spans(self):
        assert area_of_span(Span("f", 1, 0, 1, 7), self.LINES, "utf-16") == Area(0, 0, 0, 5)
        assert area_of_span(Span("f", 2), self.LINES, "utf-16") == Area(1, 1, 1, 6)
        assert area_of_span(Span("f", 1, 0, 2, 2), self.LINES, "utf-16") == Area(0, 0, 1, 2)

    def test_places_beyond_the_text_are_harmless(self):
        assert area_of_span(Span("f", 99, 4, 99, 9), self.LINES, "utf-16") == Area(98, 0, 98, 0)
        assert area_of_span(Span("f", 2, 50, 2, 90), self.LINES, "utf-8") == Area(1, 8, 1, 8)
        assert area_of_line(3, self.LINES, "utf-16") == Area(2, 0, 2, 0)


class TestStorage:
    def test_old_runs_go(self, tmp_path):
        storage = Storage(tmp_path)
        for _ in range(KEPT_RUNS + 5):
            log, report = storage.new_run("/a/b.py")
            report.write_text("{}")
        kept = sorted(int(path.stem) for path in log.parent.glob("*.log"))
        assert len(kept) == KEPT_RUNS and kept[-1] == KEPT_RUNS + 5

    def test_documents_come_back(self, tmp_path):
        storage = Storage(tmp_path)
        address = Address("b.py-12345678", "k0/x.cpp")
        for text in ("one", "two"):
            path = storage.write_document(address, text)
        assert path.read_text() == "two" and storage.address_of(str(path)) == address
        assert storage.address_of("/elsewhere/x.cpp") is None

    def test_a_folder_that_cannot_be_made_is_replaced(self, tmp_path):
        blocked = tmp_path / "file"
        blocked.write_text("")
        assert open_storage(str(blocked / "sub"), {}).root.is_dir()

    def test_the_default_follows_the_cache_folder(self, tmp_path):
        assert open_storage(None, {"DYNASCOPE_CACHE_DIR": str(tmp_path)}).root == tmp_path / "server"


class TestReportFile:
    def test_a_good_report(self, tmp_path, report):
        path = tmp_path / "report.json"
        path.write_text(json.dumps(to_json(report)))
        assert read_report(path, "/") == report

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"version": 1}', '{"version": "x"}'])
    def test_what_is_no_report(self, tmp_path, text):
        path = tmp_path / "report.json"
        path.write_text(text)
        with pytest.raises(UnreadableReport):
            read_report(path, "/")


class TestSession:
    def make(self, tmp_path):
        path = str(tmp_path / "model.py")
        self.disk, self.editor = {path: reports.PROGRAM}, {}
        session = Session(lambda p: self.disk.get(p, ""), lambda p: self.editor.get(p, self.disk.get(p, "")))
        return path, session

    def test_results_are_stale_while_the_text_differs(self, tmp_path, report):
        path, session = self.make(tmp_path)
        session.begin(path)
        session.accept(path, report)
        assert not session.view(path).stale
        self.editor[path] = reports.PROGRAM + "# more\n"
        assert not session.view(path).stale, "a comment means nothing"
        self.editor[path] = reports.PROGRAM.replace("y.sum() > 0", "y.sum() > 1")
        assert session.view(path).stale
        self.editor[path] = reports.PROGRAM
        assert not session.view(path).stale

    def test_an_edit_while_the_program_runs_makes_its_results_stale(self, tmp_path, report):
        path, session = self.make(tmp_path)
        session.begin(path)
        self.disk[path] = "# new\n" + reports.PROGRAM.replace("y.sum() > 0", "y.sum() > 1")
        session.accept(path, report)
        assert session.view(path).stale
        assert session.view(path).lines.line(1) == 2

    def test_old_results_stay_until_the_new_run_reports(self, tmp_path, report):
        path, session = self.make(tmp_path)
        session.begin(path)
        session.accept(path, report)
        session.begin(path)
        assert session.view(path).report is report
        session.fail(path, Explanation("no-report", "error", "m", "r"))
        assert session.view(path).stale
        assert ("no-report", False) in [(problem.code, stale) for problem, stale in session.problems(path)]

    def test_the_newest_program_that_speaks_of_a_file_wins(self, tmp_path, report):
        path, session = self.make(tmp_path)
        session.accept(path, report)
        other = reports.report(path, program=dataclasses.replace(report.program, file=str(tmp_path / "other.py")))
        session.accept(str(tmp_path / "other.py"), other)
        assert session.view(path).program.endswith("other.py")
        session.clear(str(tmp_path / "other.py"))
        assert session.view(path).program == path

    def test_clear_forgets_all(self, tmp_path, report):
        path, session = self.make(tmp_path)
        session.accept(path, report)
        session.clear(None)
        assert session.view(path) is None and session.files() == set()

    def test_thousands_of_guards_on_one_line(self, tmp_path, report):
        path, session = self.make(tmp_path)
        guards = tuple(GuardFact(f"x{i}", "holds", "Equals", Span(path, 9)) for i in range(20_000))
        entry = dataclasses.replace(report.functions[0].entries[0], guards=guards)
        function = dataclasses.replace(report.functions[0], entries=(entry,))
        session.accept(path, dataclasses.replace(report, functions=(function,)))
        assert len(session.view(path).facts.guards[9]) == 20_000


class TestInterpreter:
    def test_the_folder_s_environment_comes_before_path(self, tmp_path):
        python = tmp_path / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
        assert find_interpreter(Settings(), str(tmp_path)) == str(python)
        assert find_interpreter(Settings(interpreter="/x/python"), str(tmp_path)) == "/x/python"

    def test_the_server_s_own_where_it_has_torch(self, tmp_path):
        assert find_interpreter(Settings(), str(tmp_path), path=str(tmp_path)) == sys.executable

    def test_nothing_on_path(self, tmp_path, monkeypatch):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        assert find_interpreter(Settings(), str(tmp_path), path=str(tmp_path)) is None

    def test_a_relative_setting_starts_at_the_folder(self, tmp_path):
        settings = Settings(interpreter="envs/bin/python")
        assert find_interpreter(settings, str(tmp_path)) == str(tmp_path / "envs/bin/python")

    def test_the_server_s_own_libraries_stay_its_own(self):
        import pygls

        libraries = str(reports.__file__) and pygls.__path__[0].rpartition("/")[0]
        settings = Settings(enginePath=("/engine",))
        environment = program_environment(settings, {"PYTHONPATH": f"{libraries}:/mine"})
        assert environment["PYTHONPATH"] == "/engine:/mine"


def test_descendants_are_found_by_parent():
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'], start_new_session=True)"
    with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE) as process:
        import time

        for _ in range(200):
            if found := descendants(process.pid):
                break
            time.sleep(0.05)
        process.stdin.close()
    assert len(found) == 1


@pytest.mark.parametrize(
    "text, expected",
    [
        ("class Net:\n    def forward(self): ...\ndef outer():\n    def step(): ...\n", ""),
        ("if True:\n    class Net:\n        def forward(self): ...\n", "outer.<locals>.step outer.<locals>.<lambda>"),
        ("def outer(): ...\ndef forward(): ...\n", "Net.forward outer.<locals>.step"),
        ("def outer(:\n", ""),
    ],
)
def test_functions_that_an_edit_has_taken_out(text, expected):
    names = ("Net.forward", "outer.<locals>.step", "outer.<locals>.<lambda>", "<lambda>")
    assert gone({name: name for name in names}, text) == set(expected.split())
