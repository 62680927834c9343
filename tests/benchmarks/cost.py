"""What each way to decide on a compaction costs, in dollars and in input tokens.

    python tests/benchmarks/cost.py

The real agent, engine and meters replay what was recorded: the published ticket run
(37 requests that grow from 1,537 to 9,475 tokens), the 23 real conversations, and four
desks that serve five or six of those in turns, in one long session. Only the model is
simulated: it says what was said, writes summaries of three quarters of the length it is
allowed, and reports usage as a server with a prompt cache would. Every request counts,
those for summaries too.

The caches: Anthropic's holds the ends of earlier requests of 1,024 tokens and more, and
what is not read is written to it; OpenAI's holds their beginnings in steps of 128
tokens from 1,024 on, and writing is free. Nothing expires. Where a threshold would be
below the system prompt it is what the error message asks for, four times that; a
context twice that.
"""

import json
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, zip_longest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from trajectories import Trajectory, read_trajectories

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS, Policy
from nbchat.conversation.entries import Entry, Usage
from nbchat.conversation.events import CompactionSkipped, Event
from nbchat.conversation.tools import Tool
from nbchat.conversation.values import values
from nbchat.providers.base import Reply, ReplyStream, Request, wire_text
from nbchat.providers.model_info import MILLION, ModelInfo, model_info
from nbchat.providers.tokens import TokenCounter
from nbchat.testing.replay import RecordedStep, RecordedTurn, turns_of

COUNTER = TokenCounter()
LEAST_CACHED = 1_024
SUMMARY_SHARE = 0.75

FLOOR, FIRST, LAST, REQUESTS = 1_500, 1_537, 9_475, 37
"""The published ticket run: system and tools, first and last request, how many."""


@dataclass(frozen=True)
class Work:
    """A conversation to be replayed."""

    system: str
    turns: tuple[RecordedTurn, ...]


@dataclass(frozen=True)
class Scene:
    """A model, and whether its prompt cache works."""

    model: ModelInfo
    is_cached: bool
    step: int = 1
    is_written: bool = True
    pause_seconds: float = 0.0
    """Before each message of a person; an unused cache ends after its lifetime."""


@dataclass(frozen=True)
class Bill:
    """What a replay came to."""

    dollars: float
    compactions: int
    peak: int
    notices: int


# What is replayed.


def ticket_run() -> Work:
    """Requests of the published sizes: a call and its result make each next one."""
    growth = (LAST - FIRST) / (REQUESTS - 1)
    sizes = [round(FIRST + growth * number) for number in range(REQUESTS)]
    added = [after - before for before, after in pairwise(sizes)]
    call = Entry("assistant", "", "", "work", json.dumps({"x": words(60)}))
    spoken = COUNTER.count_entry(call)
    steps = [RecordedStep((call,), (words(size - spoken - 5),)) for size in added]
    end = RecordedStep((Entry("assistant", words(100)),), ())
    return Work(words(FLOOR), (RecordedTurn(words(FIRST - FLOOR - 4), (*steps, end)),))


def words(tokens: int, word: str = " the") -> str:
    """A text of so many tokens."""
    return word * tokens


def conversation(run: Trajectory) -> Work:
    """A recorded conversation, turn by turn."""
    return Work(run.system, tuple(turns_of(run.entries)))


def desk(works: Sequence[Work]) -> Work:
    """Several conversations in one session, a turn of each at a time."""
    rounds = zip_longest(*(work.turns for work in works))
    mixed = (turn for each in rounds for turn in each if turn is not None)
    return Work(works[0].system, tuple(mixed))


# The model.


class PrefixCache:
    """What a server remembers of earlier requests."""

    def __init__(self, scene: Scene) -> None:
        """Remember nothing."""
        self._scene = scene
        self._known: dict[int, float] = {}
        self.now = 0.0

    def usage(self, blocks: Sequence[tuple[object, int]], output_tokens: int) -> Usage:
        """The usage of a request made of blocks, which is remembered from now on."""
        sizes = list(accumulate(size for _, size in blocks))
        chain = list(
            accumulate((hash(k) for k, _ in blocks), lambda a, b: hash((a, b)))
        )
        total = sizes[-1]
        if not self._scene.is_cached or total < LEAST_CACHED:
            return Usage(total, output_tokens)
        pairs = zip(sizes, chain, strict=True)
        oldest = self.now - self._scene.model.cache_seconds
        known = {link for link, used in self._known.items() if used >= oldest}
        found = max((size for size, link in pairs if link in known), default=0)
        read = found // self._scene.step * self._scene.step
        read = read if read >= LEAST_CACHED else 0
        # Anthropic keeps what ends where a request ended, OpenAI every beginning.
        kept = chain[-1:] if self._scene.is_written else chain
        self._known |= dict.fromkeys([*kept, *(known & set(chain))], self.now)
        written = total - read if self._scene.is_written else 0
        return Usage(total, output_tokens, read, written)


