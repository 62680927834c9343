"""A simulated shop: customers, orders, products, and tools that change them.

    desk = RetailDesk()
    agent = Agent(model, tools=desk.tools, system=desk.system)
    agent.ask(scenario.prompt)
    desk.differences(scenario)      # from the state that the right actions lead to

Each scenario has the actions that are right. A desk is scored by its orders and
customers at the end, not by what was said.
"""

import ast
import gzip
import json
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from nbchat.errors import NbchatError

Reason = Literal["no longer needed", "ordered by mistake"]
Record = dict[str, Any]

OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
"""What `calculate` can do with two numbers."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a customer wants, and the actions that are right."""

    id: str
    customer: str
    prompt: str
    actions: tuple[tuple[str, Record], ...]
    """Names of tools, with their arguments."""


def retail_scenarios() -> list[Scenario]:
    """The 21 scenarios of the shop; `data/LICENSES.md` names their source."""
    return [
        Scenario(
            row["id"],
            row["customer"],
            "\n".join(
                row[part].strip()
                for part in ("known_info", "reason_for_call", "task_instructions")
            ),
            tuple((each["name"], each["arguments"]) for each in row["gold_actions"]),
        )
        for row in _shop()["scenarios"]
    ]


class RetailDesk:
    """A shop as it is in the morning, and the tools that work on it."""

    system: ClassVar = (
        "You serve a customer of a shop by tools. Find the customer by email, or by "
        "name and zip code, then look up the orders. Pending orders can be cancelled "
        "or changed, delivered ones returned or exchanged; items of one order are "
        "changed, returned or exchanged in one call, for another variant of the same "
        "product. A refund goes to the original payment method or a gift card. "
        "Transfer to a human agent only what no tool can do. The text describes the "
        "customer, who cannot be asked: decide as the customer would, and confirm."
    )
    """The system prompt for an agent at this desk."""

    def __init__(self) -> None:
        """Open with the packaged customers, orders and products."""
        shop = _shop()
        self.users: dict[str, Record] = deepcopy(shop["users"])
        self.orders: dict[str, Record] = deepcopy(shop["orders"])
        self.products: dict[str, Record] = shop["products"]

    def __repr__(self) -> str:
        """The numbers of customers and orders."""
        return f"<RetailDesk of {len(self.users)} customers, {len(self.orders)} orders>"

    @property
    def tools(self) -> list[Callable[..., object]]:
        """The tools of the agent."""
        return [
            self.find_user_id_by_email,
            self.find_user_id_by_name_zip,
            self.get_user_details,
            self.get_order_details,
            self.get_product_details,
            self.list_all_product_types,
            self.calculate,
            self.cancel_pending_order,
            self.modify_pending_order_address,
            self.modify_pending_order_items,
            self.modify_user_address,
            self.return_delivered_order_items,
            self.exchange_delivered_order_items,
            self.transfer_to_human_agents,
        ]

    def act(self, actions: Sequence[tuple[str, Record]]) -> "RetailDesk":
        """Call tools by name; what a tool refuses changes nothing."""
        tools = {tool.__name__: tool for tool in self.tools}
        for name, arguments in actions:
            try:
                tools[name](**arguments)
            except NbchatError:
                continue
        return self

    def differences(self, scenario: Scenario) -> list[str]:
        """How customers and orders differ from what the right actions lead to."""
        right = RetailDesk().act(scenario.actions)
        wanted = {"users": right.users, "orders": right.orders}
        return list(_differences({"users": self.users, "orders": self.orders}, wanted))

    def find_user_id_by_email(self, email: str) -> str:
        """Find a customer by email."""
        return self._user_id(lambda user: user["email"].lower() == email.lower())

    def find_user_id_by_name_zip(
        self,
        first_name: str,
        last_name: str,
        zip: str,  # noqa: A002  # the benchmark's name
    ) -> str:
        """Find a customer by first name, last name and zip code."""
        wanted = (first_name.lower(), last_name.lower(), zip)
        return self._user_id(lambda user: _name_and_zip(user) == wanted)

    def get_user_details(self, user_id: str) -> Record:
        """Look up a customer: address, payment methods, orders."""
        return self._user(user_id)

    def get_order_details(self, order_id: str) -> Record:
        """Look up an order: items, status, tracking, payments."""
        return self._order(order_id)

    def get_product_details(self, product_id: str) -> Record:
        """Look up a product with all its variants."""
        if product_id not in self.products:
            raise NbchatError(f"no product {product_id}")
        return self.products[product_id]

    def list_all_product_types(self) -> dict[str, str]:
        """The names of all products, with their ids."""
        named = {each["name"]: number for number, each in self.products.items()}
        return dict(sorted(named.items()))

    def calculate(self, expression: str) -> str:
        """Compute a sum of money, such as `12.5 + 3 * 2`."""
        try:
            return f"{_value(ast.parse(expression, mode='eval').body):.2f}"
        except (SyntaxError, ZeroDivisionError, RecursionError, MemoryError) as error:
            raise NbchatError(f"{expression[:60]!r} is no sum: {error}") from None

    def cancel_pending_order(self, order_id: str, reason: Reason) -> Record:
        """Cancel an order that is pending, and refund it."""
        order = self._order(order_id, status="pending")
        order["status"], order["cancel_reason"] = "cancelled", reason
        for paid in list(order["payment_history"]):
            self._refund(order, paid["amount"], paid["payment_method_id"])
        return order

    def modify_pending_order_address(
        self,
        order_id: str,
        *,
        address1: str,
        address2: str,
        city: str,
        state: str,
        country: str,
        zip: str,  # noqa: A002  # the benchmark's name
    ) -> Record:
        """Change where a pending order goes."""
        order = self._order(order_id, status="pending")
        order["address"] = _address(address1, address2, city, state, country, zip)
        return order

    def modify_user_address(
        self,
        user_id: str,
        *,
        address1: str,
        address2: str,
        city: str,
        state: str,
        country: str,
        zip: str,  # noqa: A002  # the benchmark's name
    ) -> Record:
        """Change the address of a customer."""
        user = self._user(user_id)
        user["address"] = _address(address1, address2, city, state, country, zip)
        return user

    def modify_pending_order_items(
        self,
        order_id: str,
        item_ids: list[str],
        new_item_ids: list[str],
        payment_method_id: str,
    ) -> Record:
        """Change items of a pending order to other variants; once for an order."""
        order = self._order(order_id, status="pending")
        changes = self._changes(order, item_ids, new_item_ids)
        price = self._difference(order, changes, payment_method_id)
        for item, variant in changes:
            item.update(
                item_id=variant["item_id"],
                price=variant["price"],
                options=variant["options"],
            )
        order["status"] = "pending (items modified)"
        self._refund(order, -price, payment_method_id)
        return order

    def return_delivered_order_items(
        self, order_id: str, item_ids: list[str], payment_method_id: str
    ) -> Record:
        """Return items of a delivered order; once for an order."""
        order = self._order(order_id, status="delivered")
        method = self._method(order, payment_method_id)
        paid_by = {paid["payment_method_id"] for paid in order["payment_history"]}
        if payment_method_id not in paid_by and method["source"] != "gift_card":
            raise NbchatError("a refund goes to the original method or a gift card")
        _items(order, item_ids)
        order["status"] = "return requested"
        order["return_items"] = sorted(item_ids)
        order["return_payment_method_id"] = payment_method_id
        return order

    def exchange_delivered_order_items(
        self,
        order_id: str,
        item_ids: list[str],
        new_item_ids: list[str],
        payment_method_id: str,
    ) -> Record:
        """Exchange items of a delivered order for other variants; once for an order."""
        order = self._order(order_id, status="delivered")
        changes = self._changes(order, item_ids, new_item_ids)
        price = self._difference(order, changes, payment_method_id)
        order["status"] = "exchange requested"
        order["exchange_items"] = sorted(item_ids)
        order["exchange_new_items"] = sorted(new_item_ids)
        order["exchange_payment_method_id"] = payment_method_id
        order["exchange_price_difference"] = price
        return order

    def transfer_to_human_agents(self, summary: str) -> str:
        """Hand the customer over to a person."""
        return f"transferred: {summary}"

    def _user_id(self, is_wanted: Callable[[Record], bool]) -> str:
        found = (number for number, user in self.users.items() if is_wanted(user))
        number = next(found, "")
        if not number:
            raise NbchatError("no such customer")
        return number

    def _user(self, user_id: str) -> Record:
        if user_id not in self.users:
            raise NbchatError(f"no customer {user_id}")
        return self.users[user_id]

    def _order(self, order_id: str, *, status: str = "") -> Record:
        if order_id not in self.orders:
            raise NbchatError(f"no order {order_id}")
        order = self.orders[order_id]
        if status and order["status"] != status:
            raise NbchatError(f"{order_id} is {order['status']}, not {status}")
        return order

    def _method(self, order: Record, payment_method_id: str) -> Record:
        methods = self._user(order["user_id"])["payment_methods"]
        if payment_method_id not in methods:
            raise NbchatError(f"the customer has no method {payment_method_id}")
        method: Record = methods[payment_method_id]
        return method

    def _refund(self, order: Record, amount: float, payment_method_id: str) -> None:
        """Pay back to a method, or take from it where the amount is negative."""
        kind = "refund" if amount >= 0 else "payment"
        order["payment_history"].append(
            {
                "transaction_type": kind,
                "amount": round(abs(amount), 2),
                "payment_method_id": payment_method_id,
            }
        )
        method = self._method(order, payment_method_id)
        if method["source"] == "gift_card":
            method["balance"] = round(method["balance"] + amount, 2)

    def _changes(
        self, order: Record, item_ids: list[str], new_item_ids: list[str]
    ) -> list[tuple[Record, Record]]:
        """Items, each with the variant it is changed for."""
        if len(item_ids) != len(new_item_ids):
            raise NbchatError("name one new item for each item")
        changes = []
        for item, number in zip(_items(order, item_ids), new_item_ids, strict=True):
            product = self.get_product_details(item["product_id"])
            variant = product["variants"].get(number)
            if variant is None or not variant["available"]:
                raise NbchatError(f"no {product['name']} {number} is available")
            changes.append((item, variant))
        return changes

    def _difference(
        self, order: Record, changes: list[tuple[Record, Record]], method_id: str
    ) -> float:
        """What is to be paid for changes; a gift card must have enough."""
        price: float = sum(
            variant["price"] - item["price"] for item, variant in changes
        )
        method = self._method(order, method_id)
        if method["source"] == "gift_card" and method["balance"] < price:
            raise NbchatError(f"{method_id} has not enough for {price:.2f}")
        return round(price, 2)


