"""What the Triton generator writes: readable, linked to the user's lines, and with no more masks than needed."""

from __future__ import annotations

import os
import re
import sys

sys.path.insert(0, os.path.dirname(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "loops"))

import pytest
import torch
import triton_groups as groups
from dynascope.codegen.target import DeviceModel
from dynascope.codegen.triton import operations
from dynascope.codegen.triton.emit import EmitError, emit_triton
from dynascope.codegen.triton.kernel import kernel_fact
from dynascope.codegen.triton.operations import UnknownOperation, exact_reciprocal, render, render_cast
from dynascope.codegen.triton.otherwise import otherwise
from dynascope.loops.index import Symbol, variable
from dynascope.loops.lower import lower
from dynascope.loops.nodes import Compute, Constant, Load
from dynascope.loops.operations import TABLE
from dynascope.schedule.fusion import fuse
from recording import record

H200 = DeviceModel()


def emit(group):
    return emit_triton(*group, H200)


def body_of(kernel):
    return kernel.text.split("@triton.jit")[-1]


def test_a_line_of_the_users_stands_over_what_it_became():
    kernel = emit(groups.pointwise())
    lines = kernel.text.splitlines()
    for link in kernel.links:
        assert link.span.file == "model.py"
    erf = next(n for n, line in enumerate(lines, 1) if "libdevice.erf" in line)
    assert {link.span.line for link in kernel.links if link.line == erf} == {3}
    comment = next(n for n, line in enumerate(lines) if "# model.py:3" in line)
    assert comment < erf


def test_the_same_group_gives_the_same_text():
    assert emit(groups.layer_norm()) == emit(groups.layer_norm())


def test_the_text_is_python_with_the_sizes_on_top():
    kernel = emit(groups.softmax(64, 1000))
    compile(kernel.text, "kernel.py", "exec")
    assert "64 rows of 1000; reads 256.0 kB, writes 256.0 kB" in kernel.text.splitlines()[0]


def test_masks_only_where_a_block_runs_over():
    assert "mask" not in body_of(emit(groups.pointwise(1 << 20)))
    assert "mask" in body_of(emit(groups.pointwise(1000)))
    assert "mask" not in body_of(emit(groups.softmax(64, 4096)))
    held = body_of(emit(groups.softmax(64, 1000)))
    assert "row_in" not in held and "column_in" in held


def test_a_row_is_read_once_where_it_fits_and_twice_where_not():
    assert body_of(emit(groups.softmax(4096, 4096))).count("tl.load") == 1
    assert body_of(emit(groups.softmax(10_000, 50304))).count("tl.load") == 2
    assert body_of(emit(groups.layer_norm(10_000, 50304))).count("tl.load(x") == 2


def test_a_long_row_is_held_only_where_that_saves_reading_it_again():
    softmax = emit(groups.softmax(4096, 50304, torch.bfloat16))
    assert body_of(softmax).count("tl.load") == 1 and softmax.warps == 16
    assert body_of(emit(groups.softmax(4096, 32768))).count("tl.load") == 1
    assert " for " in body_of(emit(groups.reduction("sum", 4096, 32768)))


def test_a_row_whose_elements_would_not_lie_in_pairs_in_registers_is_read_again():
    assert body_of(emit(groups.softmax(10_000, 50305, torch.bfloat16))).count("tl.load") == 2
    assert body_of(emit(groups.softmax(10_000, 65536, torch.bfloat16))).count("tl.load") == 2


@pytest.mark.parametrize("columns", [50304, 65537, 262_144])
def test_a_row_that_no_program_holds_is_held_by_several(columns):
    kernel = emit(groups.softmax(256, columns))
    assert body_of(kernel).count("tl.load(x") == 1 and body_of(kernel).count("meet(") == 1
    parts = kernel.grid[0] // 256
    assert 2 < parts <= H200.multiprocessors // 4 and 256 * parts == kernel.grid[0]


def test_many_rows_are_not_waited_for_where_reading_again_costs_less():
    """Those that begin anywhere, and two bytes of each element of which nothing but a number is made."""

    def waits(rows, columns, dtype, store=True):
        made = groups.softmax(rows, columns, dtype) if store else groups.sum_of_squares_of_softmax(rows, columns, dtype)
        return "meet(" in body_of(emit(made))

    assert not waits(1024, 131_073, torch.bfloat16) and not waits(1024, 131_073, torch.float32)
    assert waits(1024, 131_072, torch.bfloat16) and waits(1024, 131_072, torch.float32)
    assert not waits(1024, 131_072, torch.bfloat16, store=False) and waits(1024, 131_072, torch.float32, store=False)
    assert waits(64, 131_073, torch.bfloat16)


