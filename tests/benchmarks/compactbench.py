"""True if rules and final decisions of CompactBench's cases survive a compaction.

    python tests/benchmarks/compactbench.py [--seeds 10] [--policies single-summary]

Each template is filled with several seeds at each of its difficulties, and compacted
once with a summary that says nothing, so that the facts are measured alone. The checks
of the benchmark are run on all that the history holds afterwards. "references" are
rules that a later message refers to, "others" who did what, and "replaced" decisions
that were taken back and should be gone.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.remove(str(Path(__file__).parent))  # else this file is the package
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from compactbench_cases import cases, group_of, history_after, passed, templates

POLICIES = ("single-summary", "extractive", "tiered")


def main() -> None:
    """Print how many checks pass, by template and in all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--policies", nargs="*", default=POLICIES)
    options = parser.parse_args()
    for policy in options.policies:
        total: Counter[tuple[str, bool]] = Counter()
        for template in templates():
            checks = Counter(
                (group, passed(item, view))
                for case in cases(template, options.seeds)
                for view in [history_after(case, policy)]
                for item in case.evaluation_items
                if (group := group_of(case, item))
            )
            print(f"  {template.key:34} {line(checks)}")
            total += checks
        print(f"{policy:36} {line(total)}")


def line(checks: Counter[tuple[str, bool]]) -> str:
    """The checks that passed, of all, by group."""
    groups = dict.fromkeys(group for group, _ in checks)
    counts = ((each, checks[each, True], checks[each, False]) for each in groups)
    return "   ".join(f"{each} {good}/{good + bad}" for each, good, bad in counts)


if __name__ == "__main__":
    main()