@cache
def _shop() -> Record:
    packed = (Path(__file__).parent / "data" / "retail.json.gz").read_bytes()
    shop: Record = json.loads(gzip.decompress(packed))
    return shop


def _items(order: Record, item_ids: list[str]) -> list[Record]:
    """The items of an order by their ids, each item once."""
    left = list(order["items"])
    missing = Counter(item_ids) - Counter(item["item_id"] for item in left)
    if missing or not item_ids:
        raise NbchatError(f"{order['order_id']} has no item {', '.join(missing)}")
    found = []
    for number in item_ids:
        item = next(each for each in left if each["item_id"] == number)
        left = [each for each in left if each is not item]
        found.append(item)
    return found


def _name_and_zip(user: Record) -> tuple[str, str, str]:
    name = user["name"]
    return name["first_name"].lower(), name["last_name"].lower(), user["address"]["zip"]


def _address(*parts: str) -> dict[str, str]:
    names = ("address1", "address2", "city", "state", "country", "zip")
    return dict(zip(names, parts, strict=True))


def _value(node: ast.AST) -> float:
    match node:
        case ast.Constant(int() | float() as number):
            return float(number)
        case ast.BinOp(left, sign, right) if type(sign) in OPERATORS:
            compute = OPERATORS[type(sign)]
            return compute(_value(left), _value(right))
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand)
    raise SyntaxError("only numbers, + - * / and parentheses")


def _differences(now: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """Each value that differs, with the way to it."""
    if isinstance(now, dict) and isinstance(wanted, dict):
        for name in dict.fromkeys([*now, *wanted]):
            yield from _differences(now.get(name), wanted.get(name), f"{path} {name}")
    elif now != wanted:
        yield f"{path.strip()}: {now!r}, not {wanted!r}"
