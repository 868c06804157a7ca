"""What is shown behind a break belongs to the variant that is shown before it; several findings of one `print` are one."""

import textwrap

import pytest
from dynascope import recording
from dynascope.report.findings import calm_findings, findings
from dynascope.report.span import Span
from dynascope.report.variants import chosen_entries, one_variant, variants_of


@pytest.fixture
def report_of(tmp_path):
    def run(text):
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(text).strip() + "\n")
        recorder = recording.Recorder(str(file))
        before = recording.use(recorder)
        try:
            exec(compile(file.read_text(), str(file), "exec"), {"__name__": "__main__"})
        finally:
            recording.use(before)
        return recorder.report()

    return run


TWO_PARTS = """
    import torch, dynascope

    @dynascope.compile(backend="eager")
    def step(x, flag):
        y = x + (1 if flag else 2)
        print("between")
        return y * 2

    CALLS
"""


def shown(report, choice=()):
    return [value.description for graph in one_variant(report, choice).graphs for value in graph.values]


@pytest.mark.expects("print-call")
def test_behind_a_break_the_shapes_are_those_of_the_variant_before_it(report_of):
    report = report_of(TWO_PARTS.replace("CALLS", "step(torch.ones(3), True); step(torch.ones(3).double(), True)"))
    (function,) = report.functions
    starts = [entry for entry in function.entries if entry.place == 0]
    assert shown(report) == ["f64[3]", "f64[3]"]
    assert shown(report, {starts[0].identifier}) == ["f32[3]", "f32[3]"]
    assert shown(report, {starts[1].identifier}) == ["f64[3]", "f64[3]"]


@pytest.mark.expects("print-call")
def test_what_two_variants_share_behind_a_break_is_shown_of_both_and_what_is_not_known_of_none(report_of):
    calls = "; ".join(f"step(torch.ones(3{dtype}), {flag})" for dtype, flag in (
        ("", True), (", dtype=torch.float64", True), ("", False), (", dtype=torch.float64", True),
    ))  # fmt: skip
    report = report_of(TWO_PARTS.replace("CALLS", calls))
    (function,) = report.functions
    starts = [entry for entry in function.entries if entry.place == 0]
    rests = [entry for entry in function.entries if entry.place]
    assert len(starts) == 3 and [entry.began for entry in rests] == [starts[0].identifier, starts[1].identifier]
    assert [entry.calls for entry in rests] == [2, 2]
    assert shown(report, {starts[0].identifier}) == ["f32[3]", "f32[3]"]
    # The third start went on with what the first one's call had made; which of the two that was nobody has noted.
    assert chosen_entries(function, {starts[2].identifier}) == (starts[2],)
    both = {starts[2].identifier, rests[0].identifier}
    assert chosen_entries(function, both) == (starts[2], rests[0])


@pytest.mark.expects("print-call")
def test_one_compilation_behind_the_break_serves_every_start(report_of):
    text = TWO_PARTS.replace("return y * 2", "return torch.ones(2) * 2")
    report = report_of(text.replace("CALLS", "step(torch.ones(3), True); step(torch.ones(3).double(), True)"))
    (function,) = report.functions
    first = next(entry for entry in function.entries if entry.place == 0)
    assert len(chosen_entries(function, {first.identifier})) == 2


TOLD = """
    import torch, dynascope

    @dynascope.compile(backend="eager")
    def step(x):
        y = x * 2
        print(f"sum {y} and {y.mean()!r}")
        return y

    for value in (1.0, 2.0, 3.0):
        step(torch.full((3,), value))
"""


@pytest.mark.expects("print-call", "foreign-value")
def test_one_print_is_one_finding(report_of):
    report = report_of(TOLD)
    every, calm = findings(report), calm_findings(report)
    assert {"print-call", "foreign-value"} <= {finding.code for finding in every}
    assert [finding.code for finding in calm] == ["print-call"]


@pytest.mark.expects("print-call", "data-dependent-branch")
def test_two_breaks_beside_each_other_are_two(report_of):
    report = report_of("""
        import torch, dynascope

        @dynascope.compile(backend="eager")
        def step(x):
            print("a"); print("b")
            return x + (1 if x.sum() > 0 else 2)

        step(torch.ones(3))
    """)
    assert [finding.code for finding in calm_findings(report)] == ["print-call", "print-call", "data-dependent-branch"]


@pytest.mark.parametrize(
    "inner, is_part",
    [
        (Span("m.py", 3, 4, 3, 9), True),
        (Span("m.py", 3, 4, 3, 10), True),
        (Span("m.py", 3, 3, 3, 9), False),
        (Span("m.py", 3, 4, 4, 1), False),
        (Span("m.py", 3), False),
        (Span("n.py", 3, 4, 3, 9), False),
    ],
)
def test_a_place_inside_another(inner, is_part):
    assert Span("m.py", 3, 4, 3, 10).contains(inner) is is_part


def test_variants_of_one_label_are_told_apart_by_what_changed(report_of):
    report = report_of("""
        import torch, dynascope

        @dynascope.compile(backend="eager")
        def step(x, caches=None):
            return x + 1 if caches is None else torch.cat([x, *caches[0], *caches[1]]) * 2

        step(torch.ones(2))
        for size in (3, 4, 5):
            step(torch.ones(2), [(torch.ones(size), torch.ones(size)), (torch.ones(size), torch.ones(size))])
    """)
    labels = [variant.label for variant in variants_of(report.functions[0])]
    assert "caches[0][0] f32[3]" in labels[1] and "caches[0][0] f32[s0]" in labels[2] and "==" not in labels[2]


@pytest.mark.expects("data-dependent-branch", "print-call")
def test_a_last_call_that_returns_before_the_break_shows_nothing_of_what_is_behind_it(report_of):
    report = report_of("""
        import torch, dynascope

        @dynascope.compile(backend="eager")
        def f(x, labels):
            y = x * 2
            if labels is not None:
                if labels.sum() > 0:
                    print(y + 1)
            return y

        f(torch.ones(3), torch.ones(3))
        f(torch.ones(3), None)
    """)
    (function,) = report.functions
    first, second = (variant.entry for variant in variants_of(function))
    assert chosen_entries(function) == (second,)
    assert len(chosen_entries(function, {first.identifier})) > 1


def test_a_list_that_grows_is_told_by_its_length_also_where_one_variant_was_made_for_one(report_of):
    report = report_of("""
        import torch, dynascope

        log = []

        @dynascope.compile(backend="eager")
        def step(x):
            log.append(x)
            return x * len(log)

        for _ in range(3):
            step(torch.ones(3))
    """)
    (function,) = report.functions
    assert [variant.label for variant in variants_of(function)] == ["len(log) = 0", "len(log) int"]
    again = next(entry for entry in function.entries if entry.change is not None)
    assert (again.change.before, again.change.now) == ("0 items", "1 item")
