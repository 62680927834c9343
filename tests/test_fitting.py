"""What fits into a budget, and every omission stated."""

from nbchat.compaction.fitting import fit, shorten
from nbchat.history import Entry
from nbchat.tokens import TokenCounter


def test_a_long_text_keeps_head_and_tail_and_says_how_much_is_missing():
    text = "head " + "x" * 1_000 + " tail"
    short = shorten(text, 120)
    assert short.startswith("head ")
    assert short.endswith(" tail")
    assert "[890 characters left out]" in short


def test_what_fits_stays_whole():
    entries = [Entry("user", "word " * 100)]
    assert fit(entries, None, TokenCounter()) == entries


def test_what_people_said_stays_whole_while_long_outputs_are_shortened():
    said, output = (
        Entry("user", "word " * 4_000),
        Entry("tool", "x" * 50_000, "1", "read"),
    )
    kept = fit([said, output], None, TokenCounter())
    assert kept[0] == said
    assert "[42,001 characters left out]" in kept[1].content


def test_long_outputs_shrink_before_any_entry_goes():
    counter = TokenCounter()
    entries = [Entry("tool", "row " * 5_000, "1", "read"), Entry("user", "thanks")]
    kept = fit(entries, 1_000, counter)
    assert counter.count_entries(kept) <= 1_000
    assert len(kept) == 2


def test_what_cannot_fit_loses_its_middle_and_the_gap_is_counted():
    counter = TokenCounter()
    entries = [Entry("user", f"message number {n}") for n in range(100)]
    kept = fit(entries, 200, counter)
    assert counter.count_entries(kept) <= 230
    assert kept[0] == entries[0]
    assert kept[-1] == entries[-1]
    missing = 100 - (len(kept) - 1)
    assert any(f"[{missing} entries" in entry.content for entry in kept)
