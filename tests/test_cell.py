"""A turn in a cell: the text that is printed, and how often the notebook hears of it."""

import contextlib
import io

from nbchat.cell import WIDTH, Conversation, WrappedText, show
from nbchat.events import EntryAdded, TextDelta
from nbchat.history import Entry
from nbchat.session import Session

ANSWER = "A plain word of text, and another. " * 300


class CountingStream(io.StringIO):
    """A standard output that counts how often it is flushed."""

    flushes = 0

    def flush(self) -> None:
        self.flushes += 1
        super().flush()


def printed(*pieces: str) -> CountingStream:
    events = [*map(TextDelta, pieces), EntryAdded(0, Entry("assistant", ANSWER))]
    with contextlib.redirect_stdout(CountingStream()) as stream:
        show(iter(events))
    return stream


def test_a_fast_answer_is_not_flushed_word_by_word():
    pieces = [ANSWER[place : place + 4] for place in range(0, len(ANSWER), 4)]
    stream = printed(*pieces)
    assert stream.getvalue().split() == ANSWER.split()
    assert stream.flushes < len(pieces) / 20


def test_the_first_words_are_seen_at_once():
    with contextlib.redirect_stdout(CountingStream()) as stream:
        WrappedText().write("Hello there, ")
    assert stream.flushes == 1


def test_lines_break_between_words_and_code_stays_as_it_is():
    code = "```\n" + "x = 1; " * 30 + "\n```"
    text, _, rest = printed(ANSWER[:700], f"\n{code}\n").getvalue().partition("```")
    assert max(len(line.rstrip()) for line in text.splitlines()) <= WIDTH
    assert f"```{rest}".strip() == code


def test_a_conversation_can_be_shown_where_there_are_no_widgets():
    said = [
        Entry("user", "What is in *ticket* 42?"),
        Entry("assistant", "", "c1", "look_up", '{"ticket": 42}'),
        Entry("tool", "The printer is <offline>.", "c1"),
        Entry("assistant", "It is **offline**."),
    ]
    shown = Conversation(Session(said))
    assert (
        repr(shown) == "You: What is in *ticket* 42?\n\nAssistant: It is **offline**."
    )
    html = shown._repr_html_()
    for part in ("*ticket*", "look_up", "&lt;offline&gt;", "<strong>offline</strong>"):
        assert part in html
    assert repr(Conversation(Session())) == "nothing was said yet"
