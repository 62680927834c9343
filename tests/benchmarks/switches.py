"""Random switches between five models on three APIs: does any turn fail?

PYTHONPATH=tests/support python tests/benchmarks/switches.py [--seeds 40] [--switches 25]
"""

import argparse
import time

from model_switches import switched


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--switches", type=int, default=25)
    asked = parser.parse_args()
    began, turns, refused, failed = time.time(), 0, 0, 0
    for seed in range(asked.seeds):
        more, no, bad, failures = switched(seed, asked.switches)
        turns, refused, failed = turns + more, refused + no, failed + bad
        for failure in failures[:3]:
            print("FAILED", failure[:300])
    seconds = time.time() - began
    print(
        f"{turns} turns with a switch before each, {asked.seeds} seeds: {failed} failed "
        f"turns, {refused} refused requests, {seconds:.0f} s"
    )


if __name__ == "__main__":
    main()
