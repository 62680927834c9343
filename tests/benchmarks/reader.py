"""True if a reader makes the next call right from what a compaction left behind.

    python tests/benchmarks/reader.py write DIR                   1. ask for summaries
    python tests/benchmarks/reader.py build DIR                   2. write the probes
    python tests/benchmarks/reader.py score DIR                   3. score the answers

Four desks have 30 probes (`support/next_calls.py`). `write` compacts each desk with the
real engine in 1 and in 4 folds (`--folds`). Where a summary is wanted, it writes
`stories/NAME.request.md`, and a writer, any model or person, puts the answer into
`stories/NAME.story.md`; run it again until nothing is asked for: a fold sees only the
story before it and what is new. `--writer local:smollm2`, or any model that `connect`
knows, writes all of them; `--writer none` writes empty ones.

`build` writes `probes/KIND/NAME.md`: what the reader sees is the whole conversation
(full), the story alone, the facts alone of a compaction without a story, or the entry
with both. `--budget` is what facts alone may take at most, in tokens. With `--turns` an
agent answers each person before the next one's message; without, calls of several people
may come between. The agent has the tools of its threads, where they are recorded.
`--sheets` puts one probe of each thread into one file, which is less to read. Any model or person answers a file with `NAME.answer.json` beside it, or
`--reader MODEL` does. `answers.json` has the right calls; do not show it to the reader.

`score` prints, for each kind and number of folds, the calls that are exactly right, the
remembered values that are right, how many of them stand in what the reader saw, and the
tokens of that.
"""

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from measures import COUNTER, has_word
from next_calls import Desk, Probe, desks_of
from tqdm import tqdm
from trajectories import read_trajectories

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.memory.memory import Material, Reading, memory_of
from nbchat.compaction.summarizer.prompts import transcript
from nbchat.compaction.summary_format import element, summary_facts, summary_text
from nbchat.conversation.entries import Entry, Usage
from nbchat.errors import NbchatError, Stopped
from nbchat.providers.base import Provider, Reply, ReplyStream, Request, wire_text
from nbchat.providers.connect import connect
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.retries import stream_with_retries
from nbchat.testing import ScriptedProvider

WINDOW = 32_000
FOLDS = (1, 4)
NO_STORY = "(no story was written)"

TASK = """You are an agent at a help desk, who looks after several customers at once.
This is what you know of the conversations so far:

{context}
"""

ASK = """## {name}

The newest messages, of the customer known by {who}:

{newest}

The tool that you call next:

{tools}

Write this call: {{"tool": "{tool}", "arguments": {{...}}}}. Use null for a value that you
cannot know; do not guess.
"""

ONE = "Answer with the JSON object alone.\n"
SHEET = (
    "Answer with one JSON object alone, with a call for each name: {example}. Each "
    "call is made by itself: use nothing that only another question says.\n"
)


class Waiting(Stopped):
    """A story is not written yet; the text is the name of its file."""


class Silent(ScriptedProvider):
    """A summary model that writes an empty story."""

    def stream(self, request: Request, *, stop: Any = None) -> ReplyStream:
        """The empty story."""
        del request, stop
        yield from ()
        entry = Entry("assistant", f"<summary>{NO_STORY}</summary>")
        return Reply((entry,), Usage(1, 1), "end_turn", self.name)


class Files(ScriptedProvider):
    """A summary model whose answers are files; asks for those that are missing."""

    def __init__(self, folder: Path, writer: Provider | None = None) -> None:
        """A writer writes the files that are missing."""
        super().__init__(window=WINDOW, name="files:writer")
        self._folder, self._writer = folder, writer
        self._fold, self._tries = "", 0

    def begin(self, fold: str) -> None:
        """Start the next fold, of this name."""
        self._fold, self._tries = fold, 0

    def info(self) -> ModelInfo:
        """The window of the writer, where there is one."""
        return self._writer.info() if self._writer is not None else super().info()

    def stream(self, request: Request, *, stop: Any = None) -> ReplyStream:
        """The story in its file; raises Waiting where there is none."""
        self._tries += 1
        suffix = f".try{self._tries}" if self._tries > 1 else ""
        file = self._folder / f"{self._fold}{suffix}.story.md"
        if not file.exists() and self._writer is not None:
            reply = yield from stream_with_retries(self._writer, request, stop=stop)
            file.write_text(reply.text, encoding="utf-8")
        if not file.exists():
            asked = file.with_name(file.name.replace(".story.", ".request."))
            asked.write_text(request_text(request), encoding="utf-8")
            raise Waiting(str(file))
        text = file.read_text(encoding="utf-8")
        if "<summary>" not in text:
            text = f"<summary>\n{text.strip()}\n</summary>"
        entry = Entry("assistant", text)
        used = Usage(self.count_tokens(request), COUNTER.count_entry(entry))
        return Reply((entry,), used, "end_turn", self.name)


