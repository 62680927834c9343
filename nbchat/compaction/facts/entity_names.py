"""Tell entities apart whose ids are equal: the user 7 is not the order 7.

A long id with letters names one thing. Of others the name of the field, or of the tool
that looked it up, says which thing it is, else the fields that its records have.
"""

from collections import defaultdict
from typing import NamedTuple

from nbchat.compaction.facts.records import KEY, SHORT_ID, Call, Record, kind_of
from nbchat.compaction.facts.tool_names import things_looked_up
from nbchat.compaction.facts.value_ranking import NUMBER, form_weight


class _Thing(NamedTuple):
    """One of the things that share an id."""

    name: str
    label_field: str
    fields: frozenset[str]
    """Those of all its records: a batch may tell only how one of them went."""


class EntityNames:
    """Gives each record the name of its entity.

    A call that does not say what it is about returned the entity whose fields it has.
    """

    def __init__(self) -> None:
        self._things: dict[str, dict[str, _Thing]] = defaultdict(dict)

    def name_of(self, record: Record, call: Call) -> str:
        """The name of a record's entity; of one without an id the call."""
        label = record.label
        if not label:
            return call.scope
        if is_unique(label):
            return label
        is_long = len(label) > SHORT_ID
        field, fields = record.label_field, field_names(record)
        kind = ("" if field == KEY else field) if is_long else _kind(record, call)
        things = self._things[label]
        thing = things.pop(kind, None) or self._alike(field, fields, kind, things)
        name, before = (thing.name, thing.fields) if thing else (kind, frozenset())
        things[kind] = _Thing(name, field, before | fields)
        return f"{name} {label}"

    @staticmethod
    def _alike(
        field: str, fields: frozenset[str], kind: str, things: dict[str, _Thing]
    ) -> _Thing | None:
        """The newest thing with the same fields, where a call did not say its kind."""
        possible = (
            reversed(things.values()) if not kind else filter(None, [things.get("")])
        )
        return next(
            (
                each
                for each in possible
                if _may_be_same(each.label_field, field)
                and _share_fields(each.fields, fields)
            ),
            None,
        )


def is_unique(label: str) -> bool:
    """Whether no two things have an id by chance."""
    return len(label) > SHORT_ID and form_weight(label) > NUMBER


def field_names(record: Record) -> frozenset[str]:
    """The fields and parts of a record."""
    names = (field.name for field in record.fields)
    return frozenset(names).union(name for name, _ in record.parts)


def _may_be_same(one: str, other: str) -> bool:
    """Whether ids may be of one thing: `ticket_id` is not the `id` of another."""
    return one == other or KEY in (one, other)


def _share_fields(own: frozenset[str], names: frozenset[str]) -> bool:
    """Whether one of two records has at least half of the fields of the other."""
    return len(own & names) * 2 >= min(len(own), len(names))


def _kind(record: Record, call: Call) -> str:
    """What kind of thing an id names: by its own name, or by a look-up's; or empty."""
    found = things_looked_up(call.tool)
    place = -1 if record.is_listed else 0
    return kind_of(record.label_field) or (found[place] if found else "")