class Replay:
    """Says what was said, reports what it would have cost."""

    name = "replay:model"

    def __init__(self, work: Work, scene: Scene, window: int | None) -> None:
        """Replay `work`, billed as in `scene`."""
        self._steps = deque(step for turn in work.turns for step in turn.steps)
        self.results: deque[str] = deque()
        self._scene, self._window = scene, window
        self.cache = PrefixCache(scene)
        self.dollars, self.peak = 0.0, 0

    def info(self) -> ModelInfo:
        """The model of the scene."""
        return self._scene.model.with_window(self._window)

    def stream(self, request: Request, *, stop: object = None) -> ReplyStream:
        """The next recorded response, or a summary."""
        yield from ()
        if request.answer_tag:
            size = int((request.max_output_tokens or 0) * SUMMARY_SHARE)
            text = f"{_named(request)}{words(size, ' of')}"  # no copy
            said: tuple[Entry, ...] = (
                Entry("assistant", f"<summary>{text}</summary>"),
            )
            usage = self._bill(request, said)
            return Reply(said, usage, "end_turn", self.name)
        step = self._steps.popleft()
        self.results.extend(step.results)
        usage = self._bill(request, step.said)
        self.peak = max(self.peak, usage.input_tokens)
        ended = "tool_use" if step.results else "end_turn"
        return Reply(step.said, usage, ended, self.name)

    def _bill(self, request: Request, said: Sequence[Entry]) -> Usage:
        fixed = COUNTER.count(request.system)
        sent = (entry._replace(content=wire_text(entry)) for entry in request.history)
        blocks = [
            (request.system, fixed),
            *((entry, COUNTER.count_entry(entry)) for entry in sent),
        ]
        usage = self.cache.usage(blocks, COUNTER.count_entries(said))
        self.dollars += self._scene.model.cost(usage) or 0.0
        return usage


def _named(request: Request) -> str:
    """An identifier of the conversation: a summary without one would be refused."""
    said = [f"{each.content} {each.tool_args}" for each in request.history]
    texts = said[:-1] or [said[0].partition("</transcript>")[0]]
    found = (each for text in texts for each in values(text) if not each.is_count)
    return next((each.text for each in found if any(map(str.isdigit, each.text))), "")


def tools(work: Work, replay: Replay) -> list[Tool]:
    """Tools that give the recorded results; their schemas are in no request."""
    said = (entry for turn in work.turns for step in turn.steps for entry in step.said)
    names = dict.fromkeys(entry.tool_name for entry in said if entry.is_call)

    def result(**_arguments: object) -> str:
        return replay.results.popleft()

    return [Tool(n, "", {}, result) for n in names]


# The meters.

Make = Callable[[Work], tuple[int | None, Policy]]


FAR = 200_000
"""Tokens of a window whose end is far from all that is replayed."""


def by_sum(threshold: int) -> Make:
    """The cumulative meter."""

    def make(work: Work) -> tuple[int | None, Policy]:
        floor = COUNTER.count(work.system) + 200
        return (threshold if threshold > floor else 4 * floor), Policy("sum")

    return make


def by_context(tokens: int) -> Make:
    """A context of so many tokens, far from the end of the window."""

    def make(work: Work) -> tuple[int | None, Policy]:
        floor = COUNTER.count(work.system) + 200
        share = max(tokens, 2 * floor) / FAR
        return None, Policy("context", "window", window_share=share, share_of="window")

    return make


def by_policy(policy: Policy) -> Make:
    """A policy as it is."""
    return lambda _: (None, policy)


