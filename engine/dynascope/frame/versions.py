"""What differs between CPython 3.11, 3.12, 3.13, 3.14 and 3.15: the one table of facts by version.

Everything else in `frame/` asks here and never looks at `sys.version_info`. What the standard library's `opcode` module
knows (numbers, cache entries, operators) is read from it; what only the interpreter's source says is written here.
"""

from __future__ import annotations

import opcode
import sys
import sysconfig
from collections.abc import Mapping

from dynascope.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """The facts of one minor version that the `opcode` module does not tell."""

    # A call's empty slot is below the callable (NULL, callable, arguments) or above it (callable, NULL, arguments).
    null_above_callable: bool
    # LOAD_ATTR's lowest bit asks for a method pair; before, LOAD_METHOD was an operation of its own.
    attribute_has_method_bit: bool
    # How far COMPARE_OP's operator is shifted left, and whether the specialiser's mask lies below it.
    comparison_shift: int
    comparison_has_mask: bool
    # COMPARE_OP can turn its result into a bool (the bit's value), so that no TO_BOOL follows.
    comparison_bool_bit: int
    # Keyword names travel in KW_NAMES before the call, or as a tuple on the stack of CALL_KW.
    keyword_names_on_stack: bool
    # CALL is preceded by PRECALL with the same count.
    has_precall: bool
    # Conditional jumps come in a forward and a backward form (3.11), or forward only (later).
    has_backward_conditional_jumps: bool
    # Conditional jumps take exactly True or False; TO_BOOL makes one.
    jumps_need_bool: bool
    # LOAD_FAST does not check for an unbound local; LOAD_FAST_CHECK does.
    has_unchecked_loads: bool
    # MAKE_FUNCTION takes defaults, closure and the rest by a bit mask, or SET_FUNCTION_ATTRIBUTE follows.
    function_attributes_follow: bool
    # Operations that FOR_ITER steps over at its target when the iterator is exhausted.
    loop_exit_length: int
    # `generator.close()` gives what the generator returned.
    close_gives_result: bool
    # sum() of floats keeps what the additions round off, and adds it at the end.
    sum_is_compensated: bool
    # CALL_FUNCTION_EX finds a dictionary or NULL on the stack, always; before, its lowest bit says whether one is there.
    keywords_or_null: bool
    # `with` keeps a pair (callable, object or NULL) on the stack that LOAD_SPECIAL makes, or the bound `__exit__`.
    exit_is_pair: bool
    # An iterator has a second slot above it, for the index into a list or tuple, or NULL.
    iterator_slots: int
    # The number that `push_lasti` pushes is no object: only the interpreter can make one.
    offsets_are_tagged: bool
    # Unpacking too long a list, tuple or dict says how long it is.
    tells_length_unpacked: bool
    # dict([1]) says that an object is not iterable, and which element it was in a note.
    pair_refusal_has_note: bool
    # `classmethod` asks what it wraps for its `__get__`: a property of the class.
    class_methods_chain: bool
    # What has no hash is refused as a dict's key or as a set's element, or in the same words everywhere.
    key_refusal_tells_use: bool
    # IMPORT_NAME's lowest two bits say whether the import is lazy.
    import_has_bits: bool


FACTS = {
    (3, 11): VersionFacts(
        null_above_callable=False,
        attribute_has_method_bit=False,
        comparison_shift=0,
        comparison_has_mask=False,
        comparison_bool_bit=0,
        keyword_names_on_stack=False,
        has_precall=True,
        has_backward_conditional_jumps=True,
        jumps_need_bool=False,
        has_unchecked_loads=False,
        function_attributes_follow=False,
        loop_exit_length=0,
        close_gives_result=False,
        sum_is_compensated=False,
        keywords_or_null=False,
        exit_is_pair=False,
        iterator_slots=1,
        offsets_are_tagged=False,
        tells_length_unpacked=False,
        pair_refusal_has_note=False,
        class_methods_chain=True,
        key_refusal_tells_use=False,
        import_has_bits=False,
    ),
    (3, 12): VersionFacts(
        null_above_callable=False,
        attribute_has_method_bit=True,
        comparison_shift=4,
        comparison_has_mask=True,
        comparison_bool_bit=0,
        keyword_names_on_stack=False,
        has_precall=False,
        has_backward_conditional_jumps=False,
        jumps_need_bool=False,
        has_unchecked_loads=True,
        function_attributes_follow=False,
        loop_exit_length=1,
        close_gives_result=False,
        sum_is_compensated=True,
        keywords_or_null=False,
        exit_is_pair=False,
        iterator_slots=1,
        offsets_are_tagged=False,
        tells_length_unpacked=False,
        pair_refusal_has_note=False,
        class_methods_chain=True,
        key_refusal_tells_use=False,
        import_has_bits=False,
    ),
    (3, 13): VersionFacts(
        null_above_callable=True,
        attribute_has_method_bit=True,
        comparison_shift=5,
        comparison_has_mask=True,
        comparison_bool_bit=16,
        keyword_names_on_stack=True,
        has_precall=False,
        has_backward_conditional_jumps=False,
        jumps_need_bool=True,
        has_unchecked_loads=True,
        function_attributes_follow=True,
        loop_exit_length=2,
        close_gives_result=True,
        sum_is_compensated=True,
        keywords_or_null=False,
        exit_is_pair=False,
        iterator_slots=1,
        offsets_are_tagged=False,
        tells_length_unpacked=False,
        pair_refusal_has_note=False,
        class_methods_chain=False,
        key_refusal_tells_use=False,
        import_has_bits=False,
    ),
    (3, 14): VersionFacts(
        null_above_callable=True,
        attribute_has_method_bit=True,
        comparison_shift=5,
        comparison_has_mask=True,
        comparison_bool_bit=16,
        keyword_names_on_stack=True,
        has_precall=False,
        has_backward_conditional_jumps=False,
        jumps_need_bool=True,
        has_unchecked_loads=True,
        function_attributes_follow=True,
        loop_exit_length=2,
        close_gives_result=True,
        sum_is_compensated=True,
        keywords_or_null=True,
        exit_is_pair=True,
        iterator_slots=1,
        offsets_are_tagged=True,
        tells_length_unpacked=True,
        pair_refusal_has_note=True,
        class_methods_chain=False,
        key_refusal_tells_use=True,
        import_has_bits=False,
    ),
    (3, 15): VersionFacts(
        null_above_callable=True,
        attribute_has_method_bit=True,
        comparison_shift=5,
        comparison_has_mask=True,
        comparison_bool_bit=16,
        keyword_names_on_stack=True,
        has_precall=False,
        has_backward_conditional_jumps=False,
        jumps_need_bool=True,
        has_unchecked_loads=True,
        function_attributes_follow=True,
        loop_exit_length=2,
        close_gives_result=True,
        sum_is_compensated=True,
        keywords_or_null=True,
        exit_is_pair=True,
        iterator_slots=2,
        offsets_are_tagged=True,
        tells_length_unpacked=True,
        pair_refusal_has_note=True,
        class_methods_chain=False,
        key_refusal_tells_use=True,
        import_has_bits=True,
    ),
}

