"""Count the tokens of any text, without a network.

Uses tiktoken with the vocabularies of the package `bpe-openai`. Their files are
byte-identical to those that tiktoken would download, and checked by their SHA-256.
"""

import gzip
import hashlib
import importlib.util
import json
import logging
import re
from binascii import a2b_base64
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path

import tiktoken

from nbchat.conversation.entries import Entry

logger = logging.getLogger(__name__)

CHARACTERS = "characters"
"""Instead of an encoding: four characters for each token, plus 20 %."""

TOKEN_BYTES = 4
"""Bytes of a token, on average. Exact counts need a vocabulary, which takes 78 MB."""

ENTRY_OVERHEAD = 4
"""Tokens of an entry's role markers (OpenAI cookbook, token counting: 3 + 1)."""

IMAGE_TOKENS = 1_000
"""A medium image: OpenAI counts 85 to 1,105 tokens, Anthropic up to 1,600."""

ENCRYPTED_CHARACTERS = 5
"""Characters of encrypted thinking for each token: base64 writes three bytes in four
characters, and a token of English has about four."""

SLICE = 20_000
"""Characters counted at once: tiktoken's regex overflows its stack on a million equal
characters (tiktoken issue 15), and slices cost at most one token each."""

EXACT_LIMIT = 1_000_000
"""Characters that are all counted, in 0.2 s (measured); of a longer text, which fits no
window, only a sample of this length."""

MOST_CACHED = 200_000
"""Entries whose sizes are cached, in 20 MB. At the limit the cache is cleared."""

SPARE_SIZES = 1_000
"""Sizes of other entries that are kept besides those of a history."""

CACHED_TEXTS, LONGEST_CACHED = 2_000, 2_000
"""Texts whose sizes are cached, and characters of the longest: a compaction counts each
line and message several times, to see what fits."""

_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Hash and pattern of an encoding, as in tiktoken's source."""

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


def _encoding_of(name: str) -> str:
    """The encoding of a model of OpenAI's; any other name as it is."""
    if name in VOCABULARIES:
        return name
    try:
        return tiktoken.encoding_name_for_model(name)
    except KeyError:
        return name


