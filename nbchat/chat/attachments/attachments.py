"""Load what a message mentions as entries: variables, cells, files, images, errors.

Texts of files and bytes of images are sent unchanged, everything else as a text of
limited size. If one thing cannot be loaded, an error says why and nothing is sent.
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
    comes_from,
    describe_value,
    is_secret_name,
    truncated,
)
from nbchat.conversation.entries import TEXT_TYPES, Entry
from nbchat.conversation.live_variables import is_fit, type_name
from nbchat.errors import AttachmentError

FILE_LIMIT_BYTES = 200_000
"""About 50,000 tokens."""

IMAGE_LIMIT_BYTES = 3_750_000
"""Anthropic accepts 5 MB of base64, which is a third longer than the bytes."""

IMAGE_LIMIT_PIXELS = 1_568
"""Of the longer side: Anthropic scales larger images down to it."""

REASON_LIMIT = 200
"""Characters shown of an error that matplotlib or PIL raised."""

_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")


@dataclass(frozen=True, slots=True)
class Attachment:
    """Something that a message mentions, and the entry that is sent before it."""

    mention: Mention
    entry: Entry


def load_attachments(text: str, resolver: Resolver) -> list[Attachment]:
    """Load everything that a message mentions; raises AttachmentError."""
    found = (
        (mention, load_attachment(mention, resolver)) for mention in mentions(text)
    )
    return [Attachment(mention, entry) for mention, entry in found if entry]


def load_attachment(mention: Mention, resolver: Resolver) -> Entry | None:
    """Load what a mention refers to; None if it is not the name of a variable.

    Raises AttachmentError for what is missing, secret, too large or unreadable.
    """
    return _LOADERS[mention.kind](mention, resolver)


def _variable(mention: Mention, resolver: Resolver) -> Entry | None:
    name = mention.name
    values = resolver.variables()
    if name not in values or not is_fit(name, values[name]):
        return None
    return _text_entry(
        f"The variable {name}", name, describe_value(_checked(name, values[name]))
    )


def _cell(mention: Mention, resolver: Resolver) -> Entry:
    is_number = mention.name.isdecimal()
    if mention.name and not is_number:
        raise AttachmentError(f"{mention.text}: give a cell by number, as in @cell:3")
    cell = resolver.cell(int(mention.name[:9]) if is_number else None)
    if cell is None:
        which = f"cell {mention.name}" if is_number else "cell before this one"
        raise AttachmentError(f"{mention.text}: no {which} was run in this kernel")
    output = truncated(_plain(cell.output)).strip("\n")
    shown = f"\n\nIts output:\n{output}" if output else ""
    caption = f"Cell {cell.number} of the notebook"
    return _text_entry(caption, f"cell {cell.number}", truncated(cell.source) + shown)


def _error(mention: Mention, resolver: Resolver) -> Entry:
    traceback = resolver.error()
    if not traceback:
        raise AttachmentError(f"{mention.text}: no cell of this kernel has failed yet")
    return _text_entry("The last error", "error", truncated(_plain(traceback)))


def _file(mention: Mention, resolver: Resolver) -> Entry:
    content = _bytes(mention, resolver, FILE_LIMIT_BYTES)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise AttachmentError(f"{mention.text} is not a text file")
    guessed = mimetypes.guess_type(mention.name)[0] or ""
    media_type = guessed if guessed.startswith(TEXT_TYPES) else "text/plain"
    return _text_entry(f"The file {mention.name}", mention.name, text, media_type)


def _image(mention: Mention, resolver: Resolver) -> Entry:
    values = resolver.variables()
    if mention.name in values:
        content = _drawn_image(mention, _checked(mention.name, values[mention.name]))
    else:
        content = _bytes(mention, resolver, IMAGE_LIMIT_BYTES)
    known = (kind for start, kind in _SIGNATURES.items() if content.startswith(start))
    media_type = next(known, None)
    if media_type is None:
        raise AttachmentError(f"{mention.text} is not a PNG or JPEG image")
    if len(content) > IMAGE_LIMIT_BYTES:
        raise AttachmentError(f"{mention.text} is too large to send")
    sent = base64.b64encode(content).decode("ascii")
    return _entry("image", f"The image {mention.name}", mention.name, media_type, sent)


_LOADERS: dict[str, Callable[[Mention, Resolver], Entry | None]] = {
    "variable": _variable,
    "cell": _cell,
    "file": _file,
    "image": _image,
    "error": _error,
}


def _checked(name: str, value: object) -> object:
    """The value; raises AttachmentError if its name suggests a secret."""
    if is_secret_name(name):
        raise AttachmentError(
            f"@{name} was not attached: a variable with this name may hold a secret"
        )
    return value


def _bytes(mention: Mention, resolver: Resolver, limit: int) -> bytes:
    if not mention.name:
        raise AttachmentError(f"{mention.text}: give the path of a file")
    try:
        path = resolver.folder / mention.name
        if not path.is_file():
            raise AttachmentError(
                f"{mention.text}: there is no such file in {path.parent}"
            )
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character
        raise AttachmentError(f"{mention.text} cannot be read: {error}") from None
    if len(content) > limit:
        raise AttachmentError(f"{mention.text} is larger than {limit:,} bytes")
    return content


def _drawn_image(mention: Mention, value: object) -> bytes:
    """The bytes of a figure or image, at the largest size that a model uses."""
    kind = type(value)
    draw: Callable[[Any], bytes] = _reduced
    if comes_from(kind, "matplotlib") and hasattr(value, "savefig"):
        draw = _drawn
    elif not (comes_from(kind, "PIL") and hasattr(value, "thumbnail")):
        name = type_name(kind).removeprefix("builtins.")
        raise AttachmentError(
            f"{mention.text} is a {name}, not a matplotlib Figure or a PIL image"
        )
    try:
        return draw(value)
    except Exception as error:  # noqa: BLE001  # a figure runs user code
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:REASON_LIMIT]
        raise AttachmentError(f"{mention.text} cannot be drawn: {reason}") from None


def _drawn(figure: Any) -> bytes:
    buffer = io.BytesIO()
    longest = max(figure.get_size_inches())
    dpi = min(figure.dpi, IMAGE_LIMIT_PIXELS / longest)
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def _reduced(image: Any) -> bytes:
    """A PNG, or a JPEG if the PNG is too large, as of a photograph."""
    small = image.convert("RGBA" if "A" in image.getbands() else "RGB")
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


def _entry(kind: str, caption: str, name: str, media_type: str, sent: str) -> Entry:
    details = {"media_type": media_type, "name": name, "data": sent}
    return Entry("user", caption, "", kind, json.dumps(details))


def _plain(text: str) -> str:
    """A text without terminal colour codes."""
    return _COLOURS.sub("", text)
