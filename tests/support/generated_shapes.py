"""Transcripts whose results have the forms of common APIs, around the same records.

GraphQL, JSON:API, HAL, OData, pages, records by their ids, columns apart, CSV, Markdown,
XML, errors in envelopes, batches that fail in part, records in records, one entity under
two names of its id, and amounts with their units.
"""

import csv
import io
from collections.abc import Callable
from typing import Any

from generated_records import STATES, Transcripts

Records = list[dict[str, Any]]


def _graphql(records: Records) -> Any:
    edges = [{"node": each, "cursor": f"c{n}"} for n, each in enumerate(records)]
    page = {"hasNextPage": False, "endCursor": "c9"}
    return {"data": {"orders": {"edges": edges, "pageInfo": page}}}


def _json_api(records: Records) -> Any:
    rows = []
    for number, each in enumerate(records):
        own = {k: v for k, v in each.items() if k != "order_id"}
        owner = {"data": {"type": "customers", "id": f"CU-{number}1"}}
        row = {"type": "orders", "id": each["order_id"], "attributes": own}
        rows.append({**row, "relationships": {"customer": owner}})
    return {"data": rows, "meta": {"total": len(rows)}}


def _hal(records: Records) -> Any:
    link = {"_links": {"self": {"href": "/orders/1"}}}
    return {**link, "_embedded": {"orders": [{**each, **link} for each in records]}}


def _odata(records: Records) -> Any:
    return {"@odata.context": "$metadata#Orders", "value": records}


def _page(records: Records) -> Any:
    return {"items": records, "page": 1, "per_page": 20, "total": len(records)}


def _by_id(records: Records) -> Any:
    return {
        each["order_id"]: {k: v for k, v in each.items() if k != "order_id"}
        for each in records
    }


def _columns(records: Records) -> Any:
    names = list(records[0])
    rows = [list(each.values()) for each in records]
    return {"columns": names, "index": list(range(len(rows))), "data": rows}


def _csv(records: Records) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows([records[0], *(each.values() for each in records)])
    return text.getvalue()


def _markdown(records: Records) -> str:
    rows = [list(records[0]), ["---"] * len(records[0])]
    rows += [list(map(str, each.values())) for each in records]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _xml(records: Records) -> str:
    inner = (
        "".join(f"<{name}>{value}</{name}>" for name, value in each.items())
        for each in records
    )
    return f"<orders>{''.join(f'<order>{each}</order>' for each in inner)}</orders>"


LISTS: tuple[Callable[[Records], Any], ...] = (
    _graphql,
    _json_api,
    _hal,
    _odata,
    _page,
    _by_id,
    _columns,
    _csv,
    _markdown,
    _xml,
)
"""Forms of a list of records."""

MISTAKES: tuple[Any, ...] = (
    {"error": {"code": "NOT_FOUND", "message": "no such order"}, "request_id": "r1"},
    {"errors": [{"status": "404", "title": "Not Found", "detail": "no order"}]},
    {"data": None, "errors": [{"message": "not found", "path": ["order"]}]},
    {"status": "error", "code": 4004, "message": "no such order"},
    {"fault": {"faultcode": "Client", "faultstring": "unknown order"}},
)
"""Errors as results that did not fail."""


