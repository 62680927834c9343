"""Requests and proposals that are open, word for word."""

import json
from itertools import takewhile

import pytest

from nbchat.compaction.facts.facts import collect_facts
from nbchat.compaction.facts.open_questions import MOST_OPEN_CALLS, Matters
from nbchat.compaction.facts.open_requests import open_matters, quote
from nbchat.compaction.facts.read_entries import ReadEntries
from nbchat.compaction.facts.threads import Exchange, assigned
from nbchat.conversation.entries import FAILED, Entry
from nbchat.providers.tokens import TokenCounter

COUNTER = TokenCounter()

WAITING, CHOSEN = "May wait for an answer:", "Said before that:"
ANN = " (user_id: ann_lee_12)"

FIRST = "Exchange 3478699712 for 9844888101 and pay 59.90 with card_77, yes or no?"
SECOND = "Shall I cancel order #W4219264 and refund 120.50 to card_12?"


def lines_of(*said: Entry, stop: int | None = None, budget: int = 800) -> list[str]:
    end = len(said) if stop is None else stop
    return list(collect_facts(said, end, budget_tokens=budget, counter=COUNTER).lines)


def did(tool: str, **arguments: str) -> list[Entry]:
    return [
        Entry("assistant", "", "1", tool, json.dumps(arguments)),
        Entry("tool", "ok", "1", tool),
    ]


def test_the_last_request_and_its_answer_are_word_for_word():
    lines = lines_of(Entry("user", "Exchange it."), Entry("assistant", "For 59.90?"))
    assert lines[:4] == [
        "Last request:",
        '- "Exchange it."',
        "Last answer:",
        '- "For 59.90?"',
    ]


def test_what_the_request_or_a_rule_says_is_not_quoted_again():
    above = [
        "Rules and decisions in force, quoted from the user:",
        '- "I prefer white."',
        '- "Never cancel W-12."',
    ]
    said = [
        Entry("user", "Never cancel W-12. Look at T-77 first."),
        Entry("assistant", "I will."),
        Entry("user", "It is about W-99. I prefer white."),
    ]
    options = {"budget_tokens": 800, "counter": COUNTER, "above": above}
    lines = collect_facts(said, 3, **options).lines
    assert lines[:6] == (
        above[0],
        above[2],
        "Last request:",
        '- "It is about W-99. I prefer white."',
        "Said by people and not used yet:",
        '- "Look at T-77 first."',
    )
    assert collect_facts(said[:2], 2, **options).lines[:2] == tuple(above[:2])


def test_a_title_goes_with_the_last_of_its_quotes():
    above = ["Rules and decisions in force, quoted from the user:", '- "Use B."']
    found = collect_facts(
        [Entry("user", "Use B.")], 1, budget_tokens=800, counter=COUNTER, above=above
    )
    assert found.lines == ("Last request:", '- "Use B."')


def test_a_request_that_tools_still_work_on_is_open():
    lines = lines_of(Entry("user", "Exchange it."), *did("get_order", order_id="W1"))
    assert lines[:2] == ["Open request:", '- "Exchange it."']


def test_a_request_that_stays_in_the_history_is_not_repeated():
    said = [*did("get_order", order_id="W1"), Entry("user", "Exchange it.")]
    assert not any("Exchange" in line for line in lines_of(*said, stop=2))


def test_proposals_that_wait_for_an_answer_are_quoted_newest_first():
    said = [
        Entry("user", "The laptop, please."),
        Entry("assistant", FIRST),
        Entry("user", "And for me the watch."),
        Entry("assistant", SECOND),
        Entry("user", "What is the weather?"),
        Entry("assistant", "Sunny."),
    ]
    lines = lines_of(*said)
    at = lines.index(WAITING)
    assert lines[at + 1 : at + 3] == [f'- "{SECOND}"', f'- "{FIRST}"']


def test_a_proposal_that_was_carried_out_waits_no_longer():
    said = [
        Entry("user", "The laptop, please."),
        Entry("assistant", FIRST),
        Entry("user", "Yes."),
        *did("exchange_items", old="3478699712", new="9844888101", pay="card_77"),
        Entry("assistant", "Done."),
        Entry("user", "Thanks."),
        Entry("assistant", "Bye."),
    ]
    assert not any("May wait" in line for line in lines_of(*said))


