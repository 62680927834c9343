"""Which values of a record come first where not all fit."""

import json
from itertools import count

import pytest
from measures import COUNTER

from nbchat.compaction.facts.entity_cells import (
    MEANT,
    part_cells,
    with_telling_values,
)
from nbchat.compaction.facts.facts import collect_facts
from nbchat.compaction.facts.read_entries import ReadEntries
from nbchat.compaction.facts.tables import Cell, Row
from nbchat.compaction.facts.value_ranking import SPOKEN, UNASKED, Taken, Uses, Weights
from nbchat.conversation.entries import Entry, Fact
from nbchat.conversation.tools import Tool, tool

NUMBERS = count()

NAMES = ("Hose", "Lamp", "Kettle", "Purifier", "Jacket", "Tent")


def order(number: int, status: str) -> dict[str, object]:
    """An order of six things."""
    items = [
        {"item_id": f"i-{number}{n}77", "name": name, "product_id": f"p-{number}{n}55"}
        for n, name in enumerate(NAMES)
    ]
    return {"order_id": f"W-{number}88", "status": status, "items": items}


def looked_up(name: str, answer: object, **arguments: object) -> list[Entry]:
    """A call and its result."""
    number = str(next(NUMBERS))
    return [
        Entry("assistant", "", number, name, json.dumps(arguments)),
        Entry("tool", json.dumps(answer), number, name),
    ]


def shop(*statuses: str) -> list[Entry]:
    """A customer whose orders were looked up."""
    orders = [order(number, status) for number, status in enumerate(statuses, 1)]
    customer = {
        "user_id": "ann_lee_12",
        "orders": [each["order_id"] for each in orders],
    }
    said = [Entry("user", "I am ann_lee_12 and want to change something.")]
    said += looked_up("get_user", customer, user_id="ann_lee_12")
    for each in orders:
        said += looked_up("get_order", each, order_id=each["order_id"])
    return said


@tool
def modify_pending_order(order_id: str, item_id: str) -> str:
    """Change an order that was not sent."""
    return f"{order_id} {item_id}"


@tool
def get_product(product_id: str) -> str:
    """Look a product up."""
    return product_id


TOOLS = (modify_pending_order, get_product)


def lines_of(said: list[Entry], budget: int, *tools: Tool) -> str:
    found = collect_facts(
        said, len(said), budget_tokens=budget, counter=COUNTER, tools=tools
    )
    return "\n".join(found.lines)


def test_of_what_a_question_waits_on_the_things_that_it_names_come_first():
    question = "Shall I exchange the purifier of W-188 for a large one?"
    said = [*shop("delivered"), Entry("assistant", question)]
    said += [Entry("user", "I am bob_ray_34."), Entry("assistant", "Hello bob_ray_34!")]
    for budget in (96, 100):
        shown = lines_of(said, budget)
        assert "i-1377" in shown
        assert "i-1077" not in shown


def laptops() -> list[Entry]:
    """A product with laptops that have an id and options, and no name."""
    given = [
        ("i-1101", "15-inch", "16GB", "silver"),
        ("i-1102", "15-inch", "8GB", "black"),
    ]
    given += [
        ("i-1103", "13-inch", "8GB", "black"),
        ("i-1104", "13-inch", "16GB", "grey"),
    ]
    variants = [
        {
            "item_id": i,
            "options": {"screen": s, "ram": r, "color": c},
            "available": True,
        }
        for i, s, r, c in given
    ]
    product = {"product_id": "p-9044", "name": "Laptop", "variants": variants}
    return looked_up("get_product", product, product_id="p-9044")


