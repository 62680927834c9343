"""Entries as data for a model."""

from nbchat.compaction.transcript_text import transcript
from nbchat.conversation.entries import Entry


def test_a_summarizer_does_not_read_thinking():
    history = [
        Entry("user", "Is it?"),
        Entry("thinking", "A secret thought.", "", "openai", '{"type": "reasoning"}'),
        Entry("assistant", "Yes."),
    ]
    written = transcript(history)
    assert written == "<user>Is it?</user>\n<assistant>Yes.</assistant>"
