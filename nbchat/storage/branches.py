"""Branches of a conversation: sessions that share their first messages.

Each branch keeps its ancestors, so its place among the others is known even when some
of them are deleted. All sessions with the same oldest ancestor are a family.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from nbchat.conversation.session import Ancestors, Session
from nbchat.storage.schema import sessions
from nbchat.storage.serialization import (
    OwnedRows,
    SessionInfo,
    ancestors_from_json,
    restored,
    storable,
)


@dataclass(frozen=True, slots=True)
class Branch:
    """A session of a family."""

    id: str
    created_at: str
    used_at: str
    ancestors: Ancestors = ()


@dataclass(frozen=True, slots=True)
class Switch:
    """A message that has several versions in a family of branches."""

    position: int
    """The first entry that differs: the message, or what is attached to it."""
    number: int
    """Which version the session has, from 1, oldest first."""
    sessions: tuple[str, ...]
    """A session with each version: of several, the one used last."""


def switches(family: Iterable[Branch], session_id: str) -> tuple[Switch, ...]:
    """Where a session of a family differs from others of it, first position first."""
    members = {member.id: member for member in family}
    if session_id not in members:
        return ()
    own = members.pop(session_id)
    differing: dict[int, list[Branch]] = defaultdict(list)
    for other in members.values():
        if (position := _divergence(own, other)) is not None:
            differing[position].append(other)
    found = []
    for position in sorted(differing):
        later = [each for at in differing if at > position for each in differing[at]]
        versions = [[own, *later], *_versions(differing[position], position)]
        versions.sort(key=lambda each: min((b.created_at, b.id) for b in each))
        number = next(n for n, each in enumerate(versions, 1) if own in each)
        ids = [own.id if own in each else _newest(each) for each in versions]
        found.append(Switch(position, number, tuple(ids)))
    return tuple(found)


def family_of(
    connection: sa.Connection, mine: OwnedRows, session_id: str
) -> list[Branch]:
    """All sessions of a family, given any of them; alone if it has no branches."""
    columns = sessions.c
    is_it = columns.id == storable(session_id)
    row = connection.execute(mine.select(sessions).where(is_it)).first()
    if row is None:
        return []
    root = row.family or row.id
    is_member = (columns.id == root) | (columns.family == root)
    rows = connection.execute(mine.select(sessions).where(is_member))
    return [
        Branch(
            restored(each.id),
            each.created_at,
            each.used_at,
            ancestors_from_json(each.ancestors_json),
        )
        for each in rows
    ]


def one_per_family(
    infos: Sequence[SessionInfo], *, current: str = ""
) -> list[SessionInfo]:
    """The first session of each family in a list, with the number of its branches.

    The `current` session represents its own family.
    """
    sizes: dict[str, int] = defaultdict(int)
    chosen: dict[str, SessionInfo] = {}
    for info in infos:
        sizes[info.family] += 1
        if info.id == current or info.family not in chosen:
            chosen[info.family] = info
    return [replace(info, branches=sizes[name]) for name, info in chosen.items()]


def take_title(connection: sa.Connection, mine: OwnedRows, session: Session) -> None:
    """Give a new branch the title of the session that it comes from."""
    parent = storable(session.ancestors[-1][0])
    query = mine.select(sessions, sessions.c.title).where(sessions.c.id == parent)
    if title := connection.scalar(query):
        is_it = sessions.c.id == storable(session.session_id)
        connection.execute(mine.update(sessions).where(is_it).values(title=title))


def _divergence(one: Branch, other: Branch) -> int | None:
    """The first position at which two sessions differ; None for strangers."""
    paths = [[*each.ancestors, (each.id, -1)] for each in (one, other)]
    shared = 0
    for first, second in zip(*paths, strict=False):
        if first[0] != second[0]:
            break
        shared += 1
    later = [at for path in paths for _, at in path[max(shared - 1, 0) : -1]]
    return min(later) if shared and later else None


def _versions(branches: Iterable[Branch], position: int) -> list[list[Branch]]:
    """Groups of branches that have the same message at a position."""
    groups: list[list[Branch]] = []
    for branch in branches:
        for group in groups:
            at = _divergence(branch, group[0])
            if at is not None and at > position:
                group.append(branch)
                break
        else:
            groups.append([branch])
    return groups


def _newest(branches: Iterable[Branch]) -> str:
    return max(branches, key=lambda each: (each.used_at, each.id)).id
