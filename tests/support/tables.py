"""Tables of cases for a function without effects, as one test: pytest takes 7 ms a case."""

from collections.abc import Callable, Iterable
from typing import Any


def every(names: Any, rows: Iterable[Any]) -> Callable[[Callable[..., None]], Any]:
    """Run a test on every row of a table, as `pytest.mark.parametrize` lists them.

    The first row that fails is noted at its error.
    """
    rows = tuple(rows)
    assert rows
    is_single = isinstance(names, str) and "," not in names

    def decorate(test: Callable[..., None]) -> Callable[[], None]:
        def run() -> None:
            for row in rows:
                try:
                    test(row) if is_single else test(*row)
                except BaseException as error:
                    error.add_note(f"in the row {row!r:.500}")
                    raise

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        run.__module__, run.__qualname__ = test.__module__, test.__qualname__
        run.pytestmark = getattr(test, "pytestmark", [])  # type: ignore[attr-defined]
        return run

    return decorate