class ShapedTranscripts(Transcripts):
    """Builds transcripts with results in the forms of common APIs."""

    def _moves(self) -> tuple[Callable[[], None], ...]:
        mine = (
            self._list,
            self._list,
            self._list,
            self._mistake,
            self._batch,
            self._with_lines,
            self._two_names,
            self._with_units,
        )
        return (*mine, self._act, self._talk)

    def _flat(self) -> dict[str, Any]:
        """A new record of plain fields; the same for all of a list."""
        chance = self.chance
        record = self._order()
        self.orders.remove(record)
        label = f"OR-{chance.randint(10_000, 99_999)}"
        if chance.random() < 0.2:
            label = f"{chance.randint(100_000, 999_999)}"
        return {
            "order_id": label,
            "status": chance.choice(STATES),
            "placed": f"2024-05-{chance.randint(10, 20)}",
            "city": chance.choice(["Paris", "Oslo", "Boston"]),
            "amount": chance.choice([10.5, 20.25, 1299]),
        }

    def _known(self) -> dict[str, Any]:
        """A record that was seen, perhaps in a newer state, or a new one."""
        chance = self.chance
        seen = [each for each in self.orders if self._plain(each).keys() == each.keys()]
        if not seen or chance.random() < 0.5:
            record = self._flat()
        else:
            record = chance.choice(seen)
            self.orders.remove(record)
            record = {**record, "status": chance.choice(STATES)}
        self.orders.append(record)
        return record

    def _list(self) -> None:
        """Some records, in one of the forms of a list; all have the same fields."""
        count = self.chance.randint(1, 4)
        found = {
            each["order_id"]: each for each in (self._known() for _ in range(count))
        }
        plain = [self._plain(each) for each in found.values()]
        form = self.chance.choice(LISTS)
        asked = {"day": f"2024-05-{self.chance.randint(10, 20)}"}
        if self.chance.random() < 0.5:
            asked = {}
        self._call("list_orders", form(plain), **asked)

    @staticmethod
    def _plain(order: dict[str, Any]) -> dict[str, Any]:
        names = ("order_id", "status", "placed", "city", "amount")
        return {name: order[name] for name in names if name in order}

    def _mistake(self) -> None:
        order = self._known()
        result = self.chance.choice(MISTAKES)
        self._call("get_order", result, order_id=order["order_id"] + "X")

    def _batch(self) -> None:
        """A batch of actions of which some fail."""
        some = [self._known() for _ in range(self.chance.randint(2, 4))]
        by_id = {each["order_id"]: each for each in some}
        orders = [by_id[each] for each in sorted(by_id)]  # equal calls are equal
        results = [
            {"order_id": each["order_id"], "result": "cancelled"}
            if number
            else {"order_id": each["order_id"], "error": "already shipped"}
            for number, each in enumerate(orders)
        ]
        asked = {"order_ids": [each["order_id"] for each in orders]}
        self._call("bulk_cancel_orders", {"results": results, "failed": 1}, **asked)

    def _with_lines(self) -> None:
        """An order whose lines have ids of their own."""
        order, chance = self._known(), self.chance
        lines = [
            {"line_no": f"{n}", "sku": f"S-{chance.randint(10, 12)}", "qty": n * 2}
            for n in range(1, chance.randint(2, 5))
        ]
        result = {**self._plain(order), "lines": lines}
        self._call("get_order", result, order_id=order["order_id"])

    def _two_names(self) -> None:
        """Two tools that name one entity differently."""
        order, chance = self._known(), self.chance
        number = order["order_id"]
        part = {"orderNumber": number, "carrier": chance.choice(["DHL", "UPS"])}
        self._call("track_order", part, orderNumber=number)
        self._call("get_order", self._plain(order), order_id=number)

    def _with_units(self) -> None:
        order, chance = self._known(), self.chance
        currency = chance.choice(["EUR", "USD", "JPY"])
        result = {
            **self._plain(order),
            "total": {"amount": chance.choice([5, 9.5]), "currency": currency},
            "shipping": {"amount": 3, "currency": currency},
            "weight": {"value": chance.randint(1, 5), "unit": "kg"},
        }
        self._call("get_order", result, order_id=order["order_id"])


def own_id_in_shapes(node: dict[str, Any]) -> str | None:
    """The id of what a generated record describes, under any of its names."""
    names = ("line_no", "order_id", "orderNumber", "shipment_no", "ticketId", "id")
    names += ("account_number", "customer_id")
    return next((str(node[name]) for name in names if name in node), None)
