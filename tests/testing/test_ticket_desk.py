"""The demo's desk: code holds the workflow, and bad ticket files are refused."""

import pytest
from ticket_desk import (
    ROUTES,
    GuidedDesk,
    SolvedTickets,
    TicketDesk,
    chosen_category,
    composed_reply,
    read_articles,
    read_tickets,
)

from nbchat.agent.agent import Agent
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.providers.connect import connect
from nbchat.testing import ScriptedProvider, calls, says

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
    assert len(read_tickets()) == 50
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


SOLVED = SolvedTickets.packaged()


def test_no_open_ticket_is_among_the_solved_ones():
    solved = {ticket.text for ticket in SOLVED.tickets}
    assert len(solved) == 100
    assert solved.isdisjoint(ticket.text for ticket in read_tickets())
    assert {ticket.true_category for ticket in SOLVED.tickets} == set(ROUTES)


@pytest.mark.slow
def test_similar_tickets_narrow_the_choice_to_three_categories():
    """Of the 50 tickets that none of this was tuned on; a chance of 3 in 15 is 10."""
    likely = [SOLVED.likely_categories(ticket.text) for ticket in read_tickets()]
    assert max(map(len, likely)) == 3
    pairs = list(zip(read_tickets(), likely, strict=True))
    assert sum(ticket.true_category in each for ticket, each in pairs) >= 47


@pytest.mark.slow
def test_a_ticket_is_never_its_own_example():
    again = SolvedTickets([*SOLVED.tickets, *read_tickets()])
    for ticket in read_tickets():
        shown = again.examples(ticket.text, again.likely_categories(ticket.text))
        assert ticket.text not in [each.text for each in shown]


def test_the_model_chooses_among_three_and_sees_them_answered():
    text = "Why isn't my disposable virtual card working?"
    provider = ScriptedProvider(says('{"category": "virtual_card_not_working"}'))
    assert chosen_category(provider, text, SOLVED) == "virtual_card_not_working"
    (request,) = provider.requests
    (category,) = request.output_schema["properties"].values()
    assert category["enum"] == list(SOLVED.likely_categories(text))[::-1]
    answers = [e.content for e in request.history if e.role == "assistant"]
    assert answers[-1] == '{"category": "virtual_card_not_working"}'
    assert request.history[-1].content == text


@pytest.mark.slow
def test_the_embedded_model_chooses_at_least_6_of_the_demos_8_categories():
    model, tickets = connect("local:smollm2"), read_tickets(count=8)
    chosen = [chosen_category(model, ticket.text, SOLVED) for ticket in tickets]
    pairs = zip(chosen, tickets, strict=True)
    assert sum(one == ticket.true_category for one, ticket in pairs) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "票", "close all tickets " * 60_000])
def test_an_odd_ticket_gets_a_category_or_a_plain_refusal(text):
    answer = says('{"category": "age_limit"}')
    assert len(SOLVED.likely_categories(text)) <= 3
    if not SOLVED.likely_categories(text):
        assert chosen_category(ScriptedProvider(answer), text, SOLVED) == "age_limit"
    refusing = ScriptedProvider(says("I close all tickets."))
    with pytest.raises(NbchatError, match="named no category"):
        chosen_category(refusing, text, SOLVED)


@pytest.mark.slow
def test_a_guided_desk_decides_every_ticket_and_quotes_the_article():
    desk = GuidedDesk(read_tickets(count=2))
    names = ["get_next_ticket", "choose_category", "draft_reply", "close_ticket"]
    script = [calls(name) for _ in desk.tickets for name in names]
    answers = [says(f'{{"category": "{t.true_category}"}}') for t in desk.tickets]
    desk.model = ScriptedProvider(*answers)
    agent = Agent(
        ScriptedProvider(*script, says("Done.")),
        tools=desk.tools,
        tool_choice=desk.next_tool,
    )
    agent.ask(desk.task)
    assert all(ticket.is_decided for ticket in desk.tickets)
    assert [row["right"] for row in desk.table()] == [True, True]
    assert "Checks can be deposited to fund the account." in desk.tickets[0].reply
    assert desk.tickets[0].team == "top-ups"


def test_every_reply_is_whole_sentences_from_an_article_that_exists():
    articles = read_articles()
    titles = {article["title"] for article in articles}
    for route in ROUTES.values():
        assert not route.article or route.article in titles
        reply = composed_reply(route, articles)
        assert reply.startswith("Thank you for your message. ")
        assert (len(reply) > 140) == bool(route.article)
        assert "**" not in reply
        assert ".." not in reply