FIXED: dict[str, tuple[Make, int | None]] = {
    "none": (by_policy(Policy("off", "off")), None),
    "cumulative 5k": (by_sum(5_000), None),
    "cumulative 20k": (by_sum(20_000), None),
    "cumulative 60k": (by_sum(60_000), None),
    "window 16k, 50 %": (by_policy(Policy("w", "window", window_share=0.5)), 16_000),
    "window 16k, 80 %": (by_policy(Policy("w", "window", window_share=0.8)), 16_000),
    "window 32k, 50 %": (by_policy(Policy("w", "window", window_share=0.5)), 32_000),
    "window 32k, 80 %": (by_policy(Policy("w", "window", window_share=0.8)), 32_000),
    "default, 16k": (by_policy(PRESETS["single-summary"]), 16_000),
    "default, 128k": (by_policy(PRESETS["single-summary"]), 128_000),
    "context 4k": (by_context(4_000), FAR),
    "context 8k": (by_context(8_000), FAR),
}
METERS = {**FIXED, "auto": (by_policy(Policy("auto", "auto")), None)}


def replay(work: Work, scene: Scene, meter: str) -> Bill:
    """One conversation under one meter, with the real agent."""
    make, window = METERS[meter]
    threshold, policy = make(work)
    model = Replay(work, scene, window)
    engine = CompactionEngine(threshold, policy=policy)
    engine.tracker._clock = lambda: model.cache.now
    agent = Agent(model, tools=tools(work, model), system=work.system, engine=engine)
    events: list[Event] = []
    for turn in work.turns:
        model.cache.now += scene.pause_seconds
        agent.max_steps = len(
            turn.steps
        )  # some end with a call: nobody was asked again
        events += agent.run(turn.text)
    return Bill(
        model.dollars,
        len({record.id for record in agent.session.active_compactions}),
        model.peak,
        sum(isinstance(event, CompactionSkipped) for event in events),
    )


# The tables.

SCENES = {
    f"{name}, {'cache' if is_cached else 'no cache'}": Scene(
        model_info(name, provider=provider), is_cached, step, is_written
    )
    for name, provider, step, is_written in (
        ("claude-sonnet-5-5", "anthropic", 1, True),
        ("gpt-6-luna", "openai", 128, False),
    )
    for is_cached in (False, True)
}
for _lifetime in ("5m", "1h"):
    _info = model_info("claude-sonnet-5-5", provider="anthropic")
    _long = _info.with_cache_lifetime(_lifetime)
    _name = f"claude-sonnet-5-5, cache {_lifetime}, 7 min pauses"
    SCENES[_name] = Scene(_long, is_cached=True, pause_seconds=420)


def workloads() -> dict[str, list[Work]]:
    """What is replayed, by name."""
    single = [conversation(run) for run in read_trajectories()]
    desks = [desk(single[start::4][:6]) for start in range(4)]
    return {"ticket run": [ticket_run()], "23 conversations": single, "4 desks": desks}


def table(works: Sequence[Work], scene: Scene) -> dict[str, list[Bill]]:
    """The bills of all meters."""
    return {meter: [replay(work, scene, meter) for work in works] for meter in METERS}


def show(name: str, scene_name: str, bills: dict[str, list[Bill]]) -> None:
    """Print one table, and how far `auto` is from the best in hindsight."""
    price = SCENES[scene_name].model.prices
    totals = {meter: sum(b.dollars for b in each) for meter, each in bills.items()}
    print(f"\n{name}: {scene_name}")
    print(
        f"{'meter':18}{'dollars':>9}{'vs none':>9}{'input eq.':>11}{'made':>6}{'peak':>8}"
    )
    for meter, each in bills.items():
        equivalent = totals[meter] / (price.input if price else 1) * MILLION
        change = totals[meter] / totals["none"] - 1
        print(
            f"{meter:18}{totals[meter]:9.4f}{change:+9.0%}{equivalent:11,.0f}"
            f"{sum(b.compactions for b in each):6}{max(b.peak for b in each):8,}"
        )
    best = min(FIXED, key=totals.__getitem__)
    each_best = [
        min(bills[m][n].dollars for m in FIXED) for n in range(len(bills["auto"]))
    ]
    ratios = [b.dollars / low for b, low in zip(bills["auto"], each_best, strict=True)]
    print(
        f"auto costs {totals['auto'] / totals[best]:.2f} of the best fixed setting "
        f"({best}); of the best for each conversation {sum(ratios) / len(ratios):.2f} on "
        f"average, {max(ratios):.2f} at worst; "
        f"{sum(b.notices for b in bills['auto'])} notices"
    )


def main() -> None:
    """Print a table for each workload, model and cache."""
    for name, works in workloads().items():
        for scene_name, scene in SCENES.items():
            show(name, scene_name, table(works, scene))


if __name__ == "__main__":
    main()
