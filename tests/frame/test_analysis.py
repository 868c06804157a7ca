"""Liveness, blocks and printing, each on a few lines."""

from dynascope.frame.blocks import BlockKind, active_blocks
from dynascope.frame.instructions import decode
from dynascope.frame.liveness import live_locals, may_read_whole_frame
from dynascope.frame.printing import print_code, print_side_by_side
from dynascope.frame.shape import CodeShape
from dynascope.frame.stack_shape import SlotKind, stack_shapes
from dynascope.frame.versions import RUNNING

from .programs import Child


def mark(*_):
    """Calls of this are the places that the tests ask about."""


def at_marks(function):
    """(instructions, the CALL of each `mark(...)` in order of appearance)"""
    instructions = decode(function.__code__)
    calls, inside = [], False
    for instruction in instructions:
        inside |= instruction.operation == "LOAD_GLOBAL" and instruction.value == "mark"
        if inside and instruction.operation == "CALL":
            calls.append(instruction)
            inside = False
    return instructions, calls


def live_at_marks(function):
    instructions, marks = at_marks(function)
    return [set(live_locals(instructions, at, CodeShape.of(function.__code__))) for at in marks]


def test_a_local_is_live_until_its_last_use():
    def function(a, b):
        mark()
        c = a + 1
        mark()
        a = c
        mark()
        return a

    assert live_at_marks(function) == [{"a"}, {"c"}, {"a"}]


def test_a_loop_keeps_what_the_next_round_reads():
    def function(items, unused):
        total = 0
        for item in items:
            mark()
            total += item
        return total

    assert live_at_marks(function) == [{"total", "item"}]


def test_a_handler_may_read():
    def function(a, b):
        try:
            mark()
            b = 1
            mark()
        except ValueError:
            return b
        return a

    assert live_at_marks(function) == [{"a", "b"}, {"a", "b"}]


def test_cells_are_live_while_their_function_is_to_be_made():
    def function(a, b):
        mark()
        inner = lambda: a  # noqa: E731
        mark()
        return inner

    assert live_at_marks(function) == [{"a"}, {"inner"}]


def test_reading_the_whole_frame():
    def function(a, b):
        mark()
        return locals()

    assert live_at_marks(function) == [{"a", "b"}]


def test_super_without_arguments_reads_the_first_parameter():
    code = Child.scale_through_object.__code__
    instructions = decode(code)
    start = next(i for i in instructions if i.operation == "RESUME")
    assert {"self", "x", "__class__"} <= live_locals(instructions, start, CodeShape.of(code))


def blocks_at_marks(function):
    instructions, marks = at_marks(function)
    shapes = stack_shapes(instructions)
    return [[block.kind for block in active_blocks(shapes, at)] for at in marks], shapes, marks


def test_blocks_from_the_outside_in():
    def function(manager):
        with manager:
            mark(1)
            for _ in manager:
                try:
                    mark(2)
                except ValueError:
                    mark(3)
        mark(4)

    kinds, shapes, marks = blocks_at_marks(function)
    in_source_order = sorted(zip(marks, kinds, strict=True), key=lambda pair: pair[0].line)
    assert [kind for _, kind in in_source_order] == [
        [BlockKind.WITH],
        [BlockKind.WITH, BlockKind.TRY],
        [BlockKind.WITH, BlockKind.EXCEPT],
        [],
    ]
    inside = [slot.kind for slot in shapes[in_source_order[2][0]]]
    leaving = [SlotKind.EXIT, SlotKind.MAYBE_NULL] if RUNNING.exit_is_pair else [SlotKind.EXIT]
    iterating = [SlotKind.ITERATOR, *[SlotKind.MAYBE_NULL] * (RUNNING.iterator_slots - 1)]
    wanted = [*leaving, *iterating, SlotKind.PREVIOUS_EXCEPTION]
    assert inside[: len(wanted)] == wanted


def test_a_block_knows_its_exit_slot():
    def function(one, two):
        with one, two:
            mark()

    instructions, (at, *_) = at_marks(function)
    shapes = stack_shapes(instructions)
    positions = [block.stack_position for block in active_blocks(shapes, at)]
    assert positions == [0, 2 if RUNNING.exit_is_pair else 1]
    assert [shapes[at][position].kind for position in positions] == [SlotKind.EXIT, SlotKind.EXIT]


def test_printing_shows_lines_operands_labels_and_handlers():
    def function(a, *rest):
        try:
            print(a, end="")
        except ValueError:
            return rest
        return None

    text = print_code(function.__code__)
    assert "function(a, *rest)" in text and f"{__file__}:{function.__code__.co_firstlineno}" in text
    assert "print (+ NULL)" in text and "2 (keywords end)" in text and "on error L" in text
    assert any("PUSH_EXC_INFO" in line and "L" in line.split("PUSH_EXC_INFO")[0] for line in text.splitlines())


def test_two_codes_side_by_side():
    text = print_side_by_side(mark.__code__, Child.scale.__code__)
    assert all("  |" in line for line in text.splitlines()) and "Child.scale" in text.splitlines()[0]


def test_who_may_list_the_names_of_a_frame_from_an_instruction_on():
    def asked_before(given):
        if given:
            return locals()
        given.eval()
        return print(given)

    def asked_in_a_loop(given):
        for each in given:
            print(each)
            given = locals()

    def kept(given):
        names = locals
        print(given)
        return names()

    def frames_asked_for(given):
        import sys

        frame = sys._getframe
        print(given)
        return frame()

    answers = {}
    for function in (asked_before, asked_in_a_loop, kept, frames_asked_for):
        instructions = list(decode(function.__code__))
        said = next(each for each in instructions if each.value == "print")
        answers[function.__name__] = may_read_whole_frame(instructions, said)
    assert answers == {"asked_before": False, "asked_in_a_loop": True, "kept": True, "frames_asked_for": True}
    instructions = list(decode(asked_before.__code__))
    assert may_read_whole_frame(instructions, instructions[0])