def test_a_row_longer_than_several_programs_hold_is_gone_through_by_them():
    body = body_of(emit(groups.layer_norm(2, 3_000_001)))
    assert body.count("tl.load(x") == 2 and body.count(" for ") == 2 and body.count("meet(") == 1


def test_what_is_written_once_a_row_is_written_when_all_have_read():
    body = body_of(emit(groups.centred(64, 100_000)))
    assert body.index("leaves_last(") < body.index("tl.store(mean")


def test_few_long_rows_are_split_in_one_launch():
    kernel = emit(groups.reduction("sum", 1, 1 << 27))
    assert kernel.grid[0] > 4 * H200.multiprocessors
    assert "atomic_add(tickets, 1" in kernel.text
    assert kernel.workspace_bytes >= 4 * kernel.grid[0]


def test_warps_follow_the_row():
    assert emit(groups.softmax(16384, 4096, torch.bfloat16)).warps == 4
    assert emit(groups.softmax(16384, 4096)).warps == 16


def sums(rows, columns, operands, dtype=torch.float32, stores=True):
    """The sums of an operand and of its squares or products, and the elements less these."""
    writer = groups.GroupWriter("sums", (rows,), (columns,))
    at = writer.index(columns, 1)
    x = writer.load("x", dtype, at)
    y = writer.load("y", dtype, at) if operands > 1 else x
    first, second = writer.reduce("sum", x), writer.reduce("sum", writer.compute("multiply", x, y))
    apart = writer.compute("subtract", writer.compute("subtract", x, first), second)
    kept = [("all", apart, at)] if stores else [("first", first, writer.index(1, 0)), ("second", second, writer.index(1, 0))]
    for name, value, place in kept:
        writer.store(name, dtype, value, place)
    return emit(writer.finish())


def test_rows_of_which_several_sums_are_made_of_several_operands_have_more_warps():
    assert [sums(2048, 16384, operands).warps for operands in (1, 2)] == [16, 32]
    assert [sums(2048, columns, 2).warps for columns in (8192, 4096)] == [16, 16]
    assert sums(2048, 16384, 2, torch.bfloat16).warps == 16


def test_sums_of_several_operands_are_split_into_fewer_parts():
    one, two = (sums(1, 1 << 24, operands, stores=False).grid[0] for operands in (1, 2))
    assert one > 7 * H200.multiprocessors and one / 2.2 < two < one / 1.8
    assert sums(1, 1 << 24, 2, torch.bfloat16, stores=False).grid[0] == one


def test_positions_past_int32_are_wide():
    assert ".to(tl.int64)" in emit(groups.pointwise(1 << 31)).text
    assert ".to(tl.int64)" not in emit(groups.pointwise(1 << 20)).text


def test_parts_past_int32_begin_at_wide_positions():
    """As does what the last program to finish computes of all parts: where each begins, and which element is the largest."""

    def are_wide(count):
        squares, places = body_of(emit(groups.variance(1, count))), body_of(emit(groups.reduction("argmax", 1, count)))
        lines = [line for text in (squares, places) for line in text.splitlines()]
        begins = [line for line in lines if " part = " in line or "_counts = " in line and "tl.arange(0, 2048)" in line]
        assert len(begins) == 3
        return {".to(tl.int64)" in line for line in begins}, any("_places = tl.full" in line and "tl.int64" in line for line in lines)

    assert are_wide((1 << 31) + 4099) == ({True}, True)
    assert are_wide(1 << 30) == ({True}, False)
    assert are_wide(1 << 29) == ({False}, False)


def test_approximations_only_on_the_way_to_16_bits():
    assert "tl.exp(" in emit(groups.softmax(dtype=torch.bfloat16)).text
    assert "libdevice.exp(" in emit(groups.softmax()).text
    assert " / " in body_of(emit(groups.softmax(dtype=torch.bfloat16)))
    assert "quotient(" in body_of(emit(groups.softmax()))


