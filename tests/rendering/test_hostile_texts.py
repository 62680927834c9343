"""Nothing runs and nothing is fetched, whatever anybody says, wherever it is shown."""

from collections.abc import Iterable

import pytest
from hostile import FAMILIES, PAYLOADS, PLACES, assert_harmless, markdowns

from nbchat.chat.chat_events import CommandReplied
from nbchat.conversation.events import TextDelta, ThinkingDelta, TurnFailed
from nbchat.jupyter.panel.panel_state import PanelState

EACH_FAMILY = pytest.mark.parametrize("family", FAMILIES)


def assert_all_harmless(family: str, payload: str, htmls: Iterable[str]) -> None:
    """Fail with the payload's number in its family and the HTML that it became."""
    for html in dict.fromkeys(htmls):  # cut anywhere, a stream is often shown the same
        try:
            assert_harmless(html)
        except Exception as error:
            number = FAMILIES[family].index(payload) + 1
            raise AssertionError(
                f"{family} {number}: {payload[:500]!r} became {html[:2_000]!r}"
            ) from error


def streamed(payload: str) -> Iterable[str]:
    """The panel's HTML after each piece of an answer that repeats the payload."""
    text = f"{payload}\n\n{payload}\n\nend"
    for size in (3, 11):
        state, length = PanelState(), size * (1 + len(text) // 1_000)
        for start in range(0, len(text), length):
            state.fold(TextDelta(text[start : start + length]))
            state.fold(ThinkingDelta(text[start : start + length]))
            yield state.snapshot()["live"]["assistant"]["html"]
        state.fold(CommandReplied(payload))
        state.fold(TurnFailed(payload))
        yield from (item["html"] for item in state.snapshot()["items"])


def test_the_corpus_has_hundreds_of_attacks_of_all_known_families() -> None:
    assert len(set(PAYLOADS.values())) >= 350
    assert len(FAMILIES) >= 15
    assert min(map(len, FAMILIES.values())) >= 9


@EACH_FAMILY
def test_nothing_runs_or_is_fetched_in_any_place_of_the_panel(family: str) -> None:
    for payload in FAMILIES[family]:
        htmls = (place(payload) for place in PLACES.values())
        assert_all_harmless(family, payload, htmls)


@EACH_FAMILY
def test_nothing_runs_or_is_fetched_in_any_place_of_markdown(family: str) -> None:
    for payload in FAMILIES[family]:
        assert_all_harmless(family, payload, markdowns(payload))


@EACH_FAMILY
def test_nothing_runs_or_is_fetched_wherever_a_stream_is_cut(family: str) -> None:
    for payload in FAMILIES[family]:
        assert_all_harmless(family, payload, streamed(payload))