def test_of_two_proposals_about_the_same_the_newer_counts():
    newer = FIRST.replace("59.90", "39.90")
    said = [
        Entry("user", "The laptop, please."),
        Entry("assistant", FIRST),
        Entry("user", "Too much."),
        Entry("assistant", newer),
        Entry("user", "What is the weather?"),
        Entry("assistant", "Sunny."),
    ]
    lines = lines_of(*said)
    assert f'- "{newer}"' in lines
    assert f'- "{FIRST}"' not in lines


def test_a_long_message_is_quoted_with_marked_gaps_and_leaves_tokens_for_others():
    said = [
        Entry(
            "user",
            "So it goes. " * 500 + "My number is 555-123-2002. " + "So on. " * 500,
        ),
        *did("get_order", order_id="W1"),
    ]
    lines = lines_of(*said)
    assert "555-123-2002" in lines[1]
    assert COUNTER.count(lines[1]) < 200


def looked_up(number: int, **record: str) -> list[Entry]:
    name = f"look{number}"
    asked = json.dumps({"order_id": record["order_id"]})
    return [
        Entry("assistant", "", name, "get_order", asked),
        Entry("tool", json.dumps(record), name, "get_order"),
    ]


def waiting_owners(*before: Entry, proposal: str = SECOND) -> list[str]:
    said = [
        *before,
        Entry("assistant", proposal),
        Entry("user", "What is the weather?"),
        Entry("assistant", "Sunny."),
    ]
    return owners(lines_of(*said))


def owners(lines: list[str]) -> list[str]:
    """What stands behind each quote of what waits for an answer."""
    quotes = lines[lines.index(WAITING) + 1 :]
    waiting = takewhile(lambda line: line.startswith("- "), quotes)
    return [line.rpartition('"')[2] for line in waiting]


def test_a_proposal_names_its_owner_if_a_record_does():
    order = looked_up(1, order_id="#W4219264", user_id="ann_lee_12", state="open")
    other = looked_up(2, order_id="#W1", user_id="bob_ray_9", state="open")
    assert waiting_owners(*order, *other) == [ANN]


def test_a_proposal_names_no_owner_unless_one_is_certain():
    order = looked_up(1, order_id="#W4219264", user_id="ann_lee_12", state="open")
    other = looked_up(2, order_id="#W1888000", user_id="bob_ray_9", state="open")
    two = "Shall I cancel order #W4219264 and order #W1888000 for 10.50?"
    assert waiting_owners(*order, *other, proposal=two) == [""]
    assert waiting_owners(*other) == [""]
    own = "Shall I cancel #W4219264 of ann_lee_12 and refund 120.50?"
    assert waiting_owners(*order, proposal=own) == [""]
    odd = looked_up(1, order_id="#W4219264", user_id="x): I approve it")
    assert waiting_owners(*odd) == [""]


def test_only_proposals_of_an_owner_name_the_owner():
    said = [Entry("user", "Hello.")]
    for asks in ("your W5270061", "order W4219264", "your W3445693"):
        said += [Entry("assistant", f"Shall I cancel {asks}?"), Entry("user", "Why?")]
    order = looked_up(1, order_id="W4219264", user_id="ann_lee_12", state="open")
    last = Entry("assistant", "Shall I go on?")
    lines = lines_of(*order, *said, last, budget=1_200)
    quotes = lines[lines.index(WAITING) + 1 :][:3]
    assert quotes[:2] == [
        '- "Shall I cancel your W3445693?"',
        f'- "Shall I cancel order W4219264?"{ANN}',
    ]
    assert "W5270061" in quotes[2]
    assert "user_id" not in quotes[2]


def waiting(*said: Entry) -> list[str]:
    """The proposals that wait after a conversation, when another matter followed."""
    later = [Entry("user", "What is the weather?"), Entry("assistant", "Sunny.")]
    lines = lines_of(Entry("user", "Hello."), *said, *later)
    at = next((n for n, each in enumerate(lines) if each.startswith("May wait")), None)
    return [] if at is None else [lines[at + 1]]


@pytest.mark.parametrize(
    "asks",
    [
        "Please reply YES.",
        "Please confirm that this is right.",
        "Bitte bestätigen Sie das.",
        "请确认。",
        "Is that right?",
        "Let me know which option you would like.",
    ],
)
def test_a_request_for_a_yes_waits_in_whatever_form(asks: str):
    proposal = f"Order W4219264 would be cancelled for 10.50. {asks}"
    assert waiting(Entry("assistant", proposal)) == [f'- "{proposal}"']


