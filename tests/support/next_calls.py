"""Desks of recorded conversations, and the calls that a reader makes next from memory.

Six conversations are cut, each before a message of its customer, where the next calls
take most from memory. What stands before the cuts, in turns, is
covered; with several folds it is spread over as many parts, and other conversations
fill these up. A probe is a call after a cut whose values were all said: what the reader sees is
the memory of the covered part and its thread's messages from the cut to the call.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from long_sessions import copies_of, domain_of
from measures import (
    COUNTER,
    has_word,
    interleaved,
    known_of,
    leaves,
    texts,
    turn_starts,
)
from trajectories import Trajectory

from nbchat.compaction.summarizer.prompts import transcript
from nbchat.conversation.entries import Entry
from nbchat.conversation.tools import Tool
from nbchat.conversation.turns import safe_cuts

THREADS = 6
PART_TOKENS = 13_000
"""Least tokens of each part."""

PER_THREAD, LONGEST_NEWEST, LEAST_REMEMBERED = 3, 3_000, 2
"""Most probes of a thread, most tokens of the messages that a probe shows, and least
values that a call takes from memory."""

ZIP_DIGITS = 5

FIRST_CUT = 8
"""Entries of a conversation before its cut, at least."""


@dataclass(frozen=True)
class Probe:
    """A call that the reader has to make."""

    name: str
    who: str
    """The first id that the thread's calls used, by which a reader recognises it."""
    domain: str
    newest: tuple[Entry, ...]
    tool: str
    arguments: dict[str, Any]
    remembered: tuple[str, ...]
    """Values of the call that stand in the covered part and not in the newest."""
    tools: str
    """The definition of the tool, as far as it is known."""

    @property
    def shown(self) -> str:
        """The newest messages as text."""
        return transcript(self.newest)

    def score(self, answer: Any) -> tuple[bool, int]:
        """True if the call is exactly right, and how many remembered values are."""
        given = answer if isinstance(answer, dict) else {}
        arguments = given.get("arguments")
        arguments = arguments if isinstance(arguments, dict) else {}
        expected, found = _paths(self.arguments), _paths(arguments)
        right = sum(
            any((path, value) in found for path, each in expected if each == value)
            for value in self.remembered
        )
        is_exact = given.get("tool") == self.tool and set(expected) == set(found)
        return is_exact, right


def _paths(value: Any, path: str = "") -> list[tuple[str, str]]:
    """Plain values with the names on the way to them."""
    if isinstance(value, dict):
        inner = [(f"{path}.{key}", each) for key, each in value.items()]
    elif isinstance(value, list):
        inner = [(path, each) for each in value]
    else:
        return [(path, _text(value))]
    return [pair for name, each in inner for pair in _paths(each, name)]


def _text(value: Any) -> str:
    """A value as text; 10 and 10.0 are the same."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


@dataclass(frozen=True)
class Desk:
    """The parts to fold one after the other, and the probes after them."""

    name: str
    parts: tuple[tuple[Entry, ...], ...]
    threads: tuple[Trajectory, ...]
    cuts: tuple[int, ...]

    @property
    def covered(self) -> tuple[Entry, ...]:
        """All that is folded."""
        return tuple(entry for part in self.parts for entry in part)

    @cached_property
    def tools(self) -> list[Tool]:
        """Those of the threads, as far as they are recorded, without their functions."""
        found = (each for run in self.threads for each in _functions(run))
        by_name = {function["name"]: function for function in found}
        return [
            Tool(name, each.get("description", ""), each.get("parameters", {}), print)
            for name, each in by_name.items()
        ]

    @cached_property
    def probes(self) -> list[Probe]:
        """Those of all threads, in order."""
        covered = texts(self.covered)
        threads = zip(self.threads, self.cuts, strict=True)
        return [
            probe
            for number, (run, cut) in enumerate(threads, 1)
            for probe in probes_of(run, cut, covered, f"{self.name}-thread{number}")
        ]


def probes_of(run: Trajectory, cut: int, covered: str, name: str) -> list[Probe]:
    """The calls after a cut that take most from memory, in order."""
    found = list(_probes(run, cut, covered, name))
    found.sort(key=lambda probe: -len(probe.remembered))
    return sorted(found[:PER_THREAD], key=lambda probe: probe.name)


def _probes(run: Trajectory, cut: int, covered: str, name: str) -> Iterator[Probe]:
    known, who = known_of(run), _known_by(run, cut)
    for at in range(cut + 1, len(run.entries)):
        if not _is_clear(run.entries, at):
            continue
        call, newest = run.entries[at], run.entries[cut : _reply_start(run.entries, at)]
        if COUNTER.count_entries(newest) > LONGEST_NEWEST:
            return
        near = texts(newest)
        values = [v for v in dict.fromkeys(leaves(call.arguments)) if len(v) > 2]
        spelled = [v for v in values if has_word(near, v) or has_word(known, v)]
        left = [v for v in values if v not in spelled]
        remembered = tuple(v for v in left if v != who and len(v) <= 80)
        is_knowable = all(has_word(covered, value) for value in left)
        if is_knowable and len(remembered) >= LEAST_REMEMBERED:
            definition = _definition(run, call)
            yield Probe(
                f"{name}-{at:02}",
                who,
                domain_of(run),
                newest,
                call.tool_name,
                call.arguments,
                remembered,
                definition,
            )


def _reply_start(entries: Sequence[Entry], at: int) -> int:
    """Where the calls begin that were made together with the one at an index."""
    while at and entries[at - 1].is_call:
        at -= 1
    return at


def _is_clear(entries: Sequence[Entry], at: int) -> bool:
    """True if an entry is the only call of its tool in its reply."""
    start = stop = _reply_start(entries, at)
    while stop < len(entries) and entries[stop].is_call:
        stop += 1
    tools = [entry.tool_name for entry in entries[start:stop]]
    return entries[at].is_call and tools.count(entries[at].tool_name) == 1


def _who(run: Trajectory, cut: int) -> str:
    """The first id that a call of the thread used or found before the cut."""
    for entry in run.entries[:cut]:
        for value in leaves(entry.arguments) if entry.is_call else ():
            if any(map(str.isdigit, value)) and len(value) <= 40:
                return value
    return ""


def _known_by(run: Trajectory, cut: int) -> str:
    """The first id that a call used before the cut; a zip code tells no customer."""
    used = [
        value
        for entry in run.entries[:cut]
        if entry.is_call
        for value in leaves(entry.arguments)
        if any(map(str.isdigit, value)) and len(value) <= 40
    ]
    return next((v for v in used if not v.isdigit() or len(v) > ZIP_DIGITS), "")


def _definition(run: Trajectory, call: Entry) -> str:
    """A tool's recorded definition; else the form of its arguments."""
    for function in _functions(run):
        if function["name"] == call.tool_name:
            return json.dumps(function, ensure_ascii=False)
    return json.dumps({"name": call.tool_name, "arguments": _form(call.arguments)})