def test_what_jumps_is_divided_to_the_last_bit():
    """A part rounded down may be another integer where the quotient is off by one unit; so may all with strict numerics."""
    writer = groups.GroupWriter("parts", rows=(1 << 20,))
    x, y = (writer.load(name, torch.float32, writer.index(1)) for name in "xy")
    writer.store("part", torch.float32, writer.compute("floor", writer.compute("divide", x, y)), writer.index(1))
    writer.store("share", torch.float32, writer.compute("sigmoid", writer.compute("divide", y, x)), writer.index(1))
    text = body_of(emit(writer.finish()))
    assert text.count("tl.div_rn(") == text.count("quotient(") == text.count("inverse_of_more(") == 1
    strict = body_of(emit_triton(*writer.finish(), H200, is_strict=True))
    assert strict.count("tl.div_rn(") == 3 and "quotient(" not in strict


def test_indices_are_checked_and_then_kept_inside():
    kernel = emit(groups.embedding())
    assert kernel.asserts
    assert "tl.device_assert(" in kernel.text
    assert "tl.where((checked1 >= 0) & (checked1 < 50), checked1, 0)" in kernel.text


def test_names_that_would_hide_something_are_changed():
    g = groups.GroupWriter("lambda_like", (100,))
    x = g.load("tl", torch.float32, g.index(1))
    y = g.load("product", torch.float32, g.index(1))
    g.store("lambda", torch.float32, g.compute("add", x, y), g.index(1))
    kernel = emit(g.finish())
    names = [p.name for p in kernel.parameters]
    assert not {"tl", "product", "lambda"} & set(names)
    assert [p.source for p in kernel.parameters] == ["tl", "product", "lambda"]


@pytest.mark.parametrize("name", sorted(TABLE))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool], ids=str)
def test_every_operation_has_an_expression(name, dtype):
    if name == "cast":
        pytest.skip("has a rule of its own")
    arguments = ["a1", "b2", "c3"][: TABLE[name].arity]
    try:
        assert render(name, dtype, arguments)
    except UnknownOperation:
        assert not dtype.is_floating_point


def test_an_operation_without_a_rule_is_refused_with_a_reason(monkeypatch):
    monkeypatch.delitem(operations._ANY, "erf")
    with pytest.raises(EmitError) as caught:
        emit(groups.pointwise())
    assert "erf" in caught.value.reason.message() and caught.value.reason.remedy()


def test_the_report_has_the_kernel():
    kernel = emit(groups.softmax())
    fact = kernel_fact(kernel, "k0", "g0", "forward")
    assert fact.language == "triton" and fact.bytes_read == 256000
    assert [span.line for span in fact.spans] == [1, 2]


def test_a_pointer_is_as_wide_as_the_mask_that_guards_it():
    writer = groups.GroupWriter("last", (1000,))
    inside = writer.compute("equal", writer.index_value(writer.index(1)), writer.constant(999, torch.int64))
    last = writer.load("x", torch.float32, writer.index(0, offset=999), guard=inside)
    writer.store("y", torch.float32, last, writer.index(1))
    assert re.search(r"tl.load\(x \+ 999 \+ tl.zeros\(\[\d+\], tl.int32\), mask=", emit(writer.finish()).text)


def test_integers_become_half_numbers_through_float32():
    """As eager's do: Triton would round some of them twice, or not at all."""
    casts = {
        (torch.int32, torch.bfloat16): "x.to(tl.float32).to(tl.bfloat16)",
        (torch.bool, torch.float16): "x.to(tl.float32).to(tl.float16)",
        (torch.float32, torch.bfloat16): "x.to(tl.bfloat16)",
        (torch.float64, torch.float16): "x.to(tl.float16)",
        (torch.int32, torch.float32): "x.to(tl.float32)",
        (torch.float32, torch.bool): "x != 0",
        (torch.int64, torch.int64): "x",
    }
    assert {pair: render_cast("x", *pair) for pair in casts} == casts


def test_a_division_by_a_power_of_two_is_a_product():
    """Which is the same number, down to what is nearly nothing."""
    assert [exact_reciprocal(number) for number in (1.0, 8.0, -0.25, 3.0, 0.0, float("inf"), 2.0**200)] == [1.0, 0.125, -4.0, *[None] * 4]
    assert "quotient(" not in body_of(emit(groups.layer_norm(64, 1024)))
    assert "quotient(" in body_of(emit(groups.layer_norm(64, 1000)))


def test_bytes_of_a_lookup_are_those_of_the_rows_that_are_looked_up():
    assert emit(groups.embedding(tokens=10, vocabulary=1000, width=64)).bytes_read == 10 * 64 * 4 + 10 * 8
    assert emit(groups.embedding(tokens=5000, vocabulary=100, width=64)).bytes_read == 100 * 64 * 4 + 5000 * 8