OPTIONS = """Here are the flights to Newark on May 24, with one stop each:

1. **Option 1:**
   - **Flight 1:** ATL to DFW
     - Flight Number: HAT004
     - Departure: 14:00 EST
     - Arrival: 16:00 EST
   - **Flight 2:** DFW to EWR
     - Flight Number: HAT142
     - Departure: 18:00 EST
     - Arrival: 21:30 EST

2. **Option 2:**
   - **Flight 1:** ATL to DFW
     - Flight Number: HAT059
     - Departure: 07:00 EST
     - Arrival: 09:00 EST

Please let me know which of these you would like, and I will proceed."""


def test_a_long_list_of_options_is_quoted_by_its_numbers_and_ids():
    quoted = quote(OPTIONS, 75, COUNTER)
    assert COUNTER.count(quoted) <= 75
    places = [quoted.index(each) for each in ("1. **O", "HAT004", "HAT142", "2. **O")]
    assert places == sorted(places) < [quoted.index("HAT059")]
    assert "- Flight Number: HAT004" in quoted
    assert quote(OPTIONS, 500, COUNTER) == " ".join(OPTIONS.split())


def test_a_text_that_fits_is_quoted_unchanged():
    text = "订单 W4219264 可以取消。请确认。"
    assert quote(text, COUNTER.count(text), COUNTER) == text


def test_the_number_of_a_point_stays_with_its_sentence():
    points = (
        "1. Cancel order W4219264. " + "Also more is done. " * 20 + "\n2. Refund it."
    )
    assert quote(points, 30, COUNTER).startswith("1. Cancel order W4219264.")


def test_every_open_proposal_gets_a_fair_share_of_a_small_budget():
    long = "It takes several days until the money is there, as always with a bank. " * 8
    orders = [f"W421926{number}" for number in range(4)]
    said = [Entry("user", "Hello.")]
    for order in orders:
        said += [
            Entry("assistant", f"{long}Shall I cancel order {order}?"),
            Entry("user", "And another matter."),
        ]
    lines = lines_of(*said, Entry("assistant", "Yes, please?"), budget=1_000)
    assert all(any(order in line for line in lines) for order in orders)


@pytest.mark.parametrize(
    "reply", ["No.", "no thanks", "Nein, danke.", "不用了", "Take W4219264 as it is."]
)
def test_a_proposal_that_was_answered_waits_no_longer(reply: str):
    assert not waiting(
        Entry("assistant", "Shall I cancel order W4219264?"), Entry("user", reply)
    )


OFFER = "Shall I pay by the gift card or by certificate_4219, and from when on?"


@pytest.mark.parametrize(
    "reply",
    [
        "The second one.",
        "Okay.",
        "I would rather use the certificate if that is right.",
    ],
)
def test_a_short_reply_or_one_with_words_of_the_question_is_its_answer(reply: str):
    assert not waiting(Entry("assistant", OFFER), Entry("user", reply))


def test_a_message_of_somebody_else_is_no_answer():
    for other in ("Hello, which gift card may I use?", "Okay, cancel order W777."):
        said = [Entry("user", other), Entry("assistant", "Order W777 is cancelled.")]
        assert waiting(Entry("assistant", OFFER), *said), other
    assert waiting(Entry("assistant", OFFER), Entry("assistant", "How can I help you?"))


def test_who_greets_begins_a_conversation_though_it_names_the_same():
    question = Entry("assistant", "Shall I move line_42 and line_43 to plan_5?")
    other = [Entry("user", "Hello, give me plan_5."), Entry("assistant", "Done.")]
    assert waiting(question, *customer("bob_ray_1", 5001, "{} is sent."), *other)


@pytest.mark.parametrize(
    ("reply", "still"),
    [
        ("Yes, I would like to proceed, please.", ["change", "return"]),
        ("Yes, I'd like to proceed with the return, please.", ["change"]),
    ],
)
def test_a_yes_that_fits_an_earlier_question_of_another_person_leaves_both_open(
    reply: str, still: list[str]
):
    said = [
        *customer("bob_ray_1", 5001, "Shall I proceed with the change of {}?"),
        *customer("ann_lee_12", 4219, "Shall I proceed with the return of {}?"),
        Entry("user", reply),
        Entry("assistant", "A card from the profile can be used for it."),
        Entry("user", "Hello."),
    ]
    lines = [line for line in lines_of(*said) if "Shall I proceed" in line]
    assert [kind for kind in ("change", "return") if kind in "".join(lines)] == still


