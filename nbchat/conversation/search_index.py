"""Full-text index of a transcript: BM25 ranking by SQLite's FTS5, in memory.

Entries are indexed at three scales: alone, in blocks of consecutive entries, and in
pairs of neighbouring blocks. A short message says little by itself, a long passage says
a lot besides, so the scores of all three are added. Words are stemmed by Porter's
algorithm (English), accents are ignored, and scripts without spaces are indexed by
pairs of characters.
"""

import json
import re
import sqlite3
import weakref
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from threading import RLock

from nbchat.conversation.entries import Entry

TOOL_NAME = "recall"
"""The tool whose calls and results are not indexed: they repeat what they found."""

BLOCK_WORDS = 200
"""Words of a block; a longer entry is a block by itself. Passages of 150 to 400 words
serve retrieval best (Kaszkiel and Zobel, Passage retrieval revisited, 1997)."""

CANDIDATES = 200
"""Best blocks whose entries and neighbours are scored as well."""

MOST_ROWS = 5_000
"""Blocks scored for a query: the rarest words come first, and words beyond this are
ignored. Matters from about a million tokens on, and bounds the time."""

PART = 500
"""Entries that are indexed at once in the background: some 10 ms."""

ENDING = 2
"""Letters at the end of a word that differ in its other forms, for words of other than
English letters: Porter's algorithm does not stem them."""

MOST_WORDS = 64
"""Words of a query that are looked up."""

SHORTEST_PART = 3
"""Letters of a part of a word such as `first-part`, where the word never occurs."""

SHORTEST_PREFIX, LONGEST_PREFIX = 4, 40
"""Letters with which another word may begin, where the word never occurs."""

SCALES = ("entry", "block", "pair")

_CREATE, _INSERT, _DELETE, _SCORES = (
    {scale: sql.replace("SCALE", scale) for scale in SCALES}
    for sql in (
        # Contentless: SQLite keeps the words and not the texts.
        'CREATE VIRTUAL TABLE SCALE USING fts5(text, content="", tokenize="TOKENIZER")',
        "INSERT INTO SCALE(rowid, text) VALUES (?, ?)",
        "INSERT INTO SCALE(SCALE, rowid, text) VALUES ('delete', ?, ?)",
        # The unary plus makes SQLite score these rows only.
        """SELECT rowid, -bm25(SCALE) FROM SCALE WHERE SCALE MATCH ?
        AND +rowid IN (SELECT value FROM json_each(?))""",
    )
)
_RANKED = "SELECT rowid, -bm25(block) FROM block WHERE block MATCH ? ORDER BY rank"
_COUNT = "SELECT count(*) FROM (SELECT 1 FROM block WHERE block MATCH ? LIMIT ?)"
_NEWEST = "SELECT rowid FROM entry WHERE entry MATCH ? ORDER BY rowid DESC"

_TOKENIZER = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\uac00-\ud7af"  # Hangul has spaces, and endings that differ
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")

_APOSTROPHE = re.compile("['\u2019\x00]")
"""Between words, as in `Ann's` and `l'heure`; other signs join parts of one word."""

_SEPARATORS = re.compile(r"[\x00-/:-@\[-`{-\x7f]+")
"""ASCII characters between words."""


@dataclass(frozen=True, slots=True)
class Match:
    """An entry that matches a query, and the passage around it."""

    position: int
    passage: range
    """Positions of the block with the match and of the next block."""
    score: float