NEWEST = max(FACTS)
if sys.version_info[:2] < min(FACTS):
    raise ImportError(
        f"Dynascope reads the bytecode of CPython 3.11 and later; this is {sys.version_info[0]}.{sys.version_info[1]}."
    )
# A version that is not known yet is taken for the newest one; the engine's self-check tries whether that holds.
RUNNING = FACTS.get(sys.version_info[:2], FACTS[NEWEST])

# What the C hook and resume functions depend on, and the bytecode does not tell, is known of these only.
KNOWN_FRAMES = ((3, 11), (3, 14))
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
KNOWS_FRAMES = KNOWN_FRAMES[0] <= sys.version_info[:2] <= KNOWN_FRAMES[1] and not FREE_THREADED


def python_name() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}{' (free-threaded)' if FREE_THREADED else ''}"


# Numbers and names of operations. Pseudo operations (above 255) exist only inside CPython's compiler.
OPCODE = {name: number for name, number in opcode.opmap.items() if number < 256}
NAME = [f"<{number}>" for number in range(256)]
for _name, _number in OPCODE.items():
    NAME[_number] = _name


def _cache_entries() -> list[int]:
    """By opcode, the code units after the operation that the interpreter uses as inline cache."""
    entries = opcode._inline_cache_entries
    if isinstance(entries, Mapping):
        return [entries.get(name, 0) for name in NAME]
    return list(entries)


CACHE_ENTRIES = _cache_entries()
BINARY_OPERATORS = tuple(symbol for _, symbol in opcode._nb_ops)
COMPARISONS = opcode.cmp_op
# What the specialiser of COMPARE_OP wants in the low bits: unordered 1, less 2, greater 4, equal 8.
COMPARISON_MASKS = {"<": 2, "<=": 10, "==": 8, "!=": 7, ">": 4, ">=": 12}
INTRINSICS_1 = tuple(getattr(opcode, "_intrinsic_1_descs", ()))
INTRINSICS_2 = tuple(getattr(opcode, "_intrinsic_2_descs", ()))
COMMON_CONSTANTS = tuple(getattr(opcode, "_common_constants", ()))
SPECIAL_METHODS = tuple(getattr(opcode, "_special_method_names", ()))
TAKES_ARGUMENT = [
    number in opcode.hasarg if hasattr(opcode, "hasarg") else number >= opcode.HAVE_ARGUMENT for number in range(256)
]

# Jumps by the name that `decode` gives them. `JUMP_FORWARD` and `JUMP_BACKWARD` are chosen by the assembler.
UNCONDITIONAL_JUMPS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
CONDITIONAL_JUMPS = frozenset(
    {"POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE"}
    | {"JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP", "FOR_ITER", "SEND"}
)
JUMPS = UNCONDITIONAL_JUMPS | CONDITIONAL_JUMPS
INVERTED = {
    "POP_JUMP_IF_TRUE": "POP_JUMP_IF_FALSE",
    "POP_JUMP_IF_FALSE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_IF_NONE": "POP_JUMP_IF_NOT_NONE",
    "POP_JUMP_IF_NOT_NONE": "POP_JUMP_IF_NONE",
}
# Operations after which the next instruction is not reached.
ENDS = frozenset({"RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT"}) | UNCONDITIONAL_JUMPS

# Fused operations, and the plain ones they stand for (a nibble of the argument each, high nibble first).
FUSED = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
}
