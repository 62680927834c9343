"""Pictures as every model takes them: decoded, scaled, PNG or JPEG, not too large.

A picture is made right once, where it comes in; the transcript keeps that form and the
size of the original.
"""

import base64
import io
import json
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from nbchat.conversation.entries import Entry

LONGEST_SIDE = 1_568
"""Pixels: Anthropic scales larger pictures down to it, and refuses 2,000 among many."""

MOST_BYTES = 3_750_000
"""Bytes of a picture that is sent: 5 MB in base64, Anthropic's limit."""

THUMBNAIL_SIDE = 240
"""Pixels of the longest side of a picture in the transcript, sharp at 120."""

MOST_BYTES_READ = 100_000_000
"""Bytes of a picture that comes in; a photo of 100 megapixels has 50 MB."""

MOST_PIXELS = 150_000_000
"""Pixels of a picture that comes in: half a gigabyte once it is decoded."""

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF")
"""The formats that are decoded: none of Pillow's that start other programs."""

SENT_AS_IT_IS = {"PNG": "image/png", "JPEG": "image/jpeg"}
"""Formats that every API and local server takes."""

SIGNATURES = (
    *(b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a"),
    *(b"II*\0", b"MM\0*"),
)
"""First bytes of PNG, JPEG, GIF and TIFF."""

PLAIN_MODES = ("1", "L", "LA", "P", "RGB", "RGBA")
"""Pillow's modes of 8 bits; CMYK and others are converted."""

LOSSY = ("JPEG", "MPO", "WEBP", "AVIF")

ORIENTATION = 0x0112
"""The EXIF tag of how a camera was held; 1 is upright."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as it is sent."""

    data: bytes
    media_type: str
    original: tuple[int, int, int] | None = None
    """Width, height and bytes of the original; None where it is sent as it is."""

    def entry(self, caption: str, name: str = "") -> Entry:
        """The picture as a message of the user, below its caption."""
        details: dict[str, Any] = {"media_type": self.media_type}
        if name:
            details["name"] = name
        details["data"] = base64.b64encode(self.data).decode("ascii")
        if self.original is not None:
            sizes = zip(("width", "height", "bytes"), self.original, strict=True)
            details["original"] = dict(sizes)
        return Entry("user", caption, "", "image", json.dumps(details))


def looks_like_picture(data: bytes) -> bool:
    """True if bytes begin as a picture does that can be decoded here."""
    return (
        data.startswith(SIGNATURES)
        or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
        or (data[:2] == b"BM" and data[6:10] == bytes(4))
        or data[4:12] == b"ftypavif"
    )


def picture_of(data: bytes) -> Picture:
    """The picture in some bytes; raises ValueError with why it cannot be read."""
    if len(data) > MOST_BYTES_READ:
        raise ValueError(f"a picture of {len(data):,} bytes, which is too large")
    try:
        return _made_right(data)
    except ValueError:
        raise
    except Exception as error:  # Pillow raises errors of many kinds
        raise ValueError(
            f"{len(data):,} bytes that cannot be read as a picture"
        ) from error


def thumbnail_of(entry: Entry) -> str:
    """A small copy of an attached picture as a `data:` address; empty without one."""
    if entry.role != "user" or entry.tool_name != "image":
        return ""
    return _thumbnail(str(entry.arguments.get("data", "")))


@lru_cache(maxsize=64)
def _thumbnail(data: str) -> str:
    try:
        image = _opened(base64.b64decode(data, validate=True))
        if image.size[0] * image.size[1] > MOST_PIXELS:
            return ""
        plain = _in_eight_bits(image)
        plain.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
        file = io.BytesIO()
        plain.save(file, "PNG")
    except Exception:  # noqa: BLE001  # Pillow raises errors of many kinds
        return ""
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def picture_of_image(image: Any) -> Picture:
    """The picture of a Pillow image."""
    data, media_type = _encoded(image, is_lossy=False)
    is_smaller = max(image.size) > LONGEST_SIDE
    original = (*image.size, len(data)) if is_smaller else None
    return Picture(data, media_type, original)


def _made_right(data: bytes) -> Picture:
    image = _opened(data)
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise ValueError(f"a picture of {width:,} x {height:,} pixels is too large")
    image.load()  # a picture that was cut raises here
    if _is_right(image) and len(data) <= MOST_BYTES:
        return Picture(data, SENT_AS_IT_IS[image.format])
    is_lossy = image.format in LOSSY
    sent, media_type = _encoded(image, is_lossy=is_lossy)
    return Picture(sent, media_type, (width, height, len(data)))


def _opened(data: bytes) -> Any:
    from PIL import Image  # noqa: PLC0415  # 30 ms, and most chats have no picture

    with warnings.catch_warnings():  # the number of pixels is checked here
        warnings.simplefilter("ignore")
        return Image.open(io.BytesIO(data), formats=FORMATS)


def _is_right(image: Any) -> bool:
    """True if a picture can be sent as it is."""
    return (
        image.format in SENT_AS_IT_IS
        and image.mode in PLAIN_MODES
        and max(image.size) <= LONGEST_SIDE
        and getattr(image, "n_frames", 1) == 1
        and image.getexif().get(ORIENTATION, 1) == 1
    )


def _encoded(image: Any, *, is_lossy: bool) -> tuple[bytes, str]:
    """The first frame of an image, upright, scaled, in 8 bits; with its media type."""
    from PIL import ImageOps  # noqa: PLC0415

    plain = _in_eight_bits(ImageOps.exif_transpose(image))
    plain.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    if not is_lossy or "A" in plain.getbands():
        file = io.BytesIO()
        plain.save(file, "PNG")
        if file.tell() <= MOST_BYTES:
            return file.getvalue(), "image/png"
    file = io.BytesIO()
    _on_white(plain).save(file, "JPEG", quality=90)
    return file.getvalue(), "image/jpeg"


def _in_eight_bits(image: Any) -> Any:
    """A copy in grey or colours, with the transparency if there is any."""
    if image.mode.startswith(("I", "F")):  # 16 or 32 bits: the range that is used
        low, high = image.getextrema()
        scale = 255 / ((high - low) or 1)
        return image.convert("F").point(lambda v: v * scale - low * scale).convert("L")
    if image.mode in ("1", "L"):
        return image.convert("L")
    is_see_through = "A" in image.getbands() or "transparency" in image.info
    return image.convert("RGBA" if is_see_through else "RGB")


def _on_white(image: Any) -> Any:
    from PIL import Image  # noqa: PLC0415

    if "A" not in image.getbands():
        return image
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image).convert("RGB")