class SearchIndex:
    """The index of one transcript; created empty, filled by `fill` or the first search.

    `update` adds what is new. Safe for threads.
    """

    def __init__(self) -> None:
        """Create no database yet: most sessions are never searched."""
        self._lock = RLock()
        self._clear()

    def _clear(self) -> None:
        self._database: sqlite3.Connection | None = None
        self._length = 0
        self._starts: list[int] = []
        """Position at which each block begins."""
        self._last: list[str] = []
        """Texts of the last two blocks, whose rows still change."""
        self._last_words = 0

    def __deepcopy__(self, _memo: object) -> "SearchIndex":
        """An empty index: the copy's first search fills it."""
        return SearchIndex()

    def __reduce__(self) -> tuple[type["SearchIndex"], tuple[()]]:
        """Pickled empty, as it is copied."""
        return SearchIndex, ()

    def search(
        self,
        entries: Sequence[Entry],
        query: str,
        *,
        among: Collection[int] | None = None,
        thinking: bool = False,
    ) -> list[Match]:
        """Entries that contain any word of a query, best first.

        `entries` are those of earlier calls and any new ones. `among` limits the
        positions; `thinking` includes the model's thinking.
        """
        with self._lock:
            self._update(entries)
            terms = self._terms(query)
            if not terms:
                return []
            blocks = self._best_blocks(terms, among)
            return self._matches(entries, terms, blocks, among, thinking=thinking)

    def fill(self, entries: Sequence[Entry]) -> None:
        """Index entries before the first search, which then has none to wait for.

        In small parts: a search that comes meanwhile adds the rest itself.
        """
        for stop in range(PART, len(entries) + PART, PART):
            with self._lock:
                self._update(entries, stop)

    def containing(self, phrase: str) -> Iterator[int]:
        """Positions of entries with these words in a row, newest first."""
        with self._lock:
            query = _quoted(_prepared(phrase))
            try:
                rows = self._rows(_NEWEST, query)
            except sqlite3.OperationalError:  # no word
                rows = []
        return (row[0] for row in rows)

    def passage(self, position: int) -> range:
        """Positions of the block that contains an entry, and of the next one."""
        block = bisect_right(self._starts, position) - 1
        return self._passage(block)

    def _block(self, block: int) -> range:
        return self._passage(block, blocks=1)

    def _passage(self, block: int, *, blocks: int = 2) -> range:
        after = block + blocks
        is_last = after >= len(self._starts)
        stop = self._length if is_last else self._starts[after]
        return range(self._starts[block], stop)

    def _update(self, entries: Sequence[Entry], stop: int | None = None) -> None:
        """Index the entries beyond those known; an interrupted index starts over."""
        new = entries[self._length : len(entries) if stop is None else stop]
        if not new:
            return
        try:
            with self._opened():
                self._add(new)
        except BaseException:
            self._clear()
            raise

    def _add(self, new: Sequence[Entry]) -> None:
        first = max(len(self._starts) - 2, 0)
        old = self._last.copy()
        texts = old.copy()
        for entry in new:
            text = indexed_text(entry)
            size = text.count(" ") + 1 if text else 0
            full = self._last_words and self._last_words + size > BLOCK_WORDS
            if full or not self._starts:
                self._starts.append(self._length)
                self._last_words = 0
                texts.append("")
            self._last_words += size
            texts[-1] = f"{texts[-1]} {text}" if texts[-1] else text
            self._execute(_INSERT["entry"], self._length, text)
            self._length += 1
        self._replace_rows(first, old, texts)
        self._last = texts[-2:]

    def _replace_rows(self, first: int, old: list[str], texts: list[str]) -> None:
        """Write the blocks and pairs from block `first` on; `old` were there."""
        for scale, before, after in (
            ("block", old, texts),
            ("pair", _pairs(old), _pairs(texts)),
        ):
            for row, text in enumerate(before, first):
                self._execute(_DELETE[scale], row, text)
            for row, text in enumerate(after, first):
                self._execute(_INSERT[scale], row, text)

    def _terms(self, query: str) -> list[str]:
        """FTS5 expressions for the words of a query that occur, rarest first."""
        counted = (
            (self._count(term), term)
            for word in words_of(query)[:MOST_WORDS]
            for term in self._forms(word)
        )
        rarest: list[str] = []
        total = 0
        for count, term in sorted(dict.fromkeys(counted)):
            total += count
            if rarest and total > MOST_ROWS:
                break
            rarest.append(term)
        return rarest

    def _forms(self, word: str) -> Iterator[str]:
        """A word as a term and its other forms.

        If it never occurs, its parts, or the longest beginning with which others begin.
        """
        term = _quoted(word)
        if len(word) == 1 and _UNSPACED_RUN.match(word):
            term += " *"  # each character begins a pair
        if self._count(term):
            yield term
            if len(word) > SHORTEST_PREFIX and not word.isascii():
                yield f"{_quoted(word[: max(len(word) - ENDING, SHORTEST_PREFIX)])} *"
            return
        parts = [each for each in _SEPARATORS.split(word) if len(each) >= SHORTEST_PART]
        if len(parts) > 1:
            yield from filter(self._count, map(_quoted, parts))
            return
        if any(map(str.isdigit, word)):
            return  # an id that begins alike is another id
        shortest = max(SHORTEST_PREFIX, len(word) * 2 // 3)
        for length in range(min(len(word), LONGEST_PREFIX), shortest - 1, -1):
            if self._count(term := f"{_quoted(word[:length])} *"):
                yield term
                return

    def _count(self, term: str) -> int:
        """The number of blocks with a term, counted up to the limit."""
        return int(self._rows(_COUNT, term, MOST_ROWS + 1)[0][0])

    def _best_blocks(
        self, terms: Sequence[str], among: Collection[int] | None
    ) -> dict[int, float]:
        """Scores of the best blocks with an entry that may be found."""
        best: dict[int, float] = {}
        with closing(self._cursor(_RANKED, " OR ".join(terms))) as rows:
            for block, score in rows:
                if among is None or any(each in among for each in self._block(block)):
                    best[block] = score
                if len(best) >= CANDIDATES:
                    break
        return best

    def _matches(
        self,
        entries: Sequence[Entry],
        terms: Sequence[str],
        blocks: dict[int, float],
        among: Collection[int] | None,
        *,
        thinking: bool,
    ) -> list[Match]:
        block_of = {each: block for block in blocks for each in self._block(block)}
        pairs = self._scores("pair", terms, blocks)
        found = [
            Match(
                position,
                self._passage(block_of[position]),
                score + blocks[block_of[position]] + pairs.get(block_of[position], 0),
            )
            for position, score in self._scores("entry", terms, block_of).items()
            if (among is None or position in among)
            and (thinking or entries[position].role != "thinking")
        ]
        return sorted(found, key=lambda match: (-match.score, -match.position))

    def _scores(
        self, scale: str, terms: Sequence[str], rows: Collection[int]
    ) -> dict[int, float]:
        """BM25 scores of some rows of a scale."""
        query = " OR ".join(terms)
        return dict(self._rows(_SCORES[scale], query, json.dumps([*rows])))

    def _rows(self, sql: str, *values: object) -> list[tuple[int, float]]:
        with closing(self._cursor(sql, *values)) as rows:
            return rows.fetchall()

    def _execute(self, sql: str, *values: object) -> None:
        self._cursor(sql, *values).close()

    def _cursor(self, sql: str, *values: object) -> sqlite3.Cursor:
        return self._opened().execute(sql, values)

    def _opened(self) -> sqlite3.Connection:
        """The database, which is closed when the index is collected."""
        if self._database is None:
            self._database = _database()
            weakref.finalize(self, self._database.close)
        return self._database


def entry_text(entry: Entry) -> str:
    """The text of an entry; of a call its arguments, of an attachment its content."""
    if entry.is_attachment:
        return entry.attachment_text
    return entry.tool_args if entry.is_call else entry.content


def _database() -> sqlite3.Connection:
    """An empty index."""
    database = sqlite3.connect(":memory:", check_same_thread=False)
    for sql in _CREATE.values():
        database.execute(sql.replace("TOKENIZER", _TOKENIZER))
    return database


def indexed_text(entry: Entry) -> str:
    """The indexed text of an entry: nothing of an earlier recall."""
    if entry.tool_name == TOOL_NAME:
        return ""
    return _prepared(f"{entry.tool_name} {entry_text(entry)}")


def _prepared(text: str) -> str:
    """A text for FTS5, with unspaced scripts as pairs of characters.

    The last character of a run is alone, so that every character begins a word.
    """
    text = text.replace("\x00", " ")
    if not text.isascii():
        text = text.encode(errors="replace").decode()  # no lone surrogates
        text = _UNSPACED_RUN.sub(lambda run: f" {_bigrams(run[0])} ", text)
    return " ".join(text.split())


def _bigrams(run: str) -> str:
    return " ".join(run[index : index + 2] for index in range(len(run)))


def _pairs(texts: Sequence[str]) -> list[str]:
    """Each text with the next one."""
    return [" ".join(texts[index : index + 2]) for index in range(len(texts))]


def words_of(query: str) -> list[str]:
    """The words of a query that have a letter or digit, without repetitions."""
    text = _APOSTROPHE.sub(" ", query).encode(errors="replace").decode()
    runs = (run[0] for run in _UNSPACED_RUN.finditer(text))
    bigrams = (
        [run[index : index + 2] for index in range(max(len(run) - 1, 1))]
        for run in runs
    )
    words = _UNSPACED_RUN.sub(" ", text.casefold()).split()
    found = chain(words, chain.from_iterable(bigrams))
    return list(dict.fromkeys(each for each in found if any(map(str.isalnum, each))))


def _quoted(word: str) -> str:
    return '"' + word.replace('"', " ") + '"'
