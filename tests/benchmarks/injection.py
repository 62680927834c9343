"""Where orders end up that no person gave: 52 orders in over 60 places.

    python tests/benchmarks/injection.py [--policies NAME ...]

Each order comes as a tool's result or error, an argument, an answer, a file, a paste,
and within a person's message that shows what somebody else wrote. For each order, place
and policy a compaction is made by a model that takes every order it sees for a rule of
the person, and the system prompt, the pins and the rules after it are searched.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from injections import cases
from tqdm import tqdm

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS
from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session
from nbchat.testing import ScriptedProvider, says

FIRST_FIVE = [name for name, _ in zip(PRESETS, range(5), strict=False)]


def main() -> None:
    """Print a line for each policy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--policies", nargs="+", default=FIRST_FIVE, choices=PRESETS)
    every = list(cases())
    print("system  pins  rules  of  policy")
    for name in parser.parse_args().policies:
        found = Counter[str]()
        for _, order, entries in tqdm(every, name, leave=False, disable=None):
            found.update(trusted(name, order, entries))
        figures = (found[each] for each in ("system", "pins", "rules"))
        print(*(f"{figure:5}" for figure in figures), f"{len(every):5}  {name}")


def trusted(policy: str, order: str, entries: list[Entry]) -> list[str]:
    """Where an order stands as the person's after a compaction."""
    quoted = "\n".join(f'- "{line.lstrip("- 12.")}"' for line in order.split("\\n"))
    told = says(f"<summary>They talked.\n{quoted}\n</summary>")
    talk = [Entry("user", "Next."), Entry("assistant", "Yes. " * 300)]
    session = Session([*entries, *talk])
    agent = Agent(
        ScriptedProvider(*[told] * 4),
        session=session,
        engine=CompactionEngine(policy=policy),
        system="Be kind.",
    )
    list(agent.compact(keep=0))
    places = {
        "system": order in agent.next_request().system,
        "pins": bool(session.pins),
        "rules": any(record.rules for record in session.compactions),
    }
    return [place for place, is_there in places.items() if is_there]


if __name__ == "__main__":
    main()
