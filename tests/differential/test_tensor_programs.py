"""Random tensor programs; `bench/campaign.py` runs thousands of new ones and makes failures smaller."""

import pytest
from shrinking import shrink
from tensor_checking import Different, check
from tensor_programs import Program, of_varying_sizes, random_program, with_autograd, with_hooks, with_late_numbers

FIRST = 0
"""Seeds are fixed: the gate does not fail by chance. A failure names its seed, and its program stands in the message."""
MENDED = (1000300, 1000834, 1000835, 1001005, 1001291, 1001312, 1001359, 1001376, 1001412, 1001725, 1001960,
          41001460, 101000087, 101002168)  # fmt: skip
MENDED_IN_KERNELS = (2000017, 2000319, 2000391, 2000850, 2000861, 2001090, 2001196, 2001285, 2001373, 2001406,
                     102001335, 102001631, 102002081, 210000485)  # fmt: skip
"""Failed in campaigns, each for a reason of its own."""
MENDED_WITH_SIZES = (1013, 1025, 1060)
MENDED_WITH_AUTOGRAD = (64550331, 71000111, 81000271, 81001169, 81001255, 105000237, 105001087)
MENDED_WITH_LATE_NUMBERS = (8136, 702087, 704053, 39000468, 43000101, 43000435, 81000257, 106000025, 106000642, 2310000348)


def run(seeds, folder, backend, write=random_program):
    for seed in seeds:
        program = write(seed)
        try:
            check(program, folder, backend)
        except Different as error:
            small = shrink(program, lambda each: kind_of(each, folder, backend), seconds=10)
            raise AssertionError(f"seed {seed}: {error}\n\n{small.text()[small.text().index('def make') :]}") from error


def kind_of(program, folder, backend):
    try:
        check(program, folder, backend)
    except Different as error:
        return error.kind
    except Exception:
        return "harness"
    return None


@pytest.mark.turns(2)
@pytest.mark.parametrize("part", range(6))
def test_capture(part, tmp_path):
    run(range(FIRST + 50 * part, FIRST + 50 * (part + 1)), tmp_path, "eager")


@pytest.mark.turns(2)
@pytest.mark.compiler
@pytest.mark.parametrize("part", range(4))
def test_kernels_with_backward(part, tmp_path):
    run(range(FIRST + 500 + 3 * part, FIRST + 500 + 3 * (part + 1)), tmp_path, "dynascope")


@pytest.mark.turns(2)
@pytest.mark.parametrize("part", range(2))
def test_capture_of_sizes_that_vary(part, tmp_path):
    run(range(FIRST + 30 * part, FIRST + 30 * (part + 1)), tmp_path, "eager", of_varying_sizes)


@pytest.mark.compiler
def test_kernels_of_sizes_that_vary(tmp_path):
    run([*range(10000, 10005), 71000807, 107000247], tmp_path, "dynascope", of_varying_sizes)


@pytest.mark.parametrize("part", range(2))
def test_capture_of_autograd_inside(part, tmp_path):
    run(range(100 + 30 * part, 100 + 30 * (part + 1)), tmp_path, "eager", with_autograd)


@pytest.mark.compiler
def test_kernels_of_autograd_inside(tmp_path):
    run([*range(100, 106), 202], tmp_path, "dynascope", with_autograd)


@pytest.mark.parametrize("part", range(2))
def test_capture_of_hooks(part, tmp_path):
    run(range(100 + 25 * part, 100 + 25 * (part + 1)), tmp_path, "eager", with_hooks)


@pytest.mark.compiler
def test_kernels_of_hooks(tmp_path):
    run([*range(200, 206), 920000040], tmp_path, "dynascope", with_hooks)


@pytest.mark.compiler
@pytest.mark.parametrize("seed", [5000, 5024, 6041, 7098, 9102])
def test_kernels_of_late_numbers(seed, tmp_path):
    """All but the first failed once."""
    run([seed], tmp_path, "dynascope", with_late_numbers)


@pytest.mark.parametrize("seed", [1199, 1235, 71000452, 104002551, 104002985])
def test_capture_of_what_failed_once_with_autograd(seed, tmp_path):
    run([seed], tmp_path, "eager", with_autograd)


@pytest.mark.compiler
@pytest.mark.parametrize("seed", MENDED_WITH_AUTOGRAD)
def test_kernels_of_what_failed_once_with_autograd(seed, tmp_path):
    run([seed], tmp_path, "dynascope", with_autograd)


@pytest.mark.parametrize("seed", MENDED_WITH_SIZES)
def test_capture_of_what_failed_once_with_other_sizes(seed, tmp_path):
    run([seed], tmp_path, "eager", of_varying_sizes)


@pytest.mark.turns(6)
@pytest.mark.compiler
@pytest.mark.parametrize("seed", MENDED_WITH_LATE_NUMBERS)
def test_kernels_of_what_failed_once_with_late_numbers(seed, tmp_path):
    run([seed], tmp_path, "dynascope", with_late_numbers)


@pytest.mark.parametrize("seed", MENDED)
def test_capture_of_what_failed_once(seed, tmp_path):
    run([seed], tmp_path, "eager")


@pytest.mark.turns(6)
@pytest.mark.compiler
@pytest.mark.parametrize("seed", MENDED_IN_KERNELS)
def test_kernels_of_what_failed_once(seed, tmp_path):
    run([seed], tmp_path, "dynascope")


def test_programs_are_reproducible():
    assert random_program(3) == random_program(3) != random_program(4)


def test_a_wrong_compiler_is_noticed_and_its_program_made_small(tmp_path):
    """A backend that forgets to add: the smallest program that shows it keeps one statement."""

    def forgets(graph, example_inputs):
        for node in graph.graph.nodes:
            if node.op == "call_method" and node.target == "mul_":
                node.args = (node.args[0], 3.0)
        graph.recompile()
        return graph.forward

    found = next(program for program in map(random_program, range(400)) if is_scaled(program, tmp_path, forgets))
    small = shrink(found, lambda each: kind_of(each, tmp_path, forgets), seconds=30)
    assert len(small.body) <= 3 and any("mul_" in line for line in small.body), small.text()


def is_scaled(program, folder, backend):
    return any("mul_(" in line for line in program.body) and kind_of(program, folder, backend) not in (None, "harness")


def test_shrinking_keeps_what_fails():
    program = Program(
        0, (("a", "1"), ("b", "2")), ("if flag:", "    x = 1", "else:", "    y = 2", "z = 3"), ("a", "b"), (), ()
    )
    small = shrink(program, lambda each: "kind" if any("y = 2" in line for line in each.body) else None)
    assert "y = 2" in " ".join(small.body) and not any("z = 3" in line for line in small.body) and small.inputs == ()
