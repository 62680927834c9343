"""Nothing runs and nothing is fetched, whatever anybody says, wherever it is shown."""

import pytest
from hostile import FAMILIES, PAYLOADS, PLACES, assert_harmless, markdowns

from nbchat.chat.runner import CommandReplied
from nbchat.conversation.events import TextDelta, ThinkingDelta, TurnFailed
from nbchat.jupyter.panel.view_model.screen import Screen

EACH = pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)


def test_the_corpus_has_hundreds_of_attacks_of_all_known_families() -> None:
    assert len(set(PAYLOADS.values())) >= 350
    assert len(FAMILIES) >= 15
    assert min(map(len, FAMILIES.values())) >= 9


@EACH
def test_nothing_runs_or_is_fetched_in_any_place_of_the_panel(payload: str) -> None:
    for html in (place(payload) for place in PLACES.values()):
        assert_harmless(html)


@EACH
def test_nothing_runs_or_is_fetched_in_any_place_of_markdown(payload: str) -> None:
    for html in markdowns(payload):
        assert_harmless(html)


@EACH
def test_nothing_runs_or_is_fetched_wherever_a_stream_is_cut(payload: str) -> None:
    text = f"{payload}\n\n{payload}\n\nend"
    for size in (3, 11):
        screen, length = Screen(), size * (1 + len(text) // 1_000)
        for start in range(0, len(text), length):
            screen.fold(TextDelta(text[start : start + length]))
            screen.fold(ThinkingDelta(text[start : start + length]))
            assert_harmless(screen.snapshot()["live"]["assistant"]["html"])
        screen.fold(CommandReplied(payload))
        screen.fold(TurnFailed(payload))
        for item in screen.snapshot()["items"]:
            assert_harmless(item["html"])
