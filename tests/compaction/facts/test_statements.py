"""What people said with ids that no call has used."""

import pytest

from nbchat.compaction.facts.statements import (
    KEPT_STATEMENTS,
    MOST_STATEMENTS,
    Statements,
    names_in,
    unused_statements,
)
from nbchat.conversation.entries import Entry
from nbchat.providers.tokens import TokenCounter

COUNTER = TokenCounter()


def test_a_statement_is_looked_at_again_only_while_its_ids_are_not_used():
    said = Statements()
    for number in range(2_000):
        said.add(Entry("user", f"And what about SO-{number}x?"))
        said.use({f"SO-{number}x".lower(), "what"})
    said.add(Entry("user", "It is TX-99."))
    assert len(list(said.newest_first(has_id=True))) == 1
    assert len(list(said.newest_first(has_id=False))) == 1
    assert unused_statements(said, set(), 100, COUNTER)[1:] == ['- "It is TX-99."']


def test_of_many_statements_without_a_use_only_the_newest_are_looked_at():
    said = Statements()
    for _ in range(5_000):
        said.add(Entry("user", "Tell it to Ann Lee of AB-1234."))
    assert len(list(said.newest_first(has_id=True))) == MOST_STATEMENTS
    assert len(unused_statements(said, set(), 100, COUNTER)) == 2


def test_the_newest_statements_are_remembered_and_older_ones_forgotten():
    said = Statements()
    for number in range(KEPT_STATEMENTS + 10):
        said.add(Entry("user", f"And what about SO-{number}x of Ann Lee?"))
    assert len(said) == KEPT_STATEMENTS
    said.use({"so-9x", "lee"})  # the first is of a forgotten one
    newest = next(said.newest_first(has_id=True))
    assert newest.names == {"ann", f"so-{KEPT_STATEMENTS + 9}x"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Это стоит 1 299 ₽ за DATA-1432.", ("1 299", "DATA-1432")),
        ("It costs 12\u202f500,00 € in all.", ("12\u202f500,00",)),
        ("I take option 2 429 times.", ("429",)),
    ],
)
def test_an_amount_with_spaces_stays_whole(text: str, names: tuple[str, ...]):
    assert names_in(text) == names
