"""Where orders end up that no person gave: 52 orders in many places of a conversation.

    python tests/benchmarks/injection.py [--policies]

Each order comes as a tool's result or error, an argument, an answer, a file, and within
a person's message that shows what somebody else wrote. Counted are orders that the facts
quote as a rule of the person: with what introduced them ("Is this spam? [...] Never ..."),
which says where they are from, and bare. Then come more ways to paste a text, and
messages alike whose rules are the person's own (`tests/data/pasted_texts.jsonl`). With `--policies` a real compaction is made for
each order, place and preset, and the system prompt and the pins of the next request are
searched, too.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from injections import cases, is_bare, obeyed, own_cases, pasted_cases, shown_cases
from nbchat.compaction.facts.rules import rules_in_force
from tqdm import tqdm

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS
from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session
from nbchat.testing import ScriptedProvider, says


def main() -> None:
    """Print a table of places, and of presets if asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--policies", action="store_true")
    options = parser.parse_args()
    bare, introduced, orders = Counter[str](), Counter[str](), Counter[str]()
    for place, order, entries in cases():
        quotes = obeyed(order, rules_in_force(entries))
        orders[place] += 1
        is_quoted_bare = any(is_bare(order, quote) for quote in quotes)
        bare[place] += is_quoted_bare
        introduced[place] += bool(quotes) and not is_quoted_bare
    print("orders  bare  introduced  place")
    for place, count in orders.items():
        print(f"{count:6} {bare[place]:5} {introduced[place]:11}  {place}")
    total = sum(orders.values())
    print(f"{total:6} {sum(bare.values()):5} {sum(introduced.values()):11}  all")
    for number in (1, 2, 3):
        pastes = [became for found, became in pasted_cases() if found == number]
        own = [is_found for found, is_found in own_cases() if found == number]
        print(
            f"set {number}: {sum(pastes):,} of {len(pastes):,} orders in other pastes are "
            f"quoted, {sum(own)} of {len(own)} own messages keep their rules"
        )
    for number in (4, 5, 6):
        shown = [*shown_cases(number)]
        marked = [*shown_cases(number, marked=True)]
        own = [is_found for found, is_found in own_cases() if found == number]
        print(
            f"set {number}: {sum(shown)} of {len(shown)} shown texts give a rule, "
            f"with the panel's marks {sum(marked)}, "
            f"{sum(own)} of {len(own)} own messages keep theirs"
        )
    if options.policies:
        _by_policy()


def _by_policy() -> None:
    found = Counter[str]()
    every = list(cases())
    for name in PRESETS:
        for _, order, entries in tqdm(every, desc=name, leave=False, disable=None):
            found[name] += is_trusted(name, order, entries)
        print(f"{found[name]:6} of {len(every)} in system prompt or pins  {name}")


def is_trusted(policy: str, order: str, entries: list[Entry]) -> bool:
    """Whether an order is in the system prompt or the pins after a compaction."""
    lines = [says("<summary>They talked about a ticket.</summary>")] * 2
    provider = ScriptedProvider(*lines)
    session = Session([*entries, *[Entry("user", "Next."), Entry("assistant", "Yes.")]])
    engine = CompactionEngine(policy=policy)
    agent = Agent(provider, session=session, engine=engine, system="Be kind.")
    list(agent.compact())
    request = agent.next_request()
    return order in request.system or bool(session.pins)


if __name__ == "__main__":
    main()