def request_text(request: Request) -> str:
    """A summary request as a person can read and answer it."""
    said = "\n\n".join(wire_text(entry) for entry in request.history)
    limit = request.max_output_tokens or 0
    note = f"\n\n(At most {limit} tokens of answer.)" if limit else ""
    return f"{request.system}\n\n{said}{note}\n"


def folded(desk: Desk, model: Provider) -> Entry:
    """The summary entry after all folds; raises Waiting where a story is missing."""
    agent = Agent(model, tools=desk.tools, engine=CompactionEngine(None))
    session = agent.session
    for number, part in enumerate(desk.parts, 1):
        if isinstance(model, Files):
            model.begin(f"{desk.name}-{number}of{len(desk.parts)}")
        for entry in part:
            session.append(entry)
        before = session.compaction
        list(agent.compact())
        if session.compaction is None or session.compaction is before:
            raise NbchatError(f"{desk.name}: {session.compactions[-1].reason}")
    return session.history[0]


def all_desks(
    folds: Sequence[int], seed: int, only: str = "", *, by_turns: bool = False
) -> Iterator[Desk]:
    """The desks for each number of folds, or one of them."""
    runs = read_trajectories()
    for count in folds:
        desks = desks_of(runs, folds=count, seed=seed, by_turns=by_turns)
        yield from (desk for desk in desks if only in ("", desk.name))


def write(folder: Path, desks: Sequence[Desk], writer: str) -> None:
    """Compact all desks; ask for the stories that are missing."""
    stories = folder / "stories"
    stories.mkdir(parents=True, exist_ok=True)
    model = _writer(writer) if writer else None
    missing: list[str] = []
    for desk in tqdm(desks, "desks", disable=None):
        try:
            folded(desk, Files(stories, model))
        except Waiting as waiting:
            missing.append(str(waiting))
    print(*missing, sep="\n")
    print(f"{len(missing)} stories to write in {stories}" if missing else "all written")


def _writer(name: str) -> Provider:
    return Silent(window=WINDOW) if name == "none" else connect(name)


def contexts(desk: Desk, stories: Path, budget: int | None) -> dict[str, str]:
    """What readers see of a desk, by kind."""
    if budget is None:
        alone = folded(desk, Silent(window=WINDOW))
        found = {"facts": _as_sent(NO_STORY, "\n".join(summary_facts(alone.content)))}
    else:
        found = {"facts": _facts_within(desk, budget)}
    if len(desk.parts) == 1:
        found["full"] = transcript(desk.covered)
    try:
        entry = folded(desk, Files(stories))
    except Waiting as waiting:
        print(f"no story: {waiting}", file=sys.stderr)
    else:
        found["story"] = _as_sent(summary_text(entry.content), "")
        found["both"] = wire_text(entry)
    return found


def _facts_within(desk: Desk, budget: int) -> str:
    """The facts alone, as they are sent, within so many tokens."""
    reading = Reading()
    reading.update(desk.covered, {tool.name: tool for tool in desk.tools})
    for limit in range(budget, 0, -10):
        found = memory_of(reading, Material(), limit, COUNTER.count)
        text = _as_sent(NO_STORY, "\n".join(line.text for line in found.lines))
        if COUNTER.count(text) <= budget:
            return text
    raise NbchatError(f"{desk.name}: no facts fit {budget} tokens")


def _as_sent(story: str, facts: str) -> str:
    parts = [element("summary", story), element("facts", facts)]
    return wire_text(Entry("summary", "\n".join(filter(None, parts))))


