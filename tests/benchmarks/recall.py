"""How often recall finds what a question asks for, and how long a search takes.

    python tests/benchmarks/recall.py

Meetings: one of the first five results (passages) holds a turn that answers. "Best
entry": the entry named by one of the five is such a turn. The same with all meetings in
one session and ten results. Follow-ups: the last message of each chat is omitted and
asked; one of ten results must come from its chat. Then the time to index 100,000
entries, and to search them.
"""

import itertools
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from recall_questions import Asked, all_meetings, follow_ups, meetings
from tqdm import tqdm

from nbchat.conversation.session import Session

ENTRIES = 100_000


def line(name: str, asked: list[Asked], first: int) -> None:
    """Print the shares of answered questions."""
    found = [
        (question, each.session.recall(question.text))
        for each in tqdm(asked, name, leave=False)
        for question in each.questions
    ]
    passages = sum(q.is_answered(results, first=first) for q, results in found)
    entries = sum(q.is_hit(results, first=first) for q, results in found)
    total = len(found)
    print(
        f"{name:28} {total:4} questions  passage {passages / total:6.1%}  "
        f"best entry {entries / total:6.1%}  (first {first})"
    )


def main() -> None:
    """Print a line for each set of questions, and the times."""
    line("meetings", meetings(), 5)
    line("all meetings, one session", [all_meetings()], 10)
    line("follow-ups, chats", [follow_ups("chats_oasst")], 10)
    line("follow-ups, trajectories", [follow_ups("trajectories")], 10)
    asked = all_meetings()
    repeated = itertools.cycle(asked.session.transcript)
    session = Session(itertools.islice(repeated, ENTRIES))
    began = time.process_time()
    session.recall("hello")
    print(f"index of {ENTRIES:,} entries: {time.process_time() - began:.2f} s")
    times = []
    for question in asked.questions:
        began = time.process_time()
        session.recall(question.text)
        times.append(1_000 * (time.process_time() - began))
    times.sort()
    print(f"search: median {times[len(times) // 2]:.0f} ms, longest {times[-1]:.0f} ms")


if __name__ == "__main__":
    main()
