"""The transcript in pages: the newest first, HTML only for what a view has needed."""

from typing import Any

import pytest

from nbchat.conversation.entries import Compaction, Entry
from nbchat.jupyter.panel.view_model.items import (
    PAGE_CHARACTERS,
    PAGE_ITEMS,
    Items,
)

RECORD = Compaction("c1", 0, 2, "<summary>S</summary>", 5_000, 500, committed_at=2)


def items_of(*items: str | Entry | Compaction) -> Items:
    """A transcript with these items, whose keys begin at 0."""
    transcript = Items()
    for item in items:
        transcript.add(item)
    return transcript


def keys(page: dict[str, Any]) -> list[int]:
    """The keys of a page's items, in order."""
    return [item["key"] for item in page["items"]]


def pages(transcript: Items) -> list[list[int]]:
    """The keys of all pages, the newest page first."""
    page = transcript.page()
    found = [keys(page)]
    while page["before"] is not None:
        page = transcript.page(page["before"])
        found.append(keys(page))
    return found


@pytest.mark.parametrize("count", [0, 1, PAGE_ITEMS, PAGE_ITEMS + 1, 5 * PAGE_ITEMS])
def test_pages_from_the_newest_on_give_each_item_once_in_order(count: int) -> None:
    found = pages(items_of(*("<p>x</p>" for _ in range(count))))
    assert [key for page in found[::-1] for key in page] == list(range(count))
    assert all(len(page) == PAGE_ITEMS for page in found[:-1])


def test_only_the_page_that_is_looked_at_is_rendered() -> None:
    said = [Entry("assistant", f"*{number}*") for number in range(200)]
    transcript = items_of(*said)
    page = transcript.page()
    assert "<em>199</em>" in page["items"][-1]["html"]
    unread = [each for each in transcript._items.values() if isinstance(each, Entry)]
    assert len(unread) <= 200 - PAGE_ITEMS
    assert len(unread) >= 200 - 2 * PAGE_ITEMS
    assert transcript.page() == page


def test_a_page_of_long_items_ends_early() -> None:
    found = pages(items_of(*["x" * (PAGE_CHARACTERS // 2)] * 10))
    assert [len(page) for page in found] == [3, 3, 3, 1]


def test_what_has_nothing_to_show_is_on_no_page() -> None:
    transcript = items_of(Entry("user", "q"), Entry("thinking", ""), RECORD)
    assert keys(transcript.page()) == [0, 2]
    assert "Compaction occurred" in transcript.page()["items"][1]["html"]


def test_a_new_face_keeps_its_place_and_a_cleared_key_never_comes_again() -> None:
    transcript = items_of(Entry("user", "a"), Entry("user", "b"))
    assert transcript.add("new face", key=0) == 0
    assert transcript.page()["items"][0]["html"] == "new face"
    assert transcript.drop(1) == [{"op": "drop", "key": 1}]
    assert keys(transcript.page()) == [0]
    transcript.clear()
    assert transcript.add("x") == 2
    assert transcript.page(before=2) == {"items": [], "before": None}