def build(
    folder: Path, desks: Sequence[Desk], *, sheets: bool, budget: int | None = None
) -> None:
    """Write the probes, and the answers beside them."""
    answers: dict[str, dict[str, Any]] = {}
    (folder / "stories").mkdir(parents=True, exist_ok=True)
    for desk in desks:
        for kind, context in contexts(desk, folder / "stories", budget).items():
            place = folder / "probes" / f"{kind}-{len(desk.parts)}"
            place.mkdir(parents=True, exist_ok=True)
            for name, probes in _files(desk, is_sheet=sheets):
                text = TASK.format(context=context) + _questions(
                    probes, is_sheet=sheets
                )
                (place / f"{name}.md").write_text(text, encoding="utf-8")
            for probe in desk.probes:
                key = f"{kind}-{len(desk.parts)} {probe.name}"
                answers[key] = _key(probe, context)
    (folder / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
    print(f"{len(answers)} probes in {folder / 'probes'}")


def _key(probe: Probe, context: str) -> dict[str, Any]:
    return {
        "tool": probe.tool,
        "arguments": probe.arguments,
        "remembered": probe.remembered,
        "readable": sum(has_word(context, value) for value in probe.remembered),
        "tokens": COUNTER.count(context),
    }


def _files(desk: Desk, *, is_sheet: bool) -> Iterator[tuple[str, list[Probe]]]:
    """Files with their probes: a sheet has one probe of each thread."""
    if not is_sheet:
        for probe in desk.probes:
            yield probe.name, [probe]
        return
    sheets: dict[int, list[Probe]] = defaultdict(list)
    seen: dict[str, int] = defaultdict(int)
    for probe in desk.probes:
        thread = probe.name.rpartition("-")[0]
        seen[thread] += 1
        sheets[seen[thread]].append(probe)
    for number, probes in sheets.items():
        yield f"{desk.name}-sheet{number}", probes


def _questions(probes: Sequence[Probe], *, is_sheet: bool) -> str:
    asked = [
        ASK.format(
            name=probe.name,
            who=probe.who,
            newest=probe.shown,
            tools=probe.tools,
            tool=probe.tool,
        )
        for probe in probes
    ]
    example = json.dumps({probe.name: {"tool": "..."} for probe in probes[:2]})
    return "\n".join([*asked, SHEET.format(example=example) if is_sheet else ONE])


def answer(folder: Path, reader: str, kinds: Sequence[str]) -> None:
    """Have a model answer the files that have no answer."""
    model = connect(reader)
    files = sorted((folder / "probes").glob("*/*.md"))
    waiting = [
        file
        for file in files
        if (not kinds or file.parent.name in kinds)
        and not file.with_suffix(".answer.json").exists()
    ]
    for file in tqdm(waiting, "probes", disable=None):
        request = Request((Entry("user", file.read_text(encoding="utf-8")),))
        stream = stream_with_retries(model, request)
        try:
            while True:
                next(stream)
        except StopIteration as end:
            text = end.value.text
        except NbchatError as error:
            print(f"{file.name}: {error}", file=sys.stderr)
            continue
        file.with_suffix(".answer.json").write_text(text, encoding="utf-8")


def score(folder: Path) -> None:
    """Print what is right, by kind and number of folds."""
    answers = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    given = _given(folder)
    kinds: dict[str, list[str]] = defaultdict(list)
    for key in answers:
        kinds[key.split()[0]].append(key)
    print(f"{'':12} {'calls right':>14} {'values right':>16} {'readable':>14}  tokens")
    for kind, keys in sorted(kinds.items()):
        right = exact = asked = 0
        for key in keys:
            if key in given:
                probe = _probe(key, answers[key])
                is_exact, count = probe.score(given[key])
                exact, right, asked = exact + is_exact, right + count, asked + 1
        total = sum(len(answers[key]["remembered"]) for key in keys if key in given)
        held = sum(answers[key]["readable"] for key in keys)
        all_values = sum(len(answers[key]["remembered"]) for key in keys)
        tokens = sum(answers[key]["tokens"] for key in keys) / len(keys)
        print(
            f"{kind:12} {exact:3} of {asked:3} {_share(exact, asked)} "
            f"{right:4} of {total:4} {_share(right, total)} "
            f"{_share(held, all_values):>8} of {all_values:3} {tokens:7,.0f}"
        )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:6.1%}" if whole else f"{'-':>6}"


def _probe(key: str, known: dict[str, Any]) -> Probe:
    name = key.split()[1]
    return Probe(
        name,
        "",
        "",
        (),
        known["tool"],
        known["arguments"],
        tuple(known["remembered"]),
        "",
    )


def _given(folder: Path) -> dict[str, Any]:
    """All answers by kind and name; those on sheets are taken apart."""
    found = {}
    for file in (folder / "probes").glob("*/*.answer.json"):
        kind, name = file.parent.name, file.name.removesuffix(".answer.json")
        value = _parsed(file.read_text(encoding="utf-8"))
        if "-sheet" in name:
            each = value if isinstance(value, dict) else {}
            found |= {f"{kind} {probe}": call for probe, call in each.items()}
        else:
            found[f"{kind} {name}"] = value
    return found


def _parsed(text: str) -> Any:
    """The JSON object in an answer, whatever stands around it."""
    found = re.search(r"\{.*\}", text, re.DOTALL)
    try:
        return json.loads(found[0]) if found else None
    except ValueError:
        return None


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=("write", "build", "answer", "score"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--folds", type=int, nargs="+", default=FOLDS)
    parser.add_argument("--writer", default="", help="a model, or none")
    parser.add_argument("--reader", default="", help="a model")
    parser.add_argument("--kinds", nargs="*", default=(), help="such as both-1")
    parser.add_argument("--sheets", action="store_true")
    parser.add_argument("--budget", type=int, help="tokens of facts alone")
    parser.add_argument(
        "--turns", action="store_true", help="each person is answered before the next"
    )
    parser.add_argument("--seed", type=int, default=14, help="chooses the desks")
    parser.add_argument("--desk", default="", help="one of them, such as desk1")
    options = parser.parse_args()
    if options.step in ("write", "build"):
        chosen = options.folds, options.seed, options.desk
        desks = list(all_desks(*chosen, by_turns=options.turns))
    if options.step == "write":
        write(options.folder, desks, options.writer)
    elif options.step == "build":
        build(options.folder, desks, sheets=options.sheets, budget=options.budget)
    elif options.step == "answer":
        answer(options.folder, options.reader, options.kinds)
    else:
        score(options.folder)


if __name__ == "__main__":
    main()
