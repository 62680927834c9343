"""Pictures are made right where they come in."""

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image
from tables import every

from nbchat.conversation.entries import Entry
from nbchat.conversation.pictures import LONGEST_SIDE, MOST_BYTES, picture_of
from nbchat.conversation.returned_values import Parts, output_of

CALL = Entry("assistant", "", "c1", "shot", "{}")

WAV = b"RIFF\x24\0\0\0WAVEfmt " + b"\0" * 40


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def a_picture(mode: str = "RGB", size: tuple[int, int] = (40, 30)) -> Image.Image:
    return Image.new(mode, size)


def decoded(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def frames() -> Iterator[Image.Image]:
    return (Image.new("RGB", (9, 9), colour) for colour in ("red", "green", "blue"))


def animated(kind: str) -> bytes:
    first, *rest = frames()
    return encoded(first, kind, save_all=True, append_images=rest)


@pytest.mark.parametrize(("kind", "media_type"), [("PNG", "png"), ("JPEG", "jpeg")])
def test_a_small_picture_is_sent_as_it_is(kind: str, media_type: str):
    data = encoded(a_picture(), kind)
    picture = picture_of(data)
    assert (picture.data, picture.media_type) == (data, f"image/{media_type}")
    assert picture.original is None


@pytest.mark.slow
@pytest.mark.parametrize("size", [(2_400, 1_350), (1_200, 9_000)])
def test_a_large_picture_is_scaled_and_keeps_its_first_size(size: tuple[int, int]):
    data = encoded(a_picture(size=size))
    picture = picture_of(data)
    assert max(decoded(picture.data).size) == LONGEST_SIDE
    details = picture.entry("c").arguments["original"]
    assert details == {"width": size[0], "height": size[1], "bytes": len(data)}


@every(
    "data",
    [
        encoded(a_picture("CMYK"), "JPEG"),
        encoded(a_picture("I;16")),
        encoded(a_picture("F"), "TIFF"),
        encoded(a_picture("P"), "BMP"),
        encoded(a_picture(), "WEBP"),
        animated("GIF"),
        animated("PNG"),
        animated("WEBP"),
    ],
)
def test_other_forms_become_a_still_picture_of_eight_bits(data: bytes):
    picture = picture_of(data)
    image = decoded(picture.data)
    assert Image.MIME[image.format or ""] == picture.media_type
    assert picture.media_type in ("image/png", "image/jpeg")
    assert image.mode in ("L", "RGB", "RGBA")
    assert getattr(image, "n_frames", 1) == 1


def test_a_photo_is_sent_upright():
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = picture_of(encoded(a_picture(size=(40, 30)), "JPEG", exif=exif))
    assert decoded(picture.data).size == (30, 40)


@pytest.mark.slow
def test_a_noisy_picture_stays_below_five_megabytes_in_base64():
    noise = Image.effect_noise((1_500, 1_500), 200)
    noisy = Image.merge("RGB", (noise, noise.rotate(90), noise.rotate(180)))
    assert len(encoded(noisy)) > MOST_BYTES
    assert len(picture_of(encoded(noisy)).data) <= MOST_BYTES


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n<html>oops</html>",
        encoded(a_picture(size=(300, 300)))[:-30],
        encoded(Image.effect_noise((300, 300), 90), "JPEG")[:20_000],
        b"\xff\xd8\xff",
    ],
    ids=["a page", "half a PNG", "half a JPEG", "three bytes"],
)
def test_a_picture_that_cannot_be_read_is_one_line(data: bytes):
    output = output_of(CALL, data)
    assert output.pictures == ()
    assert (
        output.entry.content
        == f"[{len(data):,} bytes that cannot be read as a picture]"
    )


def test_other_files_in_a_riff_container_are_no_pictures():
    output = output_of(CALL, WAV)
    assert output.entry.content == f"[{len(WAV)} bytes that are not text]"
    assert output.pictures == ()


@pytest.mark.slow
def test_a_picture_of_500_megabytes_is_not_opened():
    data = b"\x89PNG\r\n\x1a\n".ljust(500_000_000, b"\0")
    output = output_of(CALL, data)
    assert output.entry.content == (
        "[a picture of 500,000,000 bytes, which is too large]"
    )


def test_a_picture_of_too_many_pixels_is_not_decoded():
    data = bytearray(encoded(a_picture()))
    data[16:24] = (60_000).to_bytes(4) + (60_000).to_bytes(4)
    with pytest.raises(ValueError, match=r"picture"):
        picture_of(bytes(data))


def test_of_a_list_the_pictures_follow_and_the_rest_is_the_result():
    good = encoded(a_picture())
    output = output_of(CALL, ["two plots", good, b"\x89PNG\r\n\x1a\n", good])
    assert output.entry.content == (
        "two plots\n[8 bytes that cannot be read as a picture]\n[2 pictures follow]"
    )
    assert len(output.pictures) == 2


def test_parts_keep_their_order():
    good = encoded(a_picture())
    output = output_of(CALL, Parts(("before", good, "between", good, "after")))
    assert output.entry.content == (
        "before\n[picture 1 of 2 follows]\nbetween\n[picture 2 of 2 follows]\nafter"
    )
    sent = [base64.b64decode(each.arguments["data"]) for each in output.pictures]
    assert sent == [good, good]
    assert json.loads(output.pictures[0].tool_args)["media_type"] == "image/png"
