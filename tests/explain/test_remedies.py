"""What reasons advise, without a program that has them."""

from dynascope.capture.reasons import DataDependentValue


def test_a_number_in_a_formatted_text_is_advised_as_the_text_is():
    """Until CPython 3.12 the whole text is the place of what stands in it."""
    assert "make the text in the caller" in DataDependentValue('f"loss {loss.item():.3f}"', "item").remedy()
    assert "Leave out the conversion" in DataDependentValue("loss.item()", "item").remedy()


def test_a_loop_over_a_number_of_turns_is_advised_as_a_loop():
    """It was told to keep elements and a mask, of which it has none."""
    remedy = DataDependentValue("range(int(x.max()))", "item").remedy()
    assert remedy.startswith("How many turns `range(int(x.max()))` takes, only the run knows") and "torch.where" in remedy
