"""The report survives JSON and is described by the schema in the repository."""

import json
from pathlib import Path

import dynascope.report
import jsonschema
import pytest
from dynascope.report import facts
from dynascope.report.json_format import from_json, schema, to_json
from dynascope.report.reason import Explanation
from dynascope.report.span import Span, UserFrame

SCHEMA = Path(dynascope.report.__file__).with_name("schema.json")


def small_report():
    span = Span("model.py", 3, 4, 3, 9)
    reason = Explanation("foreign-call", "warning", "`print` is not captured", "move it", span, (UserFrame("f", span),))
    entry = facts.EntryFact(
        "f0.e0", "function", span, "compiled", "break", "g0", reason=reason, seconds={"capture": 0.1}
    )
    return facts.CompileReport(
        facts.ProgramFact("model.py", ("--x",), 0),
        facts.EnvironmentFact("3.11", "2.13", "0.1", "cpu"),
        (facts.FunctionFact("f0", "f", span, (entry,)),),
    )


def test_round_trip():
    report = small_report()
    assert from_json(facts.CompileReport, json.loads(json.dumps(to_json(report)))) == report


def test_report_fits_the_schema():
    jsonschema.validate(to_json(small_report()), json.loads(SCHEMA.read_text()))


def test_schema_in_the_repository_is_current():
    assert json.loads(SCHEMA.read_text()) == schema(facts.CompileReport)


def test_misfit_names_the_place():
    data = to_json(small_report())
    data["functions"][0]["span"]["line"] = "three"
    with pytest.raises(ValueError, match=r"CompileReport.functions\[0\].span.line"):
        from_json(facts.CompileReport, data)
