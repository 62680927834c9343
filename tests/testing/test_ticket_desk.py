"""The demo's desk: code holds the workflow, and bad ticket files are refused."""

import pytest

from nbchat.agent.agent import Agent
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.testing import ScriptedProvider, TicketDesk, calls, read_tickets, says
from nbchat.testing.ticket_desk import read_articles

WORK = [
    calls("get_next_ticket"),
    calls("search_help_articles", query="transfer fee"),
    calls("set_category", category="transfer_fee_charged"),
    calls("set_priority", priority="low"),
    calls("assign_team", team="payments"),
    calls("reply_draft", text="We will look into it."),
    calls("close_ticket"),
]


def test_the_packaged_tickets_and_articles_can_be_read():
    assert len(read_tickets()) == 30
    assert read_tickets(count=1)[0].true_category == "top_up_by_cash_or_cheque"
    assert all(article["title"] for article in read_articles())


def test_an_agent_that_follows_the_desk_decides_every_ticket():
    desk = TicketDesk(read_tickets(count=2))
    provider = ScriptedProvider(*WORK, *WORK, says("All done."))
    agent = Agent(
        provider, tools=desk.tools, system=desk.system, tool_choice=desk.next_tool
    )
    assert agent.ask(desk.task) == "All done."
    assert all(ticket.is_decided for ticket in desk.tickets)
    asked = [request.tool_choice for request in provider.requests]
    assert asked == [line.calls[0].tool_name for line in [*WORK, *WORK]] + ["none"]
    assert [row["right"] for row in desk.table()] == [False, True]


def test_a_tool_called_too_early_is_refused_with_a_hint():
    desk = TicketDesk(read_tickets(count=1))
    with pytest.raises(NbchatError, match="call get_next_ticket"):
        desk.close_ticket()
    desk.get_next_ticket()
    assert "still open" in desk.get_next_ticket()


def test_a_search_finds_the_article_with_the_most_words_in_common():
    assert (
        "transfer fee"
        in TicketDesk([]).search_help_articles("gold transfer charged").lower()
    )


def test_without_tickets_there_is_nothing_to_call():
    assert TicketDesk([]).next_tool(Session()) == "none"
    assert TicketDesk([]).get_next_ticket() == "no ticket is left"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("not json", r"line 1 is not JSON: 'not json'; each line is an object"),
        (
            '{"text": "a", "category": "b"}\n{"text": "a"}',
            "line 2 needs 'text' and 'category'",
        ),
        ("[1, 2]", "line 1 needs"),
    ],
)
def test_an_invalid_ticket_file_is_refused_in_one_line(tmp_path, content, said):
    file = tmp_path / "tickets.jsonl"
    file.write_text(content)
    with pytest.raises(NbchatError, match=said) as refused:
        read_tickets(file)
    assert "\n" not in str(refused.value)


def test_a_missing_ticket_file_is_refused(tmp_path):
    with pytest.raises(NbchatError, match="cannot be read"):
        read_tickets(tmp_path / "none.jsonl")
