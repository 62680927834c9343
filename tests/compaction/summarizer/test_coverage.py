"""How a summary is judged."""

from nbchat.compaction.summarizer.coverage import coverage
from nbchat.conversation.entries import Entry


def test_a_summary_is_judged_by_a_bounded_number_of_those_before_it():
    """A chat with little news has thousands of summaries, and no time for them."""
    summaries = iter([(n, "Nothing new.") for n in range(1_000, 0, -1)])
    coverage(summaries, [Entry("user", "hello")] * 1_001, "W17 is sent")
    assert len([*summaries]) >= 900