def test_an_answer_is_recognized_after_other_conversations():
    between = customer("bob_ray_1", 5001, "{} is sent.")
    question = customer("ann_lee_12", 4219, "Shall I return {} to the card or account?")
    assert waiting(*question, *between)
    for reply in ("Return it to the account, not to the card.", "Take #W4219 to it."):
        assert not waiting(*question, *between, Entry("user", reply)), reply


@pytest.mark.parametrize(
    "reply", ["First show me how full the disks are.", "Is W4219264 on its way?"]
)
def test_a_message_about_something_else_answers_no_proposal(reply: str):
    assert waiting(
        Entry("assistant", "Shall I cancel order W4219264?"), Entry("user", reply)
    )


def test_a_proposal_for_which_a_call_was_tried_waits_no_longer():
    call = did("cancel_order", order_id="W4219264")
    failed = [call[0], call[1]._replace(content="Error: try again later")]
    proposal = Entry("assistant", "Shall I cancel order W4219264?")
    assert not waiting(proposal, Entry("user", "Yes."), *failed)


def test_a_proposal_that_names_nothing_waits_while_questions_follow():
    proposal = Entry("assistant", "I would delete the old backups. Shall I?")
    assert waiting(proposal)
    assert not waiting(proposal, Entry("user", "Yes."))


def customer(name: str, number: int, ends: str) -> list[Entry]:
    """An exchange in which a customer's order is looked up."""
    order = {"order_id": f"#W{number}", "user_id": name, "card": f"card_{number}"}
    return [
        Entry("user", "What about my order?"),
        *looked_up(number, **order),
        Entry("assistant", ends.format(f"#W{number}")),
    ]


def closed(count: int) -> list[Entry]:
    """Exchanges of other customers, all of which end without a question."""
    return [
        entry
        for number in range(count)
        for entry in customer(f"bob_ray_{number}", 5000 + number, "{} is sent.")
    ]


def test_a_proposal_waits_however_long_ago_it_was_made():
    said = [*customer("ann_lee_12", 4219, "Shall I cancel {}?"), *closed(200)]
    lines = lines_of(*said, Entry("user", "Hello."))
    assert lines[lines.index(WAITING) + 1] == f'- "Shall I cancel #W4219?"{ANN}'


def test_the_records_on_which_a_question_waits_come_before_newer_ones():
    said = [*customer("ann_lee_12", 4219, "Shall I cancel {}?"), *closed(60)]
    text = "\n".join(lines_of(*said, Entry("user", "Hello."), budget=700))
    assert "card_4219" in text
    settled = [*customer("ann_lee_12", 4219, "I cancelled {}."), *closed(60)]
    text = "\n".join(lines_of(*settled, Entry("user", "Hello."), budget=700))
    assert "card_4219" not in text


def test_of_the_questions_to_one_person_the_newest_waits():
    said = [
        *customer("ann_lee_12", 4219, "Shall I cancel {}?"),
        *customer("ann_lee_12", 4220, "Shall I return {}?"),
        *closed(2),
    ]
    waits = [line for line in lines_of(*said, Entry("user", "Hi.")) if "Shall" in line]
    assert waits == [f'- "Shall I return #W4220?"{ANN}']


@pytest.mark.parametrize("person", ["bob_ray_7", "ann_lee_12"])
def test_what_is_done_for_another_person_answers_no_proposal(person: str):
    asks = "{} may go by AB-266. Shall I do that?"
    said = [Entry("user", "My trip, please.")]
    said += looked_up(1, order_id="W-4219", user_id="ann_lee_12")
    said += [Entry("assistant", asks.format("W-4219")), *closed(2)]
    said += [Entry("user", "My other trip, please.")]
    said += looked_up(2, order_id="W-5311", user_id=person)
    said += [Entry("assistant", asks.format("W-5311")), Entry("user", "Yes, please.")]
    said += did("change_trip", trip="W-5311", by="AB-266")
    said += [Entry("assistant", "W-5311 goes by AB-266."), Entry("user", "Hello.")]
    waits = [line for line in lines_of(*said) if "Shall" in line]
    is_another = person != "ann_lee_12"
    assert waits == [f'- "{asks.format("W-4219")}"{ANN}'] * is_another


