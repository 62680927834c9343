"""How big a text is: token counts that need no network and survive any string.

tiktoken counts; the vocabularies come from the package `bpe-openai`, whose files are
byte-identical to the ones tiktoken would download and are checked by their SHA-256.
"""

import base64
import gzip
import hashlib
import importlib.util
import json
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import tiktoken

from nbchat.conversation.entries import Entry

logger = logging.getLogger(__name__)

CHARACTERS = "characters"
"""The name of no encoding: a token is four characters, and a margin of 20 %."""

ENTRY_OVERHEAD = 4
"""Tokens of role markers around an entry (OpenAI cookbook, token counting: 3 + 1)."""

IMAGE_TOKENS = 1_000
"""A middling picture: OpenAI counts 85 to 1,105 tokens, Anthropic up to 1,600."""

SLICE = 20_000
"""Characters counted at once: tiktoken's regex overflows its stack on a million equal
characters (tiktoken issue 15), and slices cost at most one token each."""

EXACT_LIMIT = 1_000_000
"""Characters; of a longer text, which no window holds, a sample as long as this is
counted, so that any text takes a fifth of a second at most (measured: 0.2 s)."""

REMEMBERED_LIMIT = 20_000_000
"""Characters of entries whose sizes are remembered: the sessions of a day, not a week.
When there are more, all are forgotten and those still in use are counted once more."""

_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Where an encoding's ranks come from; hash and pattern as in tiktoken's source."""

    sha256: str
    pattern: str


# Patterns from tiktoken_ext.openai_public, whose functions would start a download.
VOCABULARIES = {
    "cl100k_base": Vocabulary(
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|"
        r" ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    ),
    "o200k_base": Vocabulary(
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
}


class TokenCounter:
    """Counts tokens of texts and entries, each entry once."""

    def __init__(self, encoding: str = "o200k_base") -> None:
        """Nothing is loaded until the first count."""
        self.encoding = encoding
        self._sizes: dict[Entry, int] = {}
        self._remembered = 0

    def count(self, text: str) -> int:
        """Tokens of any string, a million spaces and lone surrogates included."""
        text = _SURROGATE.sub("\ufffd", text)
        starts = range(0, len(text), SLICE)
        sample = starts[:: -(-len(text) // EXACT_LIMIT) or 1]
        counted = sum(self._count_slice(text[at : at + SLICE]) for at in sample)
        return counted * len(starts) // (len(sample) or 1)

    def count_entry(self, entry: Entry) -> int:
        """Tokens of an entry with its role markers; counted once, then remembered."""
        size = self._sizes.get(entry)
        if size is None:
            size = ENTRY_OVERHEAD + self._count_parts(entry)
            self._remember(entry, size)
        return size

    def count_entries(self, entries: Iterable[Entry]) -> int:
        """Tokens of a run of entries."""
        return sum(map(self.count_entry, entries))

    def estimate_response(self, text: str) -> int:
        """Tokens to expect of an answer: half of what was asked (seed 002)."""
        return self.count(text) // 2

    def _remember(self, entry: Entry, size: int) -> None:
        self._remembered += sum(map(len, entry))
        if self._remembered > REMEMBERED_LIMIT:
            self._sizes.clear()
            self._remembered = sum(map(len, entry))
        self._sizes[entry] = size

    def _count_parts(self, entry: Entry) -> int:
        if entry.is_attachment:
            return self._count_attachment(entry)
        parts = filter(None, (entry.content, entry.tool_name, entry.tool_args))
        return sum(map(self.count, parts))

    def _count_attachment(self, entry: Entry) -> int:
        """What is sent of a picture or a file, with its name, type and size.

        A text goes out whole; of all other files the model learns no more than that.
        """
        size = len(str(entry.arguments.get("data") or ""))
        described = {**entry.arguments, "data": size}
        known = self.count(entry.content) + self.count(json.dumps(described))
        if entry.tool_name == "image":
            return IMAGE_TOKENS + known
        return known + (
            self.count(entry.arguments["data"]) if entry.is_text_file else 0
        )

    def _count_slice(self, text: str) -> int:
        if self._tokenizer is None:
            return len(text) * 3 // 10 + 1  # characters / 4 and a margin of 20 %
        return len(self._tokenizer.encode_ordinary(text))

    @cached_property
    def _tokenizer(self) -> tiktoken.Encoding | None:
        if self.encoding == CHARACTERS:
            return None
        try:
            return load_encoding(self.encoding)
        except (OSError, ValueError, KeyError) as error:
            logger.warning("counting by characters / 4, plus 20 %%: %s", error)
            return None


@cache
def load_encoding(name: str) -> tiktoken.Encoding:
    """Tiktoken's encoding `name` without its download; a third of a second, once.

    Raises KeyError for an unknown name, OSError or ValueError for a missing or changed
    vocabulary file.
    """
    vocabulary = VOCABULARIES[name]
    content = gzip.decompress(_vocabulary_file(name).read_bytes())
    if hashlib.sha256(content).hexdigest() != vocabulary.sha256:
        raise ValueError(f"the vocabulary {name} in bpe-openai is not tiktoken's")
    pairs = (line.split() for line in content.splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
    return tiktoken.Encoding(
        name, pat_str=vocabulary.pattern, mergeable_ranks=ranks, special_tokens={}
    )


def _vocabulary_file(name: str) -> Path:
    spec = importlib.util.find_spec("bpe_openai")  # importing it would cost a second
    if spec is None or spec.origin is None:
        raise OSError("the package bpe-openai is not installed")
    return Path(spec.origin).parent / "data" / f"{name}.tiktoken.gz"
