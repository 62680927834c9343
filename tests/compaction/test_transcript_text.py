"""Entries as data for a model."""

from nbchat.compaction.transcript_text import transcript
from nbchat.conversation.entries import Entry


def test_thinking_is_no_part_of_what_a_summarizer_reads():
    history = [
        Entry("user", "Is it?"),
        Entry("thinking", "A secret thought.", "", "openai", '{"type": "reasoning"}'),
        Entry("assistant", "Yes."),
    ]
    written = transcript(history)
    assert written == "<user>Is it?</user>\n<assistant>Yes.</assistant>"