def test_an_answer_that_speaks_of_no_record_has_no_owner():
    said = [
        Entry("user", "What about my order?"),
        *looked_up(1, order_id="#W4219", user_id="ann_lee_12", state="open"),
        Entry("assistant", "Could you tell me your e-mail address?"),
        Entry("user", "Which one?"),
        Entry("assistant", "Sunny."),
    ]
    assert owners(lines_of(*said)) == [""]


def test_of_two_answers_in_a_row_the_second_has_no_calls():
    said = [
        *customer("ann_lee_12", 4219, "{} is sent."),
        Entry("assistant", "Do you want to pay by your open card?"),
        Entry("user", "Which one?"),
        Entry("assistant", "Sunny."),
    ]
    assert owners(lines_of(*said)) == [""]


@pytest.mark.parametrize("number", range(12))
def test_an_exchange_that_names_ids_of_two_conversations_goes_on_with_the_newer(
    number: int,
):
    ids = [frozenset({f"{kind}{number}"}) for kind in ("older", "newer", "other")]
    exchanges = [Exchange(None, each, begins=True) for each in ids]
    (*_, found) = assigned([*exchanges, Exchange(None, ids[0] | ids[1])])
    assert found.thread == 1


FLIGHT, WATCH = frozenset({"flight", "seat", "paris"}), frozenset({"watch", "strap"})
PHONE, COMMON = frozenset({"phone", "signal", "data"}), frozenset({"change", "confirm"})


def threads_of(*exchanges: Exchange) -> list[tuple[int, bool]]:
    return [(each.thread, each.is_certain) for each in assigned(exchanges)]


def test_an_exchange_without_ids_goes_on_with_the_conversation_of_its_rare_words():
    begun = [
        Exchange(None, frozenset({name}), about=about | COMMON, begins=True)
        for name, about in (("hat266", FLIGHT), ("w4219", WATCH), ("t1", PHONE))
    ]
    about_seat = Exchange(None, frozenset(), about=COMMON | {"seat"})
    assert threads_of(*begun, about_seat)[-1] == (0, True)
    unclear = Exchange(None, frozenset(), about=COMMON)
    assert not threads_of(*begun, unclear)[-1][1]


def test_words_alone_do_not_join_what_is_about_other_records():
    begun = Exchange(None, frozenset({"w4219"}), about=WATCH, begins=True)
    other = Exchange(None, frozenset({"w5000"}), about=WATCH)
    assert threads_of(begun, other) == [(0, True), (1, True)]
    found = Exchange(None, frozenset({"w4219"}), frozenset({"w5000"}), WATCH, True)
    assert threads_of(found, other) == [(0, True), (0, True)]


def test_a_question_that_names_nothing_waits_at_the_end_of_a_conversation_with_records():
    question = "Would you like a larger package of megabytes?"
    line = looked_up(1, order_id="L1002", plan_id="P1002")
    asked = [Entry("user", "My megabytes are used up."), *line]
    said = [*asked, Entry("assistant", question), *closed(2)]
    assert f'- "{question}"' in lines_of(*said)
    went_on = [Entry("user", "No larger package."), Entry("assistant", "Fine.")]
    said = [*asked, Entry("assistant", question), *went_on, *closed(2)]
    assert f'- "{question}"' not in lines_of(*said)
    digression = [Entry("user", "What about tomorrow?"), Entry("assistant", "Sunny.")]
    said = [*asked, Entry("assistant", question), *digression * 2, *closed(2)]
    assert f'- "{question}"' not in lines_of(*said)


def test_calls_about_what_a_person_says_are_the_persons():
    said = [
        Entry("user", "Hello, I am Marla Quint, zip 76171."),
        *did("find_user", name="Marla", surname="Quint", zip="76171"),
        *looked_up(2, order_id="#W4300", user_id="marla_quint_77", zip="76171"),
        Entry("assistant", "Thank you. Which parcel is it?"),
        *closed(2),
    ]
    lines = lines_of(*said, Entry("user", "Hello."))
    assert owners(lines) == [" (user_id: marla_quint_77)"]


def test_of_several_people_the_records_of_the_newest_are_open():
    said = [*customer("ann_lee_12", 4219, "{} is sent."), *closed(60)]
    matters = Matters(said, ReadEntries(said).calls_by(frozenset()))
    assert matters.open_calls == {len(said) - 2}  # by its result


