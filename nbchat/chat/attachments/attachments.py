"""Load what a message mentions as entries: variables, cells, files, images, errors.

Short texts of files and bytes of images are sent unchanged, everything else as a text
of limited size. What looks like a secret is hidden in all texts, unless the
mention begins with `@!`. No code of the user runs to find `df.amount` or `rows[:5]`. If
one thing cannot be loaded, an error says why and nothing is sent.
"""

import ast
import difflib
import io
import json
import mimetypes
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nbchat.chat.attachments.failures import without_colours
from nbchat.chat.attachments.file_preview import TABLE_TOKENS, FileText, file_text
from nbchat.chat.attachments.mentions import Mention, Resolver, mentions
from nbchat.chat.attachments.short_repr import attributes_of, comes_from
from nbchat.chat.attachments.table_preview import table_csv
from nbchat.chat.attachments.value_preview import describe_value, truncated
from nbchat.conversation.entries import TEXT_TYPES, Entry
from nbchat.conversation.live_variables import is_fit, type_name
from nbchat.conversation.pictures import (
    LONGEST_SIDE,
    MOST_BYTES_READ,
    Picture,
    picture_of,
    picture_of_image,
)
from nbchat.conversation.secret_masking import HIDDEN, is_secret_name, without_secrets
from nbchat.errors import AttachmentError
from nbchat.providers.tokens import TokenCounter

REASON_LIMIT = 200
"""Characters shown of an error that matplotlib or PIL raised."""

_BASE = re.compile(r"[^\W\d]\w*")

# Only parts of these are looked up, by literal keys, so that no code of the user runs.
_CONTAINERS = (list, tuple, dict, str, bytes, range)
_TABLES = ("DataFrame", "Series", "ndarray")
_TABLE_PACKAGES = ("pandas", "polars", "numpy")


@dataclass(frozen=True, slots=True)
class Attachment:
    """Something that a message mentions, and the entry that is sent before it."""

    mention: Mention
    entry: Entry
    hidden: int = 0
    """How many secrets were replaced in its text."""
    other: Entry | None = None
    """Its other form: all of a table that is described, or a long text described."""
    is_described: bool = False
    """True if the entry is the description of what the other form has whole."""


def load_attachments(text: str, resolver: Resolver) -> list[Attachment]:
    """Load everything that a message mentions; raises AttachmentError."""
    return load_mentions(mentions(text, resolver), resolver)


def load_mentions(named: Iterable[Mention], resolver: Resolver) -> list[Attachment]:
    """Load what some mentions refer to; raises AttachmentError."""
    found = (load_attachment(mention, resolver) for mention in named)
    return [attachment for attachment in found if attachment]


def load_attachment(mention: Mention, resolver: Resolver) -> Attachment | None:
    """Load what a mention refers to; None if it is not the name of a variable.

    Raises AttachmentError for what is missing, too large or unreadable.
    """
    if mention.kind == "file":
        return _of_file(mention, _path(mention, resolver))
    entry = _LOADERS[mention.kind](mention, resolver)
    if entry is None:
        return None
    whole = _whole_table(mention, resolver) if mention.kind == "variable" else None
    return loaded(mention, entry, whole, is_described=whole is not None)


def loaded(
    mention: Mention,
    entry: Entry,
    other: Entry | None = None,
    *,
    is_described: bool = False,
) -> Attachment:
    """An attachment without the secrets in its text, unless the mention wants them."""
    entry, hidden = _masked(mention, entry)
    if other is not None:
        other, more = _masked(mention, other)
        hidden = max(hidden, more)
    return Attachment(mention, entry, hidden, other, is_described)


def _masked(mention: Mention, entry: Entry) -> tuple[Entry, int]:
    """An entry without secrets, and how many it had."""
    if mention.is_raw or not entry.is_text_file:
        return entry, 0
    text, _ = without_secrets(str(entry.arguments["data"]))
    details = json.dumps({**entry.arguments, "data": text})
    hidden = text.count(HIDDEN)  # also what was hidden for its name alone
    return entry._replace(tool_args=details), hidden


def unknown_names(text: str, resolver: Resolver) -> list[str]:
    """A line for each name in a message that is no variable."""
    named = mentions(text, resolver)
    return list(filter(None, (unknown_name(each, resolver) for each in named)))


def uploaded(name: str, media_type: str, content: bytes) -> Attachment:
    """A file that was dropped or pasted; raises AttachmentError if it is unreadable."""
    mention = Mention("upload", name, name)
    if media_type.startswith("image/"):
        return loaded(mention, image_entry(name, content))
    with TemporaryDirectory() as folder:
        path = Path(folder, Path(name).name or "file")
        path.write_bytes(content)
        return _of_file(mention, path)


