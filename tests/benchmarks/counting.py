"""How far counts of tokens are from the provider's own number.

    python tests/benchmarks/counting.py

Every request of `tests/data` whose size a provider has reported is counted twice by the
real engine: locally alone, as before the first report, and anchored, as in a chat that
goes on: the report on the request before it plus an estimate of what came since. The
figures are errors as shares of the provider's number.
"""

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, quantiles

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from recorded_usage import Recorded, read_recorded

CLOSE = 0.05

HEAD = f"{'':38}{'requests':>9}{'mean':>8}{'p95':>8}{'within 5 %':>12}"


def main() -> None:
    """Print a table for each way to count, a line an API."""
    by_api: defaultdict[str, list[Recorded]] = defaultdict(list)
    for request in read_recorded():
        by_api[request.api].append(request)
    everything = [each for requests in by_api.values() for each in requests]
    by_api["all"] = everything
    print(f"local counts alone\n{HEAD}")
    for api, requests in by_api.items():
        _print(api, requests, is_anchored=False)
    print(f"\nanchored counts: the last report, and an estimate of the rest\n{HEAD}")
    for api, requests in by_api.items():
        _print(api, [each for each in requests if each.report], is_anchored=True)


def _print(api: str, requests: Sequence[Recorded], *, is_anchored: bool) -> None:
    if not requests:
        print(f"{api:38}{'none':>9}")
        return
    errors = [abs(each.error(is_anchored=is_anchored)) for each in requests]
    close = sum(error <= CLOSE for error in errors) / len(errors)
    print(
        f"{api:38}{len(errors):9,}{mean(errors):8.1%}{_p95(errors):8.1%}{close:12.0%}"
    )


def _p95(errors: Sequence[float]) -> float:
    """The error that 95 of 100 requests do not exceed."""
    return quantiles([*errors, *errors], n=20, method="inclusive")[-1]


if __name__ == "__main__":
    main()