@pytest.mark.parametrize(
    ("asked", "meant"), [("the 15-inch, 8GB, black", "i-1102"), ("i-1104", "i-1104")]
)
def test_a_part_without_a_name_is_known_by_its_id_or_by_all_its_words(
    asked: str, meant: str
):
    said = [*shop("delivered"), *laptops()]
    said += [Entry("assistant", f"Shall I change i-1077 of W-188 to {asked}?")]
    said += [Entry("user", "I am bob_ray_34."), Entry("assistant", "Hello bob_ray_34!")]
    shown = lines_of(said, 150)
    assert meant in shown
    assert sum(f"i-110{number}" in shown for number in range(1, 5)) == 1


def test_what_a_question_means_counts_more_than_if_none_waited():
    (call,) = ReadEntries(
        looked_up("get_order", order(1, "sent"), order_id="W-1")
    ).calls
    assert call.record is not None
    parts = [(name, n, part) for n, (name, part) in enumerate(call.record.parts)]
    fields = {("orders", "items"): ["item_id", "name"]}

    def weighed(*waiting: int) -> list[float]:
        questions = ["Shall I send the purifier?"]
        weights = Weights(10, Uses(), waiting=waiting, questions=questions)
        cells = part_cells(
            parts, "orders", fields, entity="W-1", call=call, weights=weights
        )
        return [cell.weight for _, cell in cells]

    purifier = NAMES.index("Purifier")
    changed = zip(weighed(call.index), weighed(), strict=True)
    assert [new / old for new, old in changed] == [
        MEANT if number == purifier else UNASKED for number in range(len(NAMES))
    ]


def test_words_from_two_questions_describe_nothing():
    questions = ["Shall I send the 15-inch one?", "Is black right, with 8GB?"]
    weights = Weights(10, Uses(), waiting=(1,), questions=questions)
    assert weights.is_described(["8GB", "black"])
    assert not weights.is_described(["15-inch", "8GB", "black"])


def test_the_own_id_of_a_part_is_known_by_what_holds_the_part():
    ways = {f"gift_{n}": {"id": f"gift_{n}", "amount": n} for n in (7_301, 7_302)}
    user = {"user_id": "ann_lee_12", "payment_methods": ways, "referrer_id": "bob_66"}
    (call,) = ReadEntries(looked_up("get_user", user, user_id="ann_lee_12")).calls
    assert call.record is not None
    parts = [(name, n, part) for n, (name, part) in enumerate(call.record.parts)]

    def weighed(*arguments: str) -> float:
        taken = Taken(frozenset(arguments), frozenset(), frozenset({"change_order"}))
        cells = part_cells(
            parts,
            "users",
            {("users", "payment_methods"): ["id"]},
            entity="ann_lee_12",
            call=call,
            weights=Weights(10, Uses(), taken),
        )
        return min(cell.weight for _, cell in cells)

    assert weighed("payment_method_id") > 2 * weighed("order_id")


def test_which_of_a_customers_cards_an_order_was_paid_with_counts_more():
    cards = ("card_7301", "card_7302")
    customer = Row("users", "user_id", "ann_lee_12", 1.0, 1)
    customer.cells = [
        Cell("cards (id)", each, 2.0, (Fact("ann_lee_12", "cards.id", each, 1),))
        for each in cards
    ]
    order = Row("orders", "order_id", "W-188", 1.0, 2)
    order.cells = [
        Cell("card_id", "card_7302", 2.0, (Fact("W-188", "card_id", "card_7302", 2),)),
        Cell("coupon_id", "cou_91", 2.0, (Fact("W-188", "coupon_id", "cou_91", 2),)),
    ]
    weighed = with_telling_values([customer, order], set(), Weights(10, Uses()))
    assert [[cell.weight for cell in row.cells] for row in weighed] == [
        [2.0, 2.0],
        [2.0 * SPOKEN, 2.0],
    ]


def test_a_short_word_is_not_named_inside_another():
    weights = Weights(
        10, Uses(), questions=["Is the shared helmet right, in XLs? 大的"]
    )
    assert weights.is_in_question("XL")
    assert weights.is_in_question("helm")
    assert weights.is_in_question("大")
    assert not weights.is_in_question("L")
    assert not weights.is_in_question("red")


