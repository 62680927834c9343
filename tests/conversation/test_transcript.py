"""A transcript: copies, reading while it grows, and usages."""

import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from threading import Event, Thread

import pytest

from nbchat.conversation.entries import Entry, Usage, prefix_hash
from nbchat.conversation.session import Session, Transcript, UsageList

COUNT = 500


def entry(number: int) -> Entry:
    return Entry("user" if number % 2 else "assistant", f"Message {number}, \ud800.")


def grown(count: int = COUNT) -> Transcript:
    transcript = Transcript()
    for number in range(count):
        transcript.append(entry(number))
    return transcript


def test_a_copy_reads_as_the_transcript_that_was_copied():
    transcript = grown()
    for copy in (deepcopy(transcript), pickle.loads(pickle.dumps(transcript))):
        assert copy == transcript
        assert copy.prefix_hash(COUNT) == prefix_hash(transcript[:])
        copy.append(entry(0))
        assert len(copy) == len(transcript) + 1


def test_what_is_appended_while_a_transcript_is_read_is_read_too():
    transcript, seen = grown(10), []
    for each in transcript:
        seen.append(each)
        if len(seen) < COUNT:
            transcript.append(entry(len(transcript)))
    assert seen == [entry(number) for number in range(len(transcript))]


@pytest.mark.slow
def test_threads_read_a_transcript_while_it_grows():
    transcript, is_over = Transcript([entry(0)]), Event()

    def grow() -> None:
        for number in range(1, 5_000):
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
    assert transcript == [entry(number) for number in range(5_000)]


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
