"""What is kept of search results: of each hit its title, its address and a snippet."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from nbchat.compaction.pruning.json_outline import outline
from nbchat.compaction.truncation import within
from nbchat.providers.tokens import TokenCounter

SNIPPET_LENGTH, TITLE_LENGTH = 160, 120

HITS_TOKENS, REST_TOKENS = 600, 60
"""Room for the hits of one search, some ten of them, and for what stands beside."""

TITLE_KEYS = ("title", "name", "headline")
URL_KEYS = ("url", "link", "href", "uri")
SNIPPET_KEYS = (
    *("snippet", "description", "summary", "excerpt", "abstract"),
    *("text", "content", "body"),
)

LINE_LIMIT = 300
"""Characters of a line in which an address is looked for."""

_ADDRESS = re.compile(
    r"[-*\d.\s]*(?:(?:url|link|source|href)\s?[:=]\s?)?<?(https?://[^\s>]+)>?\s?",
    re.IGNORECASE,
)
_LINKED_TITLE = re.compile(r"[-*#\d.\s]*\[([^\]]+)\]\((https?://[^)\s]+)\)\s?")
_LABEL = re.compile(r"[-*#\d.)\s]*(?:title\s?:\s?)?", re.IGNORECASE)


class Hit(NamedTuple):
    """One search result."""

    title: str
    url: str
    snippet: str


def shortened_value(
    value: dict[str, Any] | list[Any], counter: TokenCounter, *, is_search: bool
) -> str | None:
    """The hits of a JSON answer; None when it is no list of hits.

    A hit has a title and an address; of a tool that searches, a title and a text.
    """
    items, rest = _items(value)
    hits = [_hit(item, is_search=is_search) for item in items]
    found = [hit for hit in hits if hit is not None]
    if not found or len(found) < len(hits):
        return None
    head = [outline(rest, REST_TOKENS, counter)] if rest else []
    return "\n".join([*head, *_lines(found, counter)])


def shortened_text(text: str, counter: TokenCounter) -> str | None:
    """The hits of a text, in blocks with an address line each; None if it has none."""
    blocks = list(_blocks(text))
    hits = [hit for hit in map(_block_hit, blocks) if hit is not None]
    if len(hits) < 2 or len(hits) * 2 < len(blocks):  # noqa: PLR2004  # one is a page
        return None
    return "\n".join(_lines(hits, counter))


def _items(value: dict[str, Any] | list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The longest list of an answer, and what stands beside it."""
    if isinstance(value, list):
        return value, {}
    lists = {key: inner for key, inner in value.items() if isinstance(inner, list)}
    longest = max(lists, key=lambda key: len(lists[key]), default=None)
    if longest is None:
        return [], value
    rest = {key: inner for key, inner in value.items() if key != longest}
    return lists[longest], rest


def _hit(item: Any, *, is_search: bool) -> Hit | None:
    if not isinstance(item, dict):
        return None
    hit = Hit(*(_field(item, keys) for keys in (TITLE_KEYS, URL_KEYS, SNIPPET_KEYS)))
    is_page = hit.url.startswith(("http://", "https://"))
    is_text = is_search and bool(hit.snippet)
    if not hit.title or not (is_page or is_text):
        return None
    number = item.get("id")
    named = isinstance(number, str) and len(number) <= TITLE_LENGTH
    return hit._replace(title=f"{hit.title} (id {number})") if named else hit


def _field(item: dict[str, Any], keys: Sequence[str]) -> str:
    return next((item[key] for key in keys if isinstance(item.get(key), str)), "")


def _blocks(text: str) -> Iterator[list[str]]:
    """Runs of lines between blank ones."""
    block: list[str] = []
    for line in text.splitlines():
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _block_hit(block: Sequence[str]) -> Hit | None:
    """The hit of a block that has a line with nothing but an address, or a link."""
    for place, line in enumerate(block):
        if len(line) > LINE_LIMIT:
            continue
        others = [*block[:place], *block[place + 1 :]]
        if linked := _LINKED_TITLE.fullmatch(line):
            return Hit(linked[1], linked[2], " ".join(others))
        if (address := _ADDRESS.fullmatch(line)) and others:
            title = others[0][: LINE_LIMIT + TITLE_LENGTH]
            return Hit(_LABEL.sub("", title, count=1), address[1], " ".join(others[1:]))
    return None


def _lines(hits: Sequence[Hit], counter: TokenCounter) -> list[str]:
    drawn = [f"{number}. {_drawn(hit)}" for number, hit in enumerate(hits, 1)]
    kept = within(drawn, HITS_TOKENS, counter.count)
    missing = len(drawn) - len(kept)
    return [*kept, f"[{missing:,} more hits]"] if missing else kept


def _drawn(hit: Hit) -> str:
    parts = (
        _clipped(hit.title, TITLE_LENGTH),
        hit.url[:LINE_LIMIT],
        _clipped(hit.snippet, SNIPPET_LENGTH),
    )
    return "\n   ".join(filter(None, parts))


def _clipped(text: str, limit: int) -> str:
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