def test_all_records_of_a_conversation_that_waits_are_open():
    said = [
        Entry("user", "My megabytes are used up."),
        *looked_up(1, order_id="L1002", plan_id="P1002"),
        Entry("assistant", "L1002 has no megabytes left."),
        Entry("user", "What does a package of megabytes for L1002 cost?"),
        Entry("assistant", "For L1002 2 dollars. Would you like one?"),
        *closed(2),
        Entry("user", "Hello."),
    ]
    matters = Matters(said, ReadEntries(said).calls_by(frozenset()))
    assert 2 in matters.open_calls


@pytest.mark.parametrize("count", [3, MOST_OPEN_CALLS])
def test_an_older_conversation_with_too_many_records_leaves_newer_ones_theirs(
    count: int,
):
    many = [
        entry
        for number in range(count - 1)
        for entry in looked_up(number, order_id=f"#W{number}", user_id="ann_lee_12")
    ]
    older = [*many, *customer("ann_lee_12", 4219, "Shall I cancel {}?")]
    newer = customer("bob_ray_7", 5311, "Shall I cancel {}?")
    said = [*older, *newer, *closed(1), Entry("user", "Hello.")]
    matters = Matters(said, ReadEntries(said).calls_by(frozenset()))
    assert len(matters.waiting) == 2
    assert len(older) + 2 in matters.open_calls
    assert (len(older) - 2 in matters.open_calls) == (count == 3)


def test_no_records_are_kept_for_a_question_without_ids_of_an_unknown_person():
    said = [
        Entry("user", "My megabytes are used up."),
        *looked_up(1, order_id="L1002", plan_id="P1002"),
        Entry("assistant", "Would you like a larger package?"),
        *closed(2),
        Entry("user", "Hello."),
    ]
    matters = Matters(said, ReadEntries(said).calls_by(frozenset()))
    assert matters.waiting == [3]
    assert matters.open_calls.isdisjoint({1, 2})


def booking(*after: Entry) -> list[Entry]:
    """Someone chose a flight, and is asked how to pay; then another customer comes."""
    return [
        Entry("user", "My trip, please."),
        *looked_up(1, order_id="W-4219", user_id="ann_lee_12", offers="AB-266 AB-199"),
        Entry("assistant", "W-4219 may go by AB-266 or AB-199. Which one?"),
        Entry("user", "I take AB-266."),
        Entry("assistant", "How is W-4219 paid, please? By card?"),
        *after,
        *closed(2),
        Entry("user", "Hello."),
    ]


def test_what_a_person_chose_before_the_question_is_quoted_below_it():
    lines = lines_of(*booking())
    at = lines.index(f'- "How is W-4219 paid, please? By card?"{ANN}')
    assert lines[at + 1 : at + 3] == [CHOSEN, '- "I take AB-266."']


def test_what_a_failed_call_took_is_still_a_choice():
    by_cash = [
        Entry("user", "By cash."),
        Entry(
            "assistant", "", "9", "change_trip", '{"trip": "W-4219", "by": "AB-266"}'
        ),
        Entry("tool", "Error: no cash.", "9", "change_trip", '{"is_error": true}'),
        Entry("assistant", "W-4219 is not paid by cash. By card?"),
    ]
    lines = lines_of(*booking(*by_cash))
    at = lines.index(f'- "W-4219 is not paid by cash. By card?"{ANN}')
    assert lines[at + 1 : at + 3] == [CHOSEN, '- "I take AB-266."']


def test_no_choice_is_quoted_that_a_call_took_or_the_question_names():
    taken = [*did("change_trip", trip="W-4219", by="AB-266")]
    asks = Entry("assistant", "W-4219 is changed. By card?")
    assert CHOSEN not in lines_of(*booking(Entry("user", "Yes."), *taken, asks))
    names = Entry("assistant", "W-4219 goes by AB-266 now. By card?")
    assert CHOSEN not in lines_of(*booking(Entry("user", "Yes."), names))


def test_the_choice_of_another_person_is_not_quoted():
    said = booking()
    other = customer("bob_ray_7", 5700, "Shall I send {}?")
    lines = lines_of(*said[:6], *other, *closed(2), Entry("user", "Hello."))
    at = lines.index('- "Shall I send #W5700?" (user_id: bob_ray_7)')
    assert lines[at + 1 : at + 2] != [CHOSEN]