def _functions(run: Trajectory) -> list[dict[str, Any]]:
    """The recorded definitions of a conversation's tools."""
    return [each.get("function", each) for each in json.loads(run.tools or "[]")]


def _form(value: Any) -> Any:
    """A value with the names of types in place of what it holds."""
    if isinstance(value, dict):
        return {key: _form(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_form(each) for each in value]
    return "string" if isinstance(value, str) else "number"


def desks_of(
    runs: Sequence[Trajectory],
    *,
    folds: int,
    count: int = 4,
    seed: int = 14,
    by_turns: bool = False,
) -> list[Desk]:
    """Desks of six conversations each; their threads are the same for any `folds`.

    With `by_turns` each message of a person is answered before the next person's.
    """
    chance = random.Random(seed)
    usable = [run for run in runs if best_cut(run)]
    others, order = copies_of(runs, random.Random(seed)), list[Trajectory]()
    made = []
    for number in range(1, count + 1):
        chosen: list[Trajectory] = []
        while len(chosen) < THREADS:
            order = order or chance.sample(usable, len(usable))
            chosen.append(_distinct(order.pop(), chosen, runs, chance))
        name = f"desk{number}"
        made.append(_desk(name, chosen, others, folds, by_turns=by_turns))
    return made


def best_cut(run: Trajectory) -> int:
    """The cut after which the calls take most from memory; 0 where none does."""
    said = [at for at, entry in enumerate(run.entries) if entry.role == "user"]
    cuts = set(said) & set(safe_cuts(run.entries)) - set(range(FIRST_CUT))
    taken = {
        cut: sum(
            len(probe.remembered)
            for probe in probes_of(run, cut, texts(run.entries[:cut]), "")
        )
        for cut in sorted(cuts)
    }
    best = max(taken, key=lambda cut: taken[cut], default=0)
    return best if taken.get(best) else 0


def _distinct(
    run: Trajectory,
    chosen: Sequence[Trajectory],
    runs: Sequence[Trajectory],
    chance: random.Random,
) -> Trajectory:
    """The conversation, with other values where a chosen one has the same customer."""
    who = {_who(each, best_cut(each)) for each in chosen}
    if _who(run, best_cut(run)) not in who:
        return run
    return next(copies_of([run], chance))


def _desk(
    name: str,
    threads: Sequence[Trajectory],
    others: Iterator[Trajectory],
    folds: int,
    *,
    by_turns: bool,
) -> Desk:
    """The threads before their cuts, spread over the parts, and what fills these.

    Every second thread rests in the last half of the parts.
    """
    cuts = [best_cut(run) for run in threads]
    pieces: list[list[Trajectory]] = [[] for _ in range(folds)]
    for number, (run, cut) in enumerate(zip(threads, cuts, strict=True)):
        last = folds if number % 2 else (folds + 1) // 2
        covered = run.entries[:cut]
        starts = turn_starts(covered) if by_turns else safe_cuts(covered)
        for part, entries in enumerate(_pieces(covered, starts, last)):
            piece = Trajectory(run.name, run.system, entries, run.tools)
            pieces[part].append(piece)
    parts = []
    for part, taken in enumerate(pieces):
        while _size(taken) < PART_TOKENS:
            taken.append(next(others))
        chance = random.Random(f"{name} {part}")
        entries = interleaved(taken, chance, by_turns=by_turns)
        parts.append(_own(entries, part))
    return Desk(name, tuple(parts), tuple(threads), tuple(cuts))


def _pieces(
    entries: Sequence[Entry], starts: Sequence[int], count: int
) -> Iterator[tuple[Entry, ...]]:
    """Entries in so many pieces of about as many units each, which have these starts."""
    cuts = [*starts, len(entries)]
    bounds = [cuts[(len(cuts) - 1) * n // count] for n in range(count + 1)]
    for start, stop in pairwise(bounds):
        yield tuple(entries[start:stop])


def _size(runs: Sequence[Trajectory]) -> int:
    return sum(COUNTER.count_entries(run.entries) for run in runs)


def _own(entries: Sequence[Entry], part: int) -> tuple[Entry, ...]:
    return tuple(
        entry._replace(tool_id=f"{part}_{entry.tool_id}") if entry.tool_id else entry
        for entry in entries
    )