class TokenCounter:
    """Counts tokens of texts and entries; the sizes of entries are cached."""

    def __init__(self, encoding: str = "o200k_base") -> None:
        """Load nothing until the first count.

        `encoding` may be the name of one of OpenAI's models instead, such as "gpt-4".
        """
        self.encoding = _encoding_of(encoding)
        self._sizes: dict[int, int] = {}
        """By hash: the cache keeps no text that nothing else keeps."""

    def __reduce__(self) -> tuple[type["TokenCounter"], tuple[str]]:
        """Copied and pickled without the vocabulary and the sizes.

        Another process has other hashes.
        """
        return type(self), (self.encoding,)

    def count(self, text: str) -> int:
        """Tokens of any string, even of a million spaces or with lone surrogates."""
        if not text.isascii():
            text = _SURROGATE.sub("\ufffd", text)
        if 0 < len(text) <= SLICE:
            return self._count_slice(text)
        starts = range(0, len(text), SLICE)
        sample = starts[:: -(-len(text) // EXACT_LIMIT) or 1]
        counted = sum(self._count_slice(text[at : at + SLICE]) for at in sample)
        return counted * len(starts) // (len(sample) or 1)

    def count_entry(self, entry: Entry) -> int:
        """Tokens of an entry with its role markers; cached."""
        key = hash(entry)
        size = self._sizes.get(key)
        if size is None:
            size = self.count_entry_once(entry)
            if len(self._sizes) >= MOST_CACHED:
                self._sizes.clear()
            self._sizes[key] = size
        return size

    @property
    def is_loaded(self) -> bool:
        """True if a count loads nothing: a vocabulary takes 78 MB."""
        return self.encoding == CHARACTERS or "_tokenizer" in vars(self)

    def keep(self, history: Collection[Entry]) -> None:
        """Drop the sizes of all others once they are many, as of what was compacted."""
        sizes = self._sizes
        if len(sizes) > 2 * len(history) + SPARE_SIZES:
            found = ((key, sizes.get(key)) for key in map(hash, history))
            self._sizes = {key: size for key, size in found if size is not None}

    def count_entry_once(self, entry: Entry) -> int:
        """As `count_entry`, of an entry that will not be counted again."""
        size = self._count_parts(entry)
        return size + (ENTRY_OVERHEAD if size or entry.role != "thinking" else 0)

    def count_entries(self, entries: Iterable[Entry]) -> int:
        """Tokens of several entries."""
        return sum(map(self.count_entry, entries))

    def estimate_response(self, text: str) -> int:
        """Tokens to expect in a reply: half of those in the question."""
        return self.count(text) // 2

    def _count_parts(self, entry: Entry) -> int:
        if entry.is_attachment:
            return self._count_attachment(entry)
        if entry.role == "thinking":
            return self._count_thinking(entry)
        # Who wrote a message and where parts were pasted is not sent.
        if entry.is_prompt or entry.is_by_nbchat:
            return self.count(entry.content)
        parts = filter(None, (entry.content, entry.tool_name, entry.tool_args))
        return sum(map(self.count, parts))

    def _count_thinking(self, entry: Entry) -> int:
        """Tokens of thinking that is sent back: as text, or as encrypted content."""
        block = entry.arguments
        encrypted = block.get("encrypted_content") or block.get("data")
        if encrypted:
            return len(str(encrypted)) // ENCRYPTED_CHARACTERS
        return self.count(entry.content) if block.get("signature") else 0

    def _count_attachment(self, entry: Entry) -> int:
        """Tokens of an attachment: name, type and size, and the text of text files."""
        size = len(str(entry.arguments.get("data") or ""))
        metadata = {**entry.arguments, "data": size}
        known = self.count(entry.content) + self.count(json.dumps(metadata))
        if entry.tool_name == "image":
            return IMAGE_TOKENS + known
        return known + (
            self.count(entry.arguments["data"]) if entry.is_text_file else 0
        )

    def _count_slice(self, text: str) -> int:
        if self._tokenizer is None:
            return len(text) * 3 // 10 + 1  # characters / 4 and a margin of 20 %
        if len(text) > LONGEST_CACHED:
            return len(self._tokenizer.encode_ordinary(text))
        return _short_size(self._tokenizer, text)

    @cached_property
    def _tokenizer(self) -> tiktoken.Encoding | None:
        if self.encoding == CHARACTERS:
            return None
        try:
            return load_encoding(self.encoding)
        except (OSError, ValueError, KeyError) as error:
            logger.warning("Estimating tokens as characters / 4 plus 20 %%: %s", error)
            return None


def most_tokens(text: str) -> int:
    """An upper bound of a count, without a vocabulary: a token is at least a byte."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def most_tokens_of(entry: Entry) -> int:
    """`most_tokens` of an entry, and a picture's where it is one."""
    parts = (entry.content, entry.tool_name, entry.tool_args)
    picture = IMAGE_TOKENS if entry.is_attachment else 0
    return sum(map(most_tokens, parts)) + ENTRY_OVERHEAD + picture


@dataclass(frozen=True, slots=True)
class Uncounted:
    """Tokens of texts that are counted when the number matters."""

    texts: tuple[str, ...]
    counter: TokenCounter = field(compare=False)

    @property
    def tokens(self) -> int:
        """The exact number."""
        return sum(map(self.counter.count, self.texts))

    @property
    def most(self) -> int:
        """A number that it does not exceed."""
        return sum(map(most_tokens, self.texts))

    def near(self, *limits: int | None) -> int:
        """The exact number; 0 where it is certainly below all limits."""
        known = [each for each in limits if each is not None]
        return self.tokens if known and self.most >= min(known) else 0


@lru_cache(CACHED_TEXTS)
def _short_size(tokenizer: tiktoken.Encoding, text: str) -> int:
    return len(tokenizer.encode_ordinary(text))


@cache
def load_encoding(name: str) -> tiktoken.Encoding:
    """Load tiktoken's encoding `name` without its download, in a third of a second.

    Raises KeyError for an unknown name, OSError or ValueError for a missing or changed
    vocabulary file.
    """
    vocabulary = VOCABULARIES[name]
    content = gzip.decompress(_vocabulary_file(name).read_bytes())
    if hashlib.sha256(content).hexdigest() != vocabulary.sha256:
        raise ValueError(f"the vocabulary {name} in bpe-openai is not tiktoken's")
    words = content.split()  # a line is a token in base64 and its rank
    ranks = dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))
    return tiktoken.Encoding(
        name, pat_str=vocabulary.pattern, mergeable_ranks=ranks, special_tokens={}
    )


def _vocabulary_file(name: str) -> Path:
    spec = importlib.util.find_spec("bpe_openai")  # importing it would cost a second
    if spec is None or spec.origin is None:
        raise OSError("bpe-openai is not installed; run: pip install bpe-openai")
    return Path(spec.origin).parent / "data" / f"{name}.tiktoken.gz"