def test_functions_are_coarse_on_the_way_to_sixteen_bits_and_nowhere_else():
    """Beside a result of 32 bits, and not what a comparison reads; with strict numerics nowhere."""
    writer = groups.GroupWriter("shares", rows=(1 << 20,))
    x = writer.load("x", torch.bfloat16, writer.index(1))
    y = writer.load("y", torch.float32, writer.index(1))
    rounded = writer.cast(writer.compute("divide", writer.compute("exp", x), y), torch.bfloat16)
    writer.store("rounded", torch.bfloat16, rounded, writer.index(1))
    writer.store("kept", torch.float32, writer.compute("exp", y), writer.index(1))
    asked = writer.compute("less", writer.compute("exp2", x), y)
    writer.store("asked", torch.bool, asked, writer.index(1))
    text = body_of(emit(writer.finish()))
    assert text.count("tl.exp(") == text.count("libdevice.exp(") == 1
    assert "libdevice.exp2(" in text and "div_rn" not in text
    strict = body_of(emit_triton(*writer.finish(), H200, is_strict=True))
    assert strict.count("libdevice.exp(") == 2 and "tl.div_rn(" in strict


@pytest.mark.parametrize(
    ("columns", "rows", "dtype", "block", "stages"),
    [
        (100352, 288, torch.bfloat16, 64, 3),
        (2048, 2304, torch.bfloat16, 64, 1),
        (100352, 128, torch.bfloat16, 32, 1),
        (100352, 288, torch.float32, 32, 1),
    ],
)
def test_sums_down_the_columns_read_lines_of_memory(columns, rows, dtype, block, stages):
    """As many rows side by side as fill one, and what few bytes on their way call for is read ahead."""
    schedule = fuse(lower(record(lambda x: x.sum(0), [torch.empty(columns, rows, dtype=dtype)])))
    (group,) = schedule.steps
    text = emit((group, schedule.buffers)).text
    assert f"tl.arange(0, {block})[:, None]" in text
    assert ("num_stages=3" in text) == (stages == 3)


@pytest.mark.parametrize(("dtype", "is_masked", "rows"), [(torch.bfloat16, True, 2), (torch.float32, True, 1)])
def test_rows_under_a_mask_come_two_to_a_program(dtype, is_masked, rows):
    """A warp that holds one row reads a mask's bytes slowly beside elements of sixteen bits."""

    def softmax(x, mask):
        return torch.softmax(x.masked_fill(mask, float("-inf")) if is_masked else x, -1)

    graph = record(softmax, [torch.empty(64, 1024, 1024, dtype=dtype), torch.empty(1024, 1024, dtype=torch.bool)])
    schedule = fuse(lower(graph))
    (group,) = schedule.steps
    text = emit((group, schedule.buffers)).text
    assert ("row = program\n" in text) == (rows == 1)
    assert (f"row = program * {rows} + " in text) == (rows > 1)


def kernel_of(function, *sizes, dtype=torch.float32):
    """The one, for operands of these sizes on a GPU."""
    graph = record(function, [torch.empty(each, dtype=dtype, device="meta") for each in sizes])
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device("cuda", 0)
    schedule = fuse(lower(graph))
    (group,) = schedule.steps
    return emit((group, schedule.buffers))


def group_norm(x, weight, bias):
    return torch.nn.functional.group_norm(x, 32, weight, bias)


@pytest.mark.parametrize(("factor", "beside", "is_inside"), [(2, 0, True), (4, 0, True), (16, 0, False), (2, 1, False)])
def test_what_lies_between_two_elements_is_read_with_them(factor, beside, is_inside):
    """Where other accesses move more, their lines stay whole; a long loop is a side of a tile."""

    def apart(x, *others):
        return sum(others, x.view(16, 64, 64, factor).permute(0, 3, 1, 2).contiguous() * 2)

    body = body_of(kernel_of(apart, (16, 64, 64 * factor), *[(16, factor, 64, 64)] * beside))
    innermost = re.search(r"r(\d) = lane - lane_\d \* (\d+)", body)
    assert (innermost is not None and int(innermost[2]) == factor) == is_inside


@pytest.mark.parametrize(("columns", "rows", "warps", "step"), [(1000, 512, 1, 8), (128, 512, 1, 8), (1000, 8, 8, 0)])
def test_rows_side_by_side_whose_elements_are_read_once_are_walked_down(columns, rows, warps, step):
    """Not few of them: a program holds these."""
    kernel = kernel_of(lambda x: x.sum(1), (128, columns, rows))
    assert kernel.warps == warps
    assert (f"start + tl.arange(0, {step})" in kernel.text) == bool(step)