def shown_error(output: bytes, resolver: Resolver) -> Attachment:
    """An error that a cell shows, described as the last one is by `@error`.

    `output` is JSON with its `traceback` and the `source` of the cell. Raises
    AttachmentError.
    """
    try:
        shown = json.loads(output)
        report = resolver.error(str(shown["traceback"]), str(shown["source"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise AttachmentError("This error can't be read.") from error
    entry = _text_entry(
        "An error that a cell shows", "error", truncated(without_colours(report))
    )
    return loaded(Mention("upload", "error", "error"), entry)


def unknown_name(mention: Mention, resolver: Resolver) -> str:
    """One line about a name that is no variable; empty if it may be something else."""
    values = resolver.variables()
    if mention.kind != "variable" or not mention.name.isidentifier():
        return ""
    if mention.name in values:  # a module or a function
        return ""
    known = [name for name in values if is_fit(name, values[name])]
    hint = nearest(mention.name, known)
    return f"No variable named {mention.name}{hint}"


def _variable(mention: Mention, resolver: Resolver) -> Entry | None:
    name, values = mention.name, resolver.variables()
    base = _BASE.match(name)
    if base is None or base[0] not in values or not is_fit(base[0], values[base[0]]):
        return None
    value = part_of(name, values)
    if _is_figure(value) or _is_picture(value):
        return _image(mention, resolver)
    text = describe_value(value, is_raw=mention.is_raw)
    if type(value) in (str, int) and is_secret_name(name) and not mention.is_raw:
        text = f"{type(value).__name__}\n{HIDDEN}"
    return _text_entry(f"The variable {name}", name, text)


def _cell(mention: Mention, resolver: Resolver) -> Entry:
    name = mention.name.strip("[]")
    if mention.name and not name.isdecimal():
        raise AttachmentError(f"{mention.text} needs a cell's number, as in @cell:3.")
    number = int(name[:9]) if name else None
    cell = None
    if number is not None and name == mention.name:
        cell = resolver.cell_at(number)
    cell = cell or resolver.cell(number)
    if cell is None:
        which = f"cell {mention.name}" if name else "cell before this one"
        raise AttachmentError(f"No {which} was run in this kernel.")
    output = truncated(without_colours(cell.output)).strip("\n")
    shown = f"\n\nIts output:\n{output}" if output else ""
    run = f"The cell run as [{cell.number}]"
    caption = f"Cell {cell.number} of the notebook" if cell.is_position else run
    name = f"cell {mention.name or cell.number}"
    return _text_entry(caption, name, truncated(cell.source) + shown)


def _error(_mention: Mention, resolver: Resolver) -> Entry:
    report = resolver.error()
    if not report:
        raise AttachmentError("No cell has failed in this kernel yet.")
    return _text_entry("The last error", "error", truncated(without_colours(report)))


def _of_file(mention: Mention, path: Path) -> Attachment:
    """A file's text, with its description or the whole of what is described."""
    found, name = file_text(path), mention.name
    other = found.whole or found.description
    return loaded(
        mention,
        _text_entry(f"The file {name}", name, found.text, _media_type(name, found)),
        _text_entry(f"The file {name}", name, other) if other else None,
        is_described=bool(found.whole),
    )


def _media_type(name: str, found: FileText) -> str:
    guessed = mimetypes.guess_type(name)[0] or ""
    is_own = found.is_whole and guessed.startswith(TEXT_TYPES)
    return guessed if is_own else "text/plain"


def _whole_table(mention: Mention, resolver: Resolver) -> Entry | None:
    """All rows of a table, where they are so many that it is described."""
    value = part_of(mention.name, resolver.variables())
    hides = (lambda _name: False) if mention.is_raw else is_secret_name
    try:
        text = table_csv(value, hides)
    except Exception:  # noqa: BLE001  # a frame may hold user code
        return None
    if len(text) < TABLE_TOKENS or TokenCounter().count(text) < TABLE_TOKENS:
        return None
    return _text_entry(f"The variable {mention.name}", mention.name, text, "text/csv")


def _image(mention: Mention, resolver: Resolver) -> Entry:
    values, base = resolver.variables(), _BASE.match(mention.name)
    is_path = mention.kind == "image" and (resolver.folder / mention.name).is_file()
    if base is not None and base[0] in values and not is_path:
        drawn = _drawn_image(mention, part_of(mention.name, values))
        return drawn.entry(f"The image {mention.name}", mention.name)
    return image_entry(mention.name, _bytes(mention, resolver, MOST_BYTES_READ))


def image_entry(name: str, content: bytes) -> Entry:
    """An image as it is sent; raises AttachmentError for what is no picture."""
    try:
        picture = picture_of(content)
    except ValueError as error:
        raise AttachmentError(f"{name} can't be attached: {error}.") from None
    return picture.entry(f"The image {name}", name)


_LOADERS: dict[str, Callable[[Mention, Resolver], Entry | None]] = {
    "variable": _variable,
    "cell": _cell,
    "image": _image,
    "error": _error,
}


def _path(mention: Mention, resolver: Resolver) -> Path:
    if not mention.name:
        raise AttachmentError(f"@{mention.kind} needs the path of a file.")
    try:
        path = resolver.folder / mention.name
        is_file = path.is_file()
    except (OSError, ValueError) as error:  # ValueError: a null character
        raise AttachmentError(f"{mention.text} can't be read: {error}.") from None
    if not is_file:
        raise AttachmentError(f"There's no file {path.name} in {path.parent}.")
    return path


def _bytes(mention: Mention, resolver: Resolver, limit: int) -> bytes:
    path = _path(mention, resolver)
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise AttachmentError(f"{mention.text} can't be read: {error}.") from None
    if len(content) > limit:
        raise AttachmentError(f"{mention.text} is larger than {limit // 10**6:,} MB.")
    return content


def _drawn_image(mention: Mention, value: object) -> Picture:
    """The picture of a figure or image, at the largest size that a model uses."""
    kind = type(value)
    draw: Callable[[Any], Picture] = picture_of_image
    if _is_figure(value):
        draw = _drawn
    elif not _is_picture(value):
        name = type_name(kind).removeprefix("builtins.")
        raise AttachmentError(
            f"{mention.text} is a {name}, not a matplotlib Figure or a PIL image."
        )
    try:
        return draw(value)
    except Exception as error:  # noqa: BLE001  # a figure runs user code
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:REASON_LIMIT]
        raise AttachmentError(f"{mention.text} can't be drawn: {reason}") from None


def _is_figure(value: object) -> bool:
    return comes_from(type(value), "matplotlib") and hasattr(value, "savefig")


def _is_picture(value: object) -> bool:
    return comes_from(type(value), "PIL") and hasattr(value, "thumbnail")


def _drawn(figure: Any) -> Picture:
    buffer = io.BytesIO()
    longest = max(figure.get_size_inches())
    dpi = min(figure.dpi, LONGEST_SIDE / longest)
    figure.savefig(buffer, format="png", dpi=dpi)
    return picture_of(buffer.getvalue())


def _text_entry(
    caption: str, name: str, text: str, media_type: str = "text/plain"
) -> Entry:
    return _entry("file", caption, name, media_type, text)


def _entry(kind: str, caption: str, name: str, media_type: str, sent: str) -> Entry:
    details = {"media_type": media_type, "name": name, "data": sent}
    return Entry("user", caption, "", kind, json.dumps(details))


def part_of(name: str, values: Mapping[str, object]) -> object:
    """The value of a reference; raises AttachmentError if there is no such part."""
    try:
        return _value(ast.parse(name, mode="eval").body, values)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise AttachmentError(
            f"@{name} can't be read. Use a name, attributes and literal keys, as in "
            '@data["rows"][0].'
        ) from None


def nearest(name: str, names: Iterable[object]) -> str:
    """A hint at the most similar name; empty if none is."""
    found = difflib.get_close_matches(name, map(str, names), n=1)
    return f". Did you mean {found[0]}?" if found else "."


def _value(node: ast.expr, values: Mapping[str, object]) -> object:
    match node:
        case ast.Name(name):
            return values[name]
        case ast.Attribute(inner, name):
            return _attribute(_value(inner, values), name, inner)
        case ast.Subscript(inner, key):
            return _item(_value(inner, values), _key(key), inner)
    raise ValueError


def _attribute(value: Any, name: str, whole: ast.expr) -> object:
    if _is_table(value) and type(value).__name__ == "DataFrame":
        return _item(value, name, whole)
    own = attributes_of(value)
    if name in own:
        return own[name]
    raise AttachmentError(f"{ast.unparse(whole)} has no {name}{nearest(name, own)}")


def _item(value: Any, key: object, whole: ast.expr) -> object:
    if type(value) not in _CONTAINERS and not _is_table(value):
        raise AttachmentError(f"The part {key!r} of this value can't be attached.")
    try:
        return value[key]
    except Exception:  # noqa: BLE001  # pandas raises errors of many kinds
        known = getattr(value, "columns", value if type(value) is dict else ())
        hint = nearest(str(key), list(known)[:1000])
        raise AttachmentError(f"{ast.unparse(whole)} has no {key!r}{hint}") from None


def _key(node: ast.expr) -> object:
    if isinstance(node, ast.Slice):
        parts = (node.lower, node.upper, node.step)
        return slice(
            *(None if each is None else ast.literal_eval(each) for each in parts)
        )
    if isinstance(node, ast.Tuple):
        return tuple(map(_key, node.elts))
    return ast.literal_eval(node)


def _is_table(value: object) -> bool:
    kind = type(value)
    return kind.__name__ in _TABLES and comes_from(kind, *_TABLE_PACKAGES)
