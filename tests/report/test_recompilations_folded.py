"""What was compiled again for one cause is said once, also where the cause has other numbers each time."""

import dynascope
import torch
from dynascope import recording
from dynascope.report.findings import findings
from dynascope.report.variants import variants_of


def report_of(run):
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        run()
    finally:
        recording.use(before)
    return recorder.report()


def test_objects_that_are_the_same_at_other_places_are_one_cause():
    @dynascope.compile(backend="eager")
    def stacked(rows):
        return torch.stack([row[0] for row in rows]) + torch.stack([row[1] for row in rows])

    def run():
        states = [torch.randn(3) for _ in range(5)]
        for pairs in ([(0, 1), (1, 2), (3, 4)], [(0, 1), (2, 3), (3, 4)], [(0, 1), (2, 3), (4, 0)]):
            stacked([(states[a].clone() if a == b else states[a], states[b]) for a, b in pairs])

    found = [finding for finding in findings(report_of(run)) if finding.kind == "recompile"]
    assert len(found) == 1 and found[0].times == 2, found
    assert "Compiled again 2 times, the last time because `rows[" in found[0].message and "one and the same" in found[0].remedy


def test_a_loop_is_written_as_the_program_writes_it():
    @dynascope.compile(backend="eager")
    def looped(x, parts):
        for number, part in enumerate(parts):
            x = x + part * number
            print("turn", number)
        return x

    with dynascope.expected("print-call"):
        found = findings(report_of(lambda: looped(torch.ones(2), [torch.ones(2) for _ in range(4)])))
    again = [finding for finding in found if finding.kind == "recompile"]
    assert all("(number, part)" not in finding.message and "items, list" not in finding.message for finding in again)


def test_names_of_torchs_own_set_no_variants_apart():
    float64 = torch.float64

    @dynascope.compile(backend="eager")
    def cast(x, flag):
        return x.to(float64) if flag else x * 2

    report = report_of(lambda: [cast(torch.ones(2), flag) for flag in (True, False)])
    labels = [variant.label for variant in variants_of(report.functions[0])]
    assert len(labels) == 2 and not any("float64" in label for label in labels), labels


def test_what_differs_is_said_of_an_entry_of_the_same_mode():
    @dynascope.compile(backend="eager")
    def pooled(x, reduction):
        return x.mean(1) if reduction == "mean" else x.amax(1) if reduction == "max" else x

    def run():
        x = torch.randn(2, 3, requires_grad=True)
        for reduction in ("mean", "max", "none"):
            pooled(x, reduction)
            with torch.no_grad():
                pooled(x, "mean")

    again = [finding for finding in findings(report_of(run)) if finding.kind == "recompile"]
    assert sorted(finding.message for finding in again) == [
        "Compiled again 2 times: `reduction` was 'mean', 'max', 'none' (a varying value).",
        "Compiled again: grad mode is off, and was on.",
    ]


def test_every_value_of_a_number_is_told():
    @dynascope.compile(backend="eager", dynamic=False)
    def padded(x, width):
        return torch.nn.functional.pad(x, (0, width))

    def run():
        for width in (8, 9, 10):
            padded(torch.ones(2), width)
            padded(torch.ones(2), 16)

    (again,) = [finding for finding in findings(report_of(run)) if finding.kind == "recompile"]
    assert again.message == "Compiled again 3 times: `width` was 8, 16, 9, 10 (a varying number)."


def test_a_number_that_each_compilation_takes_for_a_constant_is_no_input():
    few, many = torch.arange(4.0), torch.arange(9.0)

    @dynascope.compile(backend="eager")
    def looked_up(x, t, table):
        return x * table[t]

    def remedies(table):
        found = findings(report_of(lambda: [looked_up(torch.ones(2), t, table) for t in (3, 2, 1)]))
        return [finding.remedy for finding in found if finding.kind == "recompile"]

    (remedy,) = remedies(few)
    assert "needs this number as a constant" in remedy and "`torch.tensor(t)`" in remedy
    dynascope.reset()
    (remedy,) = remedies(many)
    assert "is an input of the graph" in remedy