def test_what_does_not_lie_in_one_piece_is_not_read_ahead():
    """Each element would be sent to shared memory by itself."""

    def reads_ahead(function, *sizes, dtype=torch.float32):
        return " in tl.range(" in kernel_of(function, *sizes, dtype=dtype).text

    def dot(x, y):
        return (x * y).sum(1)

    assert reads_ahead(dot, (64, 2000, 512), (64, 2000, 512)) and not reads_ahead(dot, (64, 2000, 512), (64, 2000, 1))
    wide, narrow = (reads_ahead(group_norm, (32, 128, 256, 256), (128,), (128,), dtype=each) for each in (torch.float32, torch.bfloat16))
    assert narrow and not wide


def test_a_weight_of_each_channel_is_not_waited_with_where_rows_are_many():
    for images, waits in ((32, False), (2, True)):
        norm = kernel_of(group_norm, (images, 128, 256, 256), (128,), (128,))
        assert ("meet(" in norm.text) == waits


def test_what_lies_as_the_loops_go_is_read_at_flat_positions():
    """A bias of 77 makes loops of its own, of which Triton cannot see that neighbours are neighbours. Not where most lies otherwise."""
    body = body_of(kernel_of(lambda x, bias: x * 2 + bias, (512, 77), (77,)))
    assert "tl.load(x + lane)" in body and "tl.store(add_tensor + lane, " in body
    windows = body_of(kernel_of(lambda x: torch.nn.functional.avg_pool2d(x, 3, 2, 1), (32, 64, 113, 113)))
    assert "+ lane" not in windows


def test_few_of_them_and_those_whose_places_are_found_are_held():
    streams = lambda function, *sizes: "start + tl.arange(0, 8)" in kernel_of(function, *sizes).text  # noqa: E731
    masked = lambda x, mask: (x * mask).sum(1)  # noqa: E731
    assert streams(masked, (128, 1000, 512), (128, 1000, 1)) and not streams(masked, (64, 1000, 512), (64, 1000, 1))
    assert streams(lambda x: x.amax(1), (64, 1000, 2048)) and not streams(lambda x: x.max(1), (64, 1000, 2048))


def places_read(kernel, buffer="x"):
    """What `tl.load` reads of a buffer: the part of each place that lanes differ in, and the number after it."""
    return re.findall(rf"tl\.load\({buffer} \+ (.+?)(?: ([+-] \d+))?(?:, mask=.*?)?\)\n", body_of(kernel))


def test_the_elements_of_a_window_have_one_address():
    """And what its padding is, the loads give."""
    kernel = kernel_of(lambda x: torch.nn.functional.max_pool2d(x, 3, 2, 1), (64, 64, 112, 112))
    places = places_read(kernel)
    assert len(places) == 9 and len({base for base, _ in places}) == 1
    assert sorted(number for _, number in places) == sorted(["", "- 113", "- 112", "- 111", "- 1", "+ 1", "+ 111", "+ 112", "+ 113"])
    assert "tl.where" not in kernel.text and kernel.text.count('other=float("-inf")') == 5


def test_a_row_has_one_address():
    assert {base for base, _ in places_read(emit(groups.softmax(4096, 300)))} == {"300*r0 + c0"}


@pytest.mark.parametrize(
    ("number", "dtype", "is_given"), [(0.1, torch.float32, True), (0.1, torch.bfloat16, False), (2.0, torch.bfloat16, True)]
)
def test_a_choice_is_made_by_the_load_where_its_number_can_be_stored(number, dtype, is_given):
    kernel = kernel_of(lambda x: torch.nn.functional.pad(x.float(), (1, 1), value=number), (512, 77), dtype=dtype)
    assert (f"other={number})" in kernel.text) == is_given and ("tl.where" in kernel.text) != is_given


def test_a_load_that_something_else_reads_chooses_nothing():
    """`otherwise` of a body in which the guarded element is also added."""
    x = Load(torch.float32, (0,), None, "x", variable(Symbol("r0", 8)), 0)
    guard, three = Constant(torch.bool, (), None, True), Constant(torch.float32, (), None, 3.0)
    chosen = Compute(torch.float32, (0, 1, 2), None, "where")
    assert otherwise((guard, x, three, chosen), {"x": torch.float32}, False).chosen == {3: 1}
    also = Compute(torch.float32, (1, 3), None, "add")
    assert not otherwise((guard, x, three, chosen, also), {"x": torch.float32}, False).chosen