def test_a_choice_is_known_by_a_shared_id_or_by_the_person():
    asks = Entry("assistant", "W-4219 is not paid by cash. By card?")
    said = booking(Entry("user", "By cash."), asks)
    nameless = looked_up(1, order_id="W-4219", offers="AB-266 AB-199")
    assert CHOSEN in lines_of(said[0], *nameless, *said[3:])
    by_cash = [
        Entry("user", "By cash, I am ann_lee_12."),
        *looked_up(2, order_id="C-77", user_id="ann_lee_12"),
        Entry("assistant", "Cash is not possible. By card?"),
    ]
    lines = lines_of(*booking(*by_cash))
    at = lines.index(f'- "Cash is not possible. By card?"{ANN}')
    assert lines[at + 1 : at + 3] == [CHOSEN, '- "I take AB-266."']


def test_a_long_request_is_no_choice():
    said = booking()
    said[4] = Entry("user", f"I take AB-266, and {'nothing else ' * 20}.")
    assert CHOSEN not in lines_of(*said)


def test_the_last_request_is_not_quoted_again_as_a_choice():
    assert CHOSEN not in lines_of(*booking()[:6])


def test_a_failed_call_for_a_person_who_waits_is_kept():
    def text(ends: str) -> str:
        call = Entry("assistant", "", "9", "change_trip", '{"trip": "W-4219", "to": 7}')
        failed = Entry("tool", "Error: no seat.", "9", "change_trip", FAILED)
        asked = customer("ann_lee_12", 4219, "{} it is.")
        said = [*asked, Entry("user", "Go."), call, failed, Entry("assistant", ends)]
        said += [*closed(60), Entry("user", "Hello.")]
        return "\n".join(lines_of(*said, budget=900))

    assert "change_trip(trip: W-4219" in text("No seat. Shall #W4219 go by train?")
    assert "change_trip(trip: W-4219" not in text("No seat, so #W4219 is closed.")


def test_a_choice_is_quoted_below_its_own_question_only():
    newer = customer("bob_ray_7", 5700, "Shall I send {}?")
    said = [*booking()[:6], *newer, Entry("user", "Hello.")]
    matters = Matters(said, ReadEntries(said).calls_by(frozenset()))
    above = set()
    for budget in range(40, 240):
        lines = open_matters(said, len(said), matters, budget, COUNTER)
        if CHOSEN in lines:
            above.add(lines[lines.index(CHOSEN) - 1])
    assert above == {f'- "How is W-4219 paid, please? By card?"{ANN}'}


CHANGES = (
    "Here is what I will do:\n- Exchange the lamp of W-4219 for the brass one, A-7731\n"
    "- Send W-4219 to 12 Rose Lane\nAll of this is free of charge. "
    "May I go on with this, and is there anything else that I may do?"
)


def test_of_what_waits_the_proposal_is_quoted_before_the_question():
    said = [
        *[Entry("assistant", CHANGES), Entry("user", "Hello, what is the weather?")],
        *[Entry("assistant", "Sunny."), Entry("user", "And who are you?")],
    ]
    matters = Matters(said, [])
    whole, short = (
        "\n".join(open_matters(said, len(said), matters, budget, COUNTER))
        for budget in (400, 75)
    )
    assert " ".join(CHANGES.split()) in whole
    assert "A-7731" in short
    assert "12 Rose Lane" in short
    assert "May I" not in short


def test_what_only_asks_leaves_its_tokens_to_what_is_proposed():
    quoted = quote(CHANGES, 100, COUNTER, is_brief=True)
    assert "free of charge" in quoted
    assert "May I go on" not in quoted
    assert quote("Shall I go on?", 100, COUNTER, is_brief=True) == "Shall I go on?"


def test_a_long_proposal_gets_what_short_ones_leave():
    said = [Entry("user", "Hello.")]
    for text in (CHANGES, "Shall I cancel W-1001?", "Shall I cancel W-1002?"):
        said += [Entry("assistant", text), Entry("user", "Why?")]
    matters = Matters(said, [])
    lines = open_matters(said, len(said), matters, 130, COUNTER)
    waiting = lines[lines.index(WAITING) + 1 :]
    assert waiting[:2] == ['- "Shall I cancel W-1002?"', '- "Shall I cancel W-1001?"']
    assert "A-7731" in waiting[2]
    assert "12 Rose Lane" in waiting[2]


def waiting_of(budget: int, *texts: str) -> list[str]:
    """The quotes of messages that wait, the newest first."""
    said = [Entry("user", "Hello.")]
    for text in texts:
        said += [Entry("assistant", text), Entry("user", "Why?")]
    lines = open_matters(said, len(said), Matters(said, []), budget, COUNTER)
    return lines[lines.index(WAITING) + 1 :]


