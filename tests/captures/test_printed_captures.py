"""The table of captures in words: microseconds, how many calls go wrong, lines of other paths."""

from dynascope.captures.comparing import Comparison, Proof, Row
from dynascope.captures.printing import comparison_text


def test_words_of_rows():
    wrong = Proof("call 2", "gives other values", lines=(20, 21))
    traced = Row("torch.jit.trace", True, ("graph",), proofs=(wrong, Proof("call 3", None)), seconds=0.01, overhead=11e-6)
    scripted = Row("torch.jit.script", False, failure="RuntimeError: lookup is not defined on value of type 'Tokens':", seconds=0.01)
    text = comparison_text(Comparison("pool", (traced, scripted), 10e-6), graphs=False)
    assert "pool, a call of eager's takes 10 µs" in text and "+11 µs" in text
    assert "no, wrong on 1 of 2 calls" in text
    assert "UNSOUND, call 2 (eager runs lines 20, 21 then): gives other values" in text
    assert "value of type 'Tokens'\n" in text + "\n"


def test_the_same_error_of_several_calls_is_said_once():
    words = "RuntimeError: sizes of tensors must match"
    raising = Proof("call 2", words, is_said=True), Proof("call 3", words, True, (14,))
    proofs = (Proof("call 1", None), *raising, Proof("call 4", "other values"))
    row = Row("torch.export", True, ("graph",), proofs=proofs, seconds=0.01)
    text = comparison_text(Comparison("pool", (row,), 10e-6), graphs=False)
    assert text.count(words) == 1
    assert f"raises, call 2; call 3 (eager runs line 14 then): {words}" in text and "UNSOUND, call 4: other values" in text
