"""What CPython 3.15 has that earlier versions cannot even parse, against plain Python."""

import sys

import dynascope
import pytest
import torch

pytestmark = pytest.mark.skipif(sys.version_info < (3, 15), reason="CPython 3.15 and later")

PROGRAMS = '''
lazy import torch.nn.functional as F
lazy from math import floor


def lazy_names(x):
    return F.relu(x) * floor(2.5)


def unpacks_in_comprehensions(x):
    rows = [[x, x + 1], [x * 2]]
    named = {**row for row in [{"a": x}, {"b": x + 1}]}
    return sum([*row for row in rows]) + named["b"]


def frozen(x):
    return x * frozendict(a=3)["a"]


def template(x):
    return x + t"{x.shape[0]}".interpolations[0].value
'''


def program(name):
    namespace = {}
    exec(compile(PROGRAMS, "<programs of 3.15>", "exec"), namespace)
    return namespace[name]


@pytest.mark.parametrize("name, graphs", [("unpacks_in_comprehensions", 1), ("frozen", 0), ("template", 0)])
def test_as_in_python(name, graphs):
    function = program(name)
    x = torch.arange(4.0) - 1
    explanation = dynascope.explain(function, x)
    assert torch.equal(explanation.result, function(x)) and explanation.graph_count == graphs


def test_a_name_imported_lazily_is_imported_by_the_first_call_that_uses_it():
    """Each call meets one name; what is imported is compiled."""
    function, graphs = program("lazy_names"), []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = dynascope.compile(function, backend=backend)
    x, seen = torch.arange(4.0) - 1, []
    for _ in range(3):
        assert torch.equal(compiled(x), function(x))
        seen.append(len(graphs))
    assert seen == [0, 1, 1]


def test_a_module_that_the_function_itself_imports(tmp_path, monkeypatch):
    (tmp_path / "imported_by_a_call.py").write_text("factor = 3\n")
    monkeypatch.syspath_prepend(tmp_path)

    def imports(x):
        import imported_by_a_call

        return x * imported_by_a_call.factor

    first = dynascope.explain(imports, torch.ones(2))
    assert torch.equal(first.result, torch.full((2,), 3.0)) and first.graph_count == 0
    assert "the next call" in first.report.functions[0].entries[0].reason.remedy.lower()
    assert dynascope.explain(imports, torch.ones(2)).graph_count == 1
