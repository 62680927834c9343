"""One agent decides 200 tickets by each policy: is the table made from facts the truth?

PYTHONPATH=.:tests/support python tests/benchmarks/many_tasks.py [--tickets 200]
"""

import argparse
import time

from one_agent import assert_true_table, desk_agent, prompt

from nbchat.compaction.policies import PRESETS


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tickets", type=int, default=200)
    count = parser.parse_args().tickets
    for policy in PRESETS:
        truth: dict[str, dict[str, str]] = {}
        agent = desk_agent(policy, truth, threshold=5_000, window=8_000)
        began = time.monotonic()
        for number in range(count):
            agent.ask(prompt(number))
        made = [each for each in agent.session.compactions if each.is_active]
        assert_true_table(agent, truth, count)
        print(
            f"{policy:16} {count} tickets, {len(made):3} compactions: the table is the "
            f"truth ({time.monotonic() - began:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
