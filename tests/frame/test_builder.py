"""Code written by the builder runs, on whatever version runs the tests."""

import traceback
import types

import pytest
from dynascope.frame.builder import CodeBuilder, plain_shape
from dynascope.frame.instructions import Handler, Position
from dynascope.frame.shape import CodeShape


def like(x, y=2):
    return x


def new_builder(*parameters: str) -> CodeBuilder:
    builder = CodeBuilder(plain_shape("built", parameters, CodeShape.of(like.__code__)))
    builder.prologue()
    return builder


def run(builder: CodeBuilder, *arguments, closure=()):
    builder.return_value()
    return types.FunctionType(builder.build(), globals(), closure=closure or None)(*arguments)


def test_call_of_a_constant_function():
    builder = new_builder("x")
    builder.load_function(divmod)
    builder.load_local("x")
    builder.load_constant(3)
    builder.call(2)
    assert run(builder, 10) == (3, 1)


def test_call_with_keywords():
    builder = new_builder("x")
    builder.load_function(sorted)
    builder.load_local("x")
    builder.load_constant(True)
    builder.call(2, ["reverse"])
    assert run(builder, [1, 3, 2]) == [3, 2, 1]


def test_call_of_a_global_and_of_a_method():
    builder = new_builder("x")
    builder.load_global_function("len")
    builder.load_local("x")
    builder.load_method("upper")
    builder.call(0)
    builder.call(1)
    assert run(builder, "abc") == 3


@pytest.mark.parametrize("count", range(4))
def test_call_of_a_value_below_its_arguments(count):
    builder = new_builder("f")
    builder.load_local("f")
    for number in range(count):
        builder.load_constant(number)
    builder.call_below(count)
    assert run(builder, lambda *arguments: arguments) == tuple(range(count))


def test_call_unpacked():
    builder = new_builder("t", "d")
    with builder.callee():
        builder.load_global("dict")
    builder.load_local("t")
    builder.load_local("d")
    builder.call_unpacked_with_keywords()
    assert run(builder, ([("a", 1)],), {"b": 2}) == {"a": 1, "b": 2}


def test_a_loop_with_jumps_both_ways():
    builder = new_builder("n")
    again, done = builder.label(), builder.label()
    builder.load_constant(0)
    builder.store_local("total")
    builder.place(again)
    builder.load_local("n")
    builder.jump_if_false(done)
    builder.load_local("total")
    builder.load_local("n")
    builder.binary("+=")
    builder.store_local("total")
    builder.load_local("n")
    builder.load_constant(1)
    builder.binary("-")
    builder.store_local("n")
    builder.jump(again)
    builder.place(done)
    builder.load_local("total")
    assert run(builder, 10) == 55


def test_a_conditional_jump_backward():
    builder = new_builder("n")
    again = builder.label()
    builder.place(again)
    builder.load_local("n")
    builder.load_constant(1)
    builder.binary("-")
    builder.copy(1)
    builder.store_local("n")
    builder.jump_if_true(again)
    builder.load_local("n")
    assert run(builder, 5) == 0


def test_a_handler_gets_the_exception():
    builder = new_builder("x")
    caught = builder.label()
    with builder.protected_by(Handler(caught, depth=0, push_lasti=False)):
        builder.load_constant(1)
        builder.load_local("x")
        builder.binary("/")
        builder.return_value()
    builder.place(caught)
    builder.emit("PUSH_EXC_INFO")
    builder.load_attribute("__class__")
    builder.swap(2)
    builder.emit("POP_EXCEPT")
    assert run(builder, 0) is ZeroDivisionError


def test_cells_and_inner_functions():
    def outer():
        shared = 5

        def inner():
            return shared

        return inner

    code = outer().__code__
    shape = plain_shape("built", ["shared"], CodeShape.of(like.__code__))
    builder = CodeBuilder(CodeShape(**{**_fields(shape), "cell_variables": ("shared",)}))
    builder.prologue()
    builder.make_function(code)
    assert run(builder, 7)() == 7


def _fields(shape: CodeShape) -> dict:
    return {name: getattr(shape, name) for name in CodeShape.__slots__}


def test_tracebacks_show_the_positions_given():
    builder = new_builder("x")
    with builder.at(Position(17, 17, 4, 9)):
        builder.load_local("x")
        builder.load_attribute("missing")
    with pytest.raises(AttributeError) as caught:
        run(builder, 1)
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.lineno, frame.colno, frame.end_colno, frame.name) == (17, 4, 9, "built")


def test_items_attributes_and_containers():
    builder = new_builder("x")
    builder.load_local("x")
    builder.load_dictionary_attribute("table")
    builder.load_item("k")
    builder.unpack(2)
    builder.build_list(2)
    builder.list_to_tuple()
    holder = types.SimpleNamespace(table={"k": (1, 2)})
    assert run(builder, holder) == (2, 1)


def test_taking_a_local_leaves_no_reference():
    builder = new_builder("x")
    builder.take_local("x")
    builder.load_global_function("locals")
    builder.call(0)
    builder.build_tuple(2)
    assert run(builder, 1) == (1, {})


def test_any_object_is_a_constant_and_equal_ones_stay_apart():
    first, second = [1], [1]
    builder = new_builder()
    builder.load_constant(first)
    builder.load_constant(second)
    builder.load_constant(0.0)
    builder.load_constant(-0.0)
    builder.build_tuple(4)
    result = run(builder)
    assert result[0] is first and result[1] is second and str(result[2:]) == "(0.0, -0.0)"
