"""What fits into a budget, and every omission stated."""

from nbchat.compaction.shortening import shorten, within


def test_a_long_text_keeps_head_and_tail_and_says_how_much_is_missing():
    text = "head " + "x" * 1_000 + " tail"
    short = shorten(text, 120)
    assert short.startswith("head ")
    assert short.endswith(" tail")
    assert "[890 characters omitted]" in short


def test_a_text_within_its_limit_stays_as_it_is():
    assert shorten("word " * 100, 500) == "word " * 100


def test_the_first_items_that_fit_together_are_taken():
    assert within(["aa", "bbb", "c"], 5, len) == ["aa", "bbb"]
    assert within(["aa", "bbbb", "c"], 5, len) == ["aa"]
