"""The picture of a graph: every step, every tensor with its bytes, and places that lead to the source."""

import xml.etree.ElementTree as ElementTree

import pytest
from dynascope.report.facts import GraphFact, OperationFact, StepFact, TensorFact
from dynascope.report.picture import MOST_LETTERS, picture
from dynascope.report.span import Span

AT = Span("model.py", 3, 4, 3, 20)


def tensor(name, is_given=False):
    return TensorFact(f"{name}_1", "f32[32, 64]", 8192, is_given, "" if name == "mm" else name)


MUL, ADD = "aten.mul.Tensor", "aten.add.Tensor"


def step(name, reads, writes, kernel=None, phase="forward", operators=(MUL,)):
    operations = tuple(OperationFact(operator, AT) for operator in operators)
    return StepFact(name, phase, operations, tuple(reads), tuple(writes), kernel)


GRAPH = GraphFact(
    "g0", 4, "dynascope",
    steps=(
        step("mul_add", [tensor("x", True)], [tensor("mul"), tensor("late")], "k0", operators=(MUL, MUL, ADD)),
        step("call_mm_1", [tensor("mul"), tensor("w", True)], [tensor("mm")], operators=("aten.mm.default",)),
        step("sub<", [tensor("mm"), tensor("late")], [tensor("out")], "k1"),
        step("other", [tensor("tangent", True)], [tensor("gradient")], "k2", "backward"),
    ),
)  # fmt: skip


def test_names_of_weights_have_room():
    name = "self.classification_head.weight"
    given = step("call_mm", [TensorFact("weight", "f32[5, 32]", 640, True, name)], [tensor("mm")])
    graph = GraphFact("g0", 1, "dynascope", steps=(given,))
    wide = picture(graph, "forward", most_letters=MOST_LETTERS)
    assert f">{name} f32[5, 32] 640 B<" in wide and 'viewBox="-' in wide
    assert 'viewBox="0 ' in (narrow := picture(graph, "forward")) and f">{name}<" in narrow


@pytest.fixture(scope="module")
def forward():
    return ElementTree.fromstring(picture(GRAPH, "forward"))


def words(drawn):
    return [element.text for element in drawn.iter("text")]


def test_steps_of_the_phase_are_drawn_with_their_operators(forward):
    assert {"k0 mul_add", "mm", "k1 sub<"} <= set(words(forward))
    assert any(text.strip() == "mul ×2 · add" for text in words(forward))
    assert not any("other" in text for text in words(forward))


def test_every_tensor_between_and_around_steps_has_its_bytes(forward):
    edges = [element.find("title").text for element in forward.iter("g") if element.get("class") == "edge"]
    names = ("", "late ", "mul ", "out ", "w ", "x ")
    assert sorted(edges) == sorted(f"{name}f32[32, 64] 8.0 KiB" for name in names), "and none has a name that the program does not know"


def test_parts_lead_to_their_line_and_to_their_kernel(forward):
    assert {(e.get("data-file"), e.get("data-line")) for e in forward.iter("g") if e.get("data-file")} == {("model.py", "3")}
    assert [e.get("data-kernel") for e in forward.iter("g") if e.get("data-kernel")] == ["k0", "k1"]
    linked = ElementTree.fromstring(picture(GRAPH, "backward", lambda target: f"#{target}"))
    assert [e.get("href") for e in linked.iter("a")] == ["#k2", "#model.py:3"]


def test_a_phase_without_steps_has_no_picture():
    assert picture(GraphFact("g1", 1, "eager"), "forward") == ""


def test_many_tensors_that_wait_stay_beside_each_other():
    steps = [step(f"s{n}", [], [tensor(f"t{n}")]) for n in range(60)]
    steps += [step(f"e{n}", [tensor(f"t{n}"), tensor(f"t{59 - n}")], []) for n in range(60)]
    drawn = ElementTree.fromstring(picture(GraphFact("g0", 1, "dynascope", steps=tuple(steps)), "forward"))
    assert float(drawn.get("width")) < 1400


def test_what_a_long_name_leaves_no_room_for_is_left_out():
    """With the device it has two spaces."""
    long = TensorFact("weight", "f32[10, 32] cpu", 1280, True, "self.layers[0].linear_weight")
    graph = GraphFact("g0", 1, "dynascope", steps=(step("mm", [long], [tensor("out")]),))
    assert f">{long.called}<" in picture(graph, "forward")
    assert f">{long.called} 1.2 KiB<" in picture(graph, "forward", most_letters=36)
    assert f">{long.called} f32[10, 32] 1.2 KiB<" in picture(graph, "forward", most_letters=48)
