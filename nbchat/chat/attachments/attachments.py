"""What a message brings along: each thing it points at, as an entry the model reads.

A file's text and a picture's bytes go out as they are, everything else as a text of a
bounded size. What cannot be had is said in one line, and then nothing is sent.
"""

import base64
import io
import json
import mimetypes
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nbchat.chat.attachments.mentions import Mention, Resolver, mentions
from nbchat.chat.attachments.value_preview import (
    capped,
    comes_from,
    described,
    is_secret_name,
)
from nbchat.conversation.entries import TEXT_TYPES, Entry
from nbchat.conversation.namespace import is_fit, type_name
from nbchat.errors import AttachmentError

FILE_LIMIT_BYTES = 200_000
"""About 50,000 tokens: more than that is searched, not read."""

IMAGE_LIMIT_BYTES = 3_750_000
"""Anthropic takes 5 MB of base64, which is a third more than the bytes."""

IMAGE_LIMIT_PIXELS = 1_568
"""Of the longer side: Anthropic makes larger pictures smaller than that."""

REASON_LIMIT = 200
"""Characters of what somebody else's code says went wrong."""

_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")


@dataclass(frozen=True, slots=True)
class Attachment:
    """Something a message points at, and the entry that goes out before its words."""

    mention: Mention
    entry: Entry


def attachments(text: str, resolver: Resolver) -> list[Attachment]:
    """All that a message brings along; raises AttachmentError for what is missing."""
    found = ((mention, attached(mention, resolver)) for mention in mentions(text))
    return [Attachment(mention, entry) for mention, entry in found if entry]


def attached(mention: Mention, resolver: Resolver) -> Entry | None:
    """What a mention stands for; None for a word that is no variable's name.

    Raises AttachmentError for what is missing, refused, too large or cannot be read.
    """
    return _MAKERS[mention.kind](mention, resolver)


def _variable(mention: Mention, resolver: Resolver) -> Entry | None:
    name = mention.name
    values = resolver.variables()
    if name not in values or not is_fit(name, values[name]):
        return None
    return _text_entry(
        f"The variable {name}", name, described(_open(name, values[name]))
    )


def _cell(mention: Mention, resolver: Resolver) -> Entry:
    is_number = mention.name.isdecimal()
    if mention.name and not is_number:
        raise AttachmentError(f"{mention.text}: a cell has a number, as in @cell:3")
    cell = resolver.cell(int(mention.name[:9]) if is_number else None)
    if cell is None:
        which = f"cell {mention.name}" if is_number else "cell before this one"
        raise AttachmentError(f"{mention.text}: no {which} was run in this kernel")
    output = capped(_plain(cell.output)).strip("\n")
    shown = f"\n\nIts output:\n{output}" if output else ""
    caption = f"Cell {cell.number} of the notebook"
    return _text_entry(caption, f"cell {cell.number}", capped(cell.source) + shown)


def _error(mention: Mention, resolver: Resolver) -> Entry:
    traceback = resolver.error()
    if not traceback:
        raise AttachmentError(f"{mention.text}: nothing has failed in this kernel yet")
    return _text_entry("The last error", "error", capped(_plain(traceback)))


def _file(mention: Mention, resolver: Resolver) -> Entry:
    content = _bytes(mention, resolver, FILE_LIMIT_BYTES)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise AttachmentError(f"{mention.text} is not a text file; it was not attached")
    guessed = mimetypes.guess_type(mention.name)[0] or ""
    media_type = guessed if guessed.startswith(TEXT_TYPES) else "text/plain"
    return _text_entry(f"The file {mention.name}", mention.name, text, media_type)


def _image(mention: Mention, resolver: Resolver) -> Entry:
    values = resolver.variables()
    if mention.name in values:
        content = _picture(mention, _open(mention.name, values[mention.name]))
    else:
        content = _bytes(mention, resolver, IMAGE_LIMIT_BYTES)
    known = (kind for start, kind in _SIGNATURES.items() if content.startswith(start))
    media_type = next(known, None)
    if media_type is None:
        raise AttachmentError(f"{mention.text} is no PNG or JPEG picture")
    if len(content) > IMAGE_LIMIT_BYTES:
        raise AttachmentError(f"{mention.text} is too large a picture to send")
    sent = base64.b64encode(content).decode("ascii")
    return _entry(
        "image", f"The picture {mention.name}", mention.name, media_type, sent
    )


_MAKERS: dict[str, Callable[[Mention, Resolver], Entry | None]] = {
    "variable": _variable,
    "cell": _cell,
    "file": _file,
    "image": _image,
    "error": _error,
}


def _open(name: str, value: object) -> object:
    """The value, unless its name says that it may be a secret."""
    if is_secret_name(name):
        raise AttachmentError(
            f"@{name} was not attached: a variable of that name may hold a secret"
        )
    return value


def _bytes(mention: Mention, resolver: Resolver, limit: int) -> bytes:
    if not mention.name:
        raise AttachmentError(f"{mention.text} names no file")
    try:
        path = resolver.folder / mention.name
        if not path.is_file():
            raise AttachmentError(
                f"{mention.text}: there is no such file in {path.parent}"
            )
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:  # a path with a null character, too
        raise AttachmentError(f"{mention.text} cannot be read: {error}") from None
    if len(content) > limit:
        raise AttachmentError(f"{mention.text} is larger than {limit:,} bytes")
    return content


def _picture(mention: Mention, value: object) -> bytes:
    """A figure or a picture as it is sent, no larger than a model looks at."""
    kind = type(value)
    draw: Callable[[Any], bytes] = _reduced
    if comes_from(kind, "matplotlib") and hasattr(value, "savefig"):
        draw = _drawn
    elif not (comes_from(kind, "PIL") and hasattr(value, "thumbnail")):
        name = type_name(kind).removeprefix("builtins.")
        raise AttachmentError(
            f"{mention.text} is a {name}, no matplotlib Figure and no PIL image"
        )
    try:
        return draw(value)
    except Exception as error:  # noqa: BLE001  # what is in a figure is the person's
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:REASON_LIMIT]
        raise AttachmentError(f"{mention.text} cannot be drawn: {reason}") from None


def _drawn(figure: Any) -> bytes:
    buffer = io.BytesIO()
    longest = max(figure.get_size_inches())
    dpi = min(figure.dpi, IMAGE_LIMIT_PIXELS / longest)
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def _reduced(picture: Any) -> bytes:
    """A PNG; of a photograph that makes too large a one, a JPEG."""
    small = picture.convert("RGBA" if "A" in picture.getbands() else "RGB")
    small.thumbnail((IMAGE_LIMIT_PIXELS, IMAGE_LIMIT_PIXELS))
    buffer = io.BytesIO()
    small.save(buffer, "PNG")
    if buffer.tell() > IMAGE_LIMIT_BYTES:
        buffer = io.BytesIO()
        small.convert("RGB").save(buffer, "JPEG")
    return buffer.getvalue()


def _text_entry(
    caption: str, name: str, text: str, media_type: str = "text/plain"
) -> Entry:
    return _entry("file", caption, name, media_type, text)


def _entry(tool: str, caption: str, name: str, media_type: str, sent: str) -> Entry:
    details = {"media_type": media_type, "name": name, "data": sent}
    return Entry("user", caption, "", tool, json.dumps(details))


def _plain(text: str) -> str:
    """A text without the codes that colour it in a terminal."""
    return _COLOURS.sub("", text)