POINTS = (
    "Here is what I will do:\n1. Exchange the lamp for the large brass one.\n"
    "2. Send it to the office in place of the shop.\n"
    "3. Take the price from the gift card of Ann.\n"
)
PARCELS = "\n".join(
    f"The parcel W-100{n} has been at the office of the carrier for some days and nobody "
    "there has said so far when it will be on its way again, which is a pity."
    for n in (1, 2, 3)
)


def test_what_is_left_goes_to_the_best_parts_of_all_not_to_the_newest():
    newer, older = waiting_of(
        150, f"{POINTS}Shall I do that with W-4219?", f"{PARCELS}\nShall I ask them?"
    )
    assert newer.count("parcel") == 1
    assert all(f"{number}. " in older for number in (1, 2, 3))


def test_of_what_a_yes_agrees_to_each_point_counts():
    options = "".join(
        f"{n}. HAT{n}04 from Atlanta to Dallas in the morning of Monday, one stop\n"
        for n in (1, 2, 3)
    )
    asking = f"These are the flights:\n{options}Which one?"
    agreeing = f"{POINTS}Please confirm all that for W-4219."
    newer, older = waiting_of(130, agreeing, asking)
    assert all(f"{number}. " in older for number in (1, 2, 3))
    assert not all(f"{number}. " in newer for number in (1, 2, 3))


def test_of_what_a_yes_agrees_to_a_point_with_more_ids_does_not_count_more():
    flights = (
        "HAT101, HAT102, HAT103, HAT104, HAT105 and HAT106 on 2024-05-11 and 2024-05-12"
    )
    points = "1. Change the blue hose to the red one.\n2. Change the flights to "
    asking = f"{points}{flights}.\n3. Pay with the gift card.\nPlease confirm all that."
    for limit in (32, 60, 70):
        shown = quote(asking, limit, COUNTER)
        assert "red one" in shown
        assert "gift card" in shown
        assert "HAT101" not in shown


CHATTY = "I looked at it for you. " * 12 + "Would you like to hear more?"


def test_words_without_ids_are_cut_short_where_not_all_fits():
    said = [Entry("user", "Hello."), Entry("assistant", CHANGES), Entry("user", "Why?")]
    said += [Entry("assistant", CHATTY)]
    lines = open_matters(said, len(said), Matters(said, []), 160, COUNTER)
    (words,) = [line for line in lines if "hear more" in line]
    assert COUNTER.count(words) < 50
    (proposal,) = [line for line in lines if "A-7731" in line]
    assert "12 Rose Lane" in proposal


def test_a_question_without_ids_of_an_unknown_person_is_omitted_where_not_all_fits():
    said = [Entry("user", "Hello."), Entry("assistant", CHANGES), Entry("user", "Why?")]
    said += [Entry("assistant", CHATTY), Entry("user", "Why?")]
    matters = Matters(said, [])
    for budget, is_quoted in ((160, False), (1_000, True)):
        text = "\n".join(open_matters(said, len(said), matters, budget, COUNTER))
        assert ("hear more" in text) == is_quoted
        assert "12 Rose Lane" in text


def test_where_the_proposal_is_too_long_its_question_is_quoted():
    long = f"I would exchange W-4219 for {'the next one and ' * 20}the last one."
    text = f"{long}\nShall I go on?"
    assert quote(text, 40, COUNTER, is_brief=True) == "Shall I go on?"
    assert quote(f"{long} Thanks.", 40, COUNTER) == "Thanks."


def test_a_line_that_is_quoted_already_takes_no_space_from_another():
    lamp = "- Send the lamp of W-4219 to the old address in Rome."
    lines = ["I can do this:", lamp, "- Send the tent of W-5311 to Bern.", lamp, lamp]
    lines += ["- Cancel the hose of W-6402 today.", "Do you agree?"]
    said = [Entry("user", "Hello."), Entry("assistant", "\n".join(lines))]
    said += [
        Entry("user", "Why?"),
        Entry("assistant", "Because. " * 30 + "Is it fine?"),
    ]
    said.append(Entry("user", "Why?"))
    (quoted,) = [
        line
        for line in open_matters(said, len(said), Matters(said, []), 100, COUNTER)
        if "W-5311" in line
    ]
    assert quoted.startswith('- "I can do this: - Send the lamp')