def test_a_number_is_not_named_by_a_longer_one():
    weights = Weights(10, Uses(), questions=["Shall I cancel W-188 and the e-readers?"])
    assert weights.is_in_question("W-188")
    assert weights.is_in_question("E-Reader")
    assert not weights.is_in_question("W-1")
    assert not weights.is_in_question("88")


def test_where_a_question_names_one_of_several_orders_the_others_count_less():
    orders = ("W-188", "W-288", "W-388")
    customer = Row("users", "user_id", "ann_lee_12", 1.0, 1)
    customer.cells = [
        Cell("orders", each, 2.0, (Fact("ann_lee_12", "orders", each, 1),))
        for each in orders
    ]
    rows = [Row("orders", "order_id", each, 1.0, n) for n, each in enumerate(orders, 2)]
    question = "Shall I cancel W-188?"
    weights = Weights(10, Uses(), waiting=(1, 2, 3), questions=[question])
    weighed = with_telling_values([customer, *rows], set(), weights)
    assert [row.score for row in weighed] == [1.0, 1.0, UNASKED, 1.0]


def test_the_line_is_told_whose_number_a_person_has_said():
    lines = {f"L-{n}001": f"555-123-200{n}" for n in range(1, 4)}
    customer = {"customer_id": "C-1001", "line_ids": list(lines)}
    said = [Entry("user", "My number is 555-123-2002 and my phone is dead.")]
    said += looked_up("get_customer", customer, phone="555-123-2002")
    for line, number in lines.items():
        record = {"line_id": line, "phone_number": number, "plan_id": "P-1001"}
        said += looked_up("get_line", record, line_id=line)
    shown = lines_of(said, 76, *TOOLS)
    assert "phone_number: 555-123-2002" in shown
    assert "555-123-2001" not in shown
    assert "555-123-2003" not in shown


def test_a_status_is_shown_where_the_name_of_an_action_says_it():
    said = shop("pending", "delivered")
    said.append(Entry("assistant", "Which things do you want to change?"))
    assert "pending" in lines_of(said, 116, *TOOLS)
    assert "pending" not in lines_of(said, 116, get_product)


def test_where_not_all_fits_a_part_has_no_id_that_only_look_ups_take():
    said = shop("pending")
    assert "p-1055" in lines_of(said, 1_000, *TOOLS)
    assert "p-1055" in lines_of(said, 116)
    short = lines_of(said, 116, *TOOLS)
    assert "i-1077" in short
    assert "p-1055" not in short


def test_where_all_fits_a_part_has_its_amounts():
    bills = [{"bill_id": f"B-{n}77", "total": 40 + n} for n in range(1, 4)]
    said = looked_up("get_customer", {"id": "C-1001", "bills": bills}, id="C-1001")
    assert "B-177, 41; B-277, 42; B-377, 43" in lines_of(said, 1_000)


def test_a_number_that_an_id_has_inside_by_chance_is_no_part_of_the_id():
    ways = [
        {"id": "certificate_5654574", "source": "certificate", "amount": 310},
        {"id": "gift_card_9935351", "source": "gift_card", "amount": 35},
    ]
    user = {
        "user_id": "ann_lee_12",
        "payment_methods": {way["id"]: way for way in ways},
    }
    (call,) = ReadEntries(looked_up("get_user", user, user_id="ann_lee_12")).calls
    assert call.record is not None
    cells = part_cells(
        [(name, n, part) for n, (name, part) in enumerate(call.record.parts)],
        "users",
        {("users", "payment_methods"): ["id"]},
        entity="ann_lee_12",
        call=call,
        weights=Weights(10, Uses()),
    )
    assert [(cell.column, cell.text) for _, cell in cells] == [
        ("payment_methods (id)", "certificate_5654574, amount 310"),
        ("payment_methods (id)", "gift_card_9935351, amount 35"),
    ]
