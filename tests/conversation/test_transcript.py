"""A transcript reads the same whether its older entries are compressed or not."""

import pickle
import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from threading import Event, Thread

import pytest

from nbchat.conversation.entries import Entry, Usage, prefix_hash
from nbchat.conversation.session import Session, UsageList
from nbchat.conversation.transcript import (
    LONG,
    PART,
    PackedList,
    Transcript,
    TranscriptView,
)

COUNT = 4 * PART + 7


def entry(number: int) -> Entry:
    return Entry("user" if number % 2 else "assistant", f"Message {number}, \ud800.")


def grown(count: int = COUNT, start: int = 0) -> Transcript:
    """A transcript of entries that were said, of which `start` were loaded."""
    transcript = Transcript(map(entry, range(start)))
    for number in range(start, count):
        transcript.append(entry(number))
    return transcript


def test_a_list_of_values_that_were_appended_reads_like_any_other():
    chance = random.Random(1)
    for count in (0, 1, PART - 1, PART, PART + 1, 3 * PART, 3 * PART + 1, COUNT):
        packed, values = PackedList[int](), list(range(count))
        for value in values:
            packed.append(value)
        assert packed == values
        assert len(packed) == count
        assert list(packed) == values
        assert list(reversed(packed)) == values[::-1]
        for _ in range(200):
            ends = [chance.randint(-count - 3, count + 3) for _ in range(2)]
            step = chance.choice([1, 1, 1, 2, -1, -3])
            where = slice(*ends, step)
            assert packed[where] == values[where]
        for index in (*range(-count, count, 97), -1, 0)[: 2 * count]:
            assert packed[index] == values[index]
        for index in (count, -count - 1):
            with pytest.raises(IndexError):
                packed[index]


@pytest.mark.parametrize("loaded", [0, 1, PART, 3 * PART + 5])
def test_older_entries_that_were_said_are_compressed_and_those_loaded_are_not(loaded):
    transcript = grown(loaded + COUNT, loaded)
    entries = [*map(entry, range(loaded + COUNT))]
    assert transcript == entries
    assert [transcript[n] for n in range(0, len(entries), 11)] == entries[::11]
    plain = [isinstance(part, list) for part in transcript._parts]
    first = loaded // PART
    assert all(plain[: max(first - 1, 0)])
    assert not any(plain[first:-2])
    assert all(plain[-2:])


def test_a_long_chat_takes_a_fraction_of_its_size():
    texts = ["to", "the", "order", "is", "sent", "from", "a", "shop"]
    chance = random.Random(1)

    def size_of(count: int) -> int:
        tracemalloc.start()
        transcript = Transcript()
        for number in range(count):
            text = " ".join(chance.choices(texts, k=40))
            transcript.append(Entry("assistant", f"{number} {text}"))
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size

    plain = sum(len(" ".join(chance.choices(texts, k=40))) for _ in range(10_000))
    assert size_of(11_000) - size_of(1_000) < plain / 4


def test_an_image_stays_as_it_is_and_its_neighbours_are_compressed():
    image = Entry("user", "a picture", "", "image", "x" * LONG)
    transcript = Transcript()
    for number in range(COUNT):
        transcript.append(image if number == 5 else entry(number))
    assert transcript[5] is image
    assert transcript[4] == entry(4)
    assert transcript[4] is not transcript[COUNT - 4]
    assert list(transcript)[5] is image
    first = transcript._parts[0]
    assert not isinstance(first, list)
    assert len(first.data) < LONG


def test_a_copy_reads_as_the_transcript_that_was_copied():
    transcript = grown()
    for copy in (deepcopy(transcript), pickle.loads(pickle.dumps(transcript))):
        assert copy == transcript
        assert copy.prefix_hash(COUNT) == prefix_hash(transcript[:])
        copy.append(entry(0))
        assert len(copy) == len(transcript) + 1


def test_what_is_appended_while_a_transcript_is_read_is_read_too():
    transcript, seen = grown(PART - 1), []
    for each in transcript:
        seen.append(each)
        if len(seen) < COUNT:
            transcript.append(entry(len(transcript)))
    assert seen == [entry(number) for number in range(len(transcript))]


def test_threads_read_a_transcript_while_it_grows():
    transcript, is_over = Transcript([entry(0)]), Event()

    def grow() -> None:
        for number in range(1, 20 * PART):
            transcript.append(entry(number))
        is_over.set()

    def is_read(seed: int) -> bool:
        chance = random.Random(seed)
        while not is_over.is_set():
            length = len(transcript)
            index = chance.randrange(length)
            start = chance.randrange(length)
            if transcript[index] != entry(index):
                return False
            if transcript[start : start + 3][0] != entry(start):
                return False
        return True

    thread = Thread(target=grow)
    with ThreadPoolExecutor(4) as readers:
        found = readers.map(is_read, range(4))
        thread.start()
        assert all(found)
    thread.join()
    assert transcript == [entry(number) for number in range(20 * PART)]


def test_a_view_shows_changed_entries_and_those_that_were_there_then():
    transcript = grown(9)
    changed = Entry("user", "[excluded by the user]")
    view = TranscriptView(transcript, {3: changed, 8: changed}, 8)
    transcript.append(entry(9))
    wanted = [*map(entry, range(8))]
    wanted[3] = changed
    assert list(view) == wanted
    assert list(reversed(view)) == wanted[::-1]
    assert [view[n] for n in range(-8, 8)] == wanted * 2
    for where in (slice(2, 5), slice(3), slice(None), slice(-3, None), slice(7, 2, -2)):
        assert list(view[where]) == wanted[where]
    for index in (8, -9):
        with pytest.raises(IndexError):
            view[index]


def test_views_are_equal_when_their_entries_are():
    transcript, other = grown(9), grown(9)
    changed = Entry("user", "changed")
    view = TranscriptView(transcript, {}, 8)
    assert view == TranscriptView(transcript, {8: changed}, 9)[:8]
    assert view == TranscriptView(transcript, {3: entry(3)}, 8)
    assert view == TranscriptView(other, {}, 8)
    assert view == other[:8]
    assert view != TranscriptView(transcript, {3: changed}, 8)
    assert view != TranscriptView(transcript, {}, 7)
    assert view != TranscriptView(other, {7: changed}, 8)
    assert view != "text"


def test_usages_are_found_by_the_entries_they_came_with():
    usages = UsageList()
    values = [(2 * number + 2, Usage(number, 1)) for number in range(COUNT)]
    for value in values:
        usages.append(value)
    assert usages == values
    assert usages.total == Usage(sum(range(COUNT)), COUNT)
    assert usages.between(0, 4) == [Usage(0, 1), Usage(1, 1)]
    assert usages.between(1, 2) == [Usage(0, 1)]
    assert usages.between(2, 3) == []
    assert UsageList(values).total == usages.total
    session = Session(map(entry, range(2 * COUNT)), usages=values)
    assert [session.usage_at(n) for n in (0, 1, 2, 3)] == [
        None,
        Usage(0, 1),
        None,
        Usage(1, 1),
    ]
