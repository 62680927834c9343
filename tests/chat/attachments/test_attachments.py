"""What a message brings along: entries made of values, cells, files and pictures."""

import base64
import io
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cpu_time import CpuTime
from matplotlib.figure import Figure
from notebook_desk import Desk
from PIL import Image
from tables import every

from nbchat.chat.attachments.attachments import (
    load_attachments,
    unknown_names,
)
from nbchat.chat.attachments.file_preview import TEXT_BYTES
from nbchat.chat.attachments.mentions import Cell
from nbchat.chat.attachments.value_preview import TEXT_LIMIT
from nbchat.conversation.entries import Entry
from nbchat.conversation.pictures import LONGEST_SIDE, MOST_BYTES
from nbchat.conversation.secret_masking import HIDDEN
from nbchat.errors import AttachmentError
from nbchat.providers.base import image_of, user_text


class Box:
    """An object with attributes."""


def brought(text: str, desk: Desk) -> list[Entry]:
    return [each.entry for each in load_attachments(text, desk)]


def read(text: str, desk: Desk) -> str:
    """What the model reads of the one thing a text brings along."""
    (entry,) = brought(text, desk)
    assert entry.role == "user"
    assert entry.is_attachment
    return user_text(entry)


def picture_of(text: str, desk: Desk) -> tuple[str, Image.Image]:
    (entry,) = brought(text, desk)
    media_type, sent = image_of(entry)
    return media_type, Image.open(io.BytesIO(base64.b64decode(sent)))


def test_a_variable_is_sent_with_its_name_and_contents():
    frame = pd.DataFrame({"city": ["Bonn"], "price": [3]})
    text = read("What is in @df?", Desk(values={"df": frame}))
    assert text.startswith("The variable df\n\nDataFrame of 1 rows x 2 columns")
    assert "0  Bonn      3" in text


def test_each_mention_has_an_entry_in_the_order_of_the_text():
    desk = Desk(values={"a": 1, "b": 2}, traceback="KeyError: 'x'")
    entries = brought("@b, then @error, then @a and @b", desk)
    assert [entry.content for entry in entries] == [
        "The variable b",
        "The last error",
        "The variable a",
    ]
    assert [entry.arguments["name"] for entry in entries] == ["b", "error", "a"]


def test_a_name_of_no_data_variable_attaches_nothing():
    values = {"math": np, "print": print, "kind": int, "_hidden": 1}
    assert brought("@ann @math @print @kind @_hidden", Desk(values=values)) == []


SECRETS = {
    "api_key": "hunter2",
    "config": {"user": "ann", "password": "hunter2"},
    "address": "postgres://ann:hunter2@db/orders",
    "frame": pd.DataFrame({"user": ["ann"], "db_password": ["hunter2"]}),
    "note": "the key of this machine is hunter2-hunter2",
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_hidden_in_a_variable_and_attached_on_request(name, monkeypatch):
    monkeypatch.setenv("SERVICE_TOKEN", "hunter2-hunter2")
    desk = Desk(values=SECRETS)
    (masked,) = load_attachments(f"@{name}", desk)
    assert "hunter2" not in masked.entry.tool_args
    assert masked.hidden == 1
    (whole,) = load_attachments(f"@!{name}", desk)
    assert "hunter2" in whole.entry.tool_args
    assert whole.hidden == 0


def test_cells_errors_and_files_pass_the_same_filter(tmp_path):
    (tmp_path / "env.txt").write_text("db: postgres://ann:hunter2@db\nport: 5432\n")
    cell = Cell(1, "headers = {'Authorization': 'Bearer hunter2-abc'}", "")
    desk = Desk(tmp_path, cells={1: cell}, traceback="KeyError: password='hunter2'")
    for text in ("@cell", "@error", "@file:env.txt"):
        (found,) = load_attachments(text, desk)
        assert "hunter2" not in found.entry.tool_args
        assert found.hidden == 1
    assert "5432" in load_attachments("@file:env.txt", desk)[0].entry.tool_args


ORDINARY = {
    "tokens": ["a", "b"],
    "tokenizer": {"max_token_count": 512, "key": "orders"},
    "monkeys": 3,
    "stars": pd.DataFrame({"primary_key": [11, 12], "token": [7, 8], "pin": [4711, 1]}),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_names_and_numbers_of_ordinary_data_are_not_hidden(name):
    (found,) = load_attachments(f"@{name}", Desk(values=ORDINARY))
    assert found.hidden == 0
    assert HIDDEN not in found.entry.tool_args


@every(
    ("text", "shown"),
    [
        ("@df.amount", "Series"),
        ("@df['amount']", "Series"),
        ('@df[["amount"]]', "DataFrame"),
        ("@df[:1]", "DataFrame"),
        ("@rows[0]['city'].", "Bergen"),
        ("@box.inside", "42"),
    ],
)
def test_a_part_of_a_variable_is_attached(text, shown):
    box = Box()
    box.inside = 42
    frame = pd.DataFrame({"amount": [1.5, 2.5], "city": ["a", "b"]})
    values = {"df": frame, "rows": [{"city": "Bergen"}], "box": box}
    (entry,) = brought(text, Desk(values=values))
    assert shown in entry.arguments["data"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@df.amuont", "Did you mean amount"),
        ("@df[amount]", "literal keys"),
        ("@box.missing", "box has no missing"),
        ("@box[0]", "can't be attached"),
    ],
)
def test_a_part_that_does_not_exist_is_an_error_of_one_line(text, said):
    values = {"df": pd.DataFrame({"amount": [1]}), "box": Box()}
    with pytest.raises(AttachmentError, match=said):
        load_attachments(text, Desk(values=values))


def test_an_unknown_name_is_reported_with_the_nearest_one():
    desk = Desk(values={"orders": 1, "np": np})
    (line,) = unknown_names("@order @np @orders ann@x.org", desk)
    assert line.startswith("No variable named order. Did you mean orders?")


@pytest.mark.slow
def test_a_figure_and_a_picture_are_attached_as_pictures():
    figure = Figure()
    figure.subplots().plot([1, 2])
    picture = Image.new("RGB", (8, 8))
    desk = Desk(values={"fig": figure, "picture": picture})
    entries = brought("@fig and @picture", desk)
    assert [entry.tool_name for entry in entries] == ["image", "image"]


def test_a_cell_is_sent_with_its_source_and_output():
    desk = Desk(cells={2: Cell(2, "1 + 1", "2\n"), 3: Cell(3, "x = 1", "")})
    assert read("@cell:2", desk) == ("The cell run as [2]\n\n1 + 1\n\nIts output:\n2")
    assert read("@cell", desk) == "The cell run as [3]\n\nx = 1"


def test_a_cells_number_is_its_position_where_the_page_tells_it():
    first = Cell(1, "import pandas", "", is_position=True)
    desk = Desk(cells={1: Cell(1, "x = 1", "")}, positions={1: first})
    assert read("@cell:1", desk) == "Cell 1 of the notebook\n\nimport pandas"
    assert read("@cell:[1]", desk) == "The cell run as [1]\n\nx = 1"


def test_a_long_output_is_truncated_without_colour_codes():
    output = "\x1b[31mred\x1b[0m" + "x" * 100_000
    text = read("@cell", Desk(cells={1: Cell(1, "go()", output)}))
    assert "redxxx" in text
    assert len(text) < TEXT_LIMIT + 200
    error = read("@error", Desk(traceback="\x1b[1;31mKeyError\x1b[39;00m: 'x'"))
    assert error == "The last error\n\nKeyError: 'x'"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("@cell", "No cell before this one was run"),
        ("@cell:7", "No cell 7 was run"),
        ("@cell:99999999999999999999", "No cell"),
        ("@cell:two", "needs a cell's number"),
        ("@error", "No cell has failed in this kernel"),
        ("@file:gone.txt", "There's no file"),
        ("@file:", "needs the path of a file"),
        ("@file:.", "needs the path of a file"),
        ("@file:..", "needs the path of a file"),
        ("@file:/tmp", "There's no file"),
        ("@image:gone.png", "There's no file"),
        ("@image:a\0b", "There's no file"),
        ("@file:" + "a" * 5_000, "can't be read"),
        ("@image:words", "is a str, not a matplotlib Figure"),
        ("@file:/dev/zero", "There's no file"),
    ],
)
def test_what_is_missing_is_an_error_of_one_line(
    text: str, reason: str, tmp_path: Path
):
    with pytest.raises(AttachmentError, match=reason) as missing:
        load_attachments(f"Look at {text} now", Desk(tmp_path, {"words": "a.png"}))
    assert "\n" not in str(missing.value)


def test_a_file_of_the_kernels_folder_is_sent_unchanged(tmp_path: Path):
    (tmp_path / "a b.csv").write_text("größe;1\r\n", encoding="utf-8", newline="")
    (entry,) = brought('@file:"a b.csv"', Desk(tmp_path))
    assert entry.arguments["media_type"] == "text/csv"
    assert user_text(entry) == "The file a b.csv\n\ngröße;1\r\n"
    assert brought(f'@file:"{tmp_path / "a b.csv"}"', Desk())


def test_a_file_of_unknown_type_is_sent_if_it_is_text(tmp_path: Path):
    (tmp_path / "run.wasm").write_text("not what its name says")
    assert "not what its name says" in read("@file:run.wasm", Desk(tmp_path))


@pytest.mark.parametrize(
    "make",
    [
        lambda: bytes(range(256)),
        lambda: pickle.dumps([1.5] * 99),
        lambda: zlib.compress(b"a" * 999),
    ],
)
def test_a_binary_file_is_refused(make: Callable[[], bytes], tmp_path: Path):
    (tmp_path / "data.bin").write_bytes(make())
    with pytest.raises(
        AttachmentError, match=r"data\.bin can't be read: not a text file"
    ):
        load_attachments("@file:data.bin", Desk(tmp_path))


def test_a_file_that_is_too_large_is_sent_in_part(tmp_path: Path):
    (tmp_path / "log").write_text("x" * TEXT_BYTES)
    assert brought("@file:log", Desk(tmp_path))
    (tmp_path / "log").write_text("x" * (TEXT_BYTES + 1))
    (entry,) = brought("@file:log", Desk(tmp_path))
    assert len(entry.arguments["data"]) < 10_000
    assert "bytes omitted" in entry.arguments["data"]


@pytest.mark.slow
def test_large_tables_are_attached_as_shape_types_and_head(tmp_path: Path):
    frame = pd.DataFrame({"id": range(40_000), "city": ["Bergen"] * 40_000})
    frame.to_csv(tmp_path / "big.csv", index=False)
    frame.to_parquet(tmp_path / "big.parquet")
    frame.to_json(tmp_path / "big.jsonl", orient="records", lines=True)
    for name in ("big.csv", "big.parquet", "big.jsonl"):
        (entry,) = brought(f"@file:{name}", Desk(tmp_path))
        text = entry.arguments["data"]
        assert "40,000 rows x 2 columns" in text
        assert "- id: int64; 0 missing; 40,000 different; 0 to 39999" in text
        assert "1 different; Bergen (40,000)" in text
        assert len(text) < 2_000


@pytest.mark.slow
def test_a_table_of_long_texts_is_described_at_once():
    desk = Desk(values={"long": pd.DataFrame({"text": ["x" * 100_000] * 500})})
    began = CpuTime()
    (attached,) = load_attachments("@long", desk)
    assert "500 rows x 1 columns" in attached.entry.arguments["data"]
    assert attached.other is None  # 50 MB are no choice
    assert began.spent() < 3


@pytest.mark.slow
def test_gigabytes_take_no_longer_than_megabytes(tmp_path: Path):
    with (tmp_path / "huge.csv").open("wb") as file:
        file.write(b"id,city\n" + b"1,Bergen\n" * 200_000)
        file.truncate(3_000_000_000)
    began = CpuTime()
    (entry,) = brought("@file:huge.csv", Desk(tmp_path))
    assert began.spent() < 2
    assert "3.0 GB" in entry.arguments["data"]
    (tmp_path / "noise.parquet").write_bytes(b"PAR1" + b"\0" * 300_000)
    with pytest.raises(AttachmentError, match=r"noise\.parquet can't be read"):
        load_attachments("@file:noise.parquet", Desk(tmp_path))


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_an_image_file_is_sent_unchanged(kind: str, tmp_path: Path):
    Image.new("RGB", (3, 2), "red").save(tmp_path / "dot", kind)
    (entry,) = brought("@image:dot", Desk(tmp_path))
    media_type, sent = image_of(entry)
    assert media_type == f"image/{kind}"
    assert base64.b64decode(sent) == (tmp_path / "dot").read_bytes()
    assert user_text(entry) == "The image dot"


def test_a_file_that_is_not_an_image_is_refused(tmp_path: Path):
    (tmp_path / "fake.png").write_text("<svg onload=alert(1)>")
    with pytest.raises(AttachmentError, match="cannot be read as a picture"):
        load_attachments("@image:fake.png", Desk(tmp_path))


@pytest.mark.slow
def test_a_figure_is_sent_at_the_largest_size_a_model_uses():
    figure = Figure(figsize=(60, 30))
    figure.subplots().plot([1, 2])
    canvas = figure.canvas
    media_type, picture = picture_of("@image:fig", Desk(values={"fig": figure}))
    assert media_type == "image/png"
    assert picture.size == (LONGEST_SIDE, LONGEST_SIDE // 2)
    assert figure.canvas is canvas


@every("mode", ["RGB", "RGBA", "L", "P", "CMYK", "1", "LA"])
def test_a_pil_image_is_sent(mode: str):
    original = Image.new(mode, (3_000, 30))
    media_type, picture = picture_of("@image:im", Desk(values={"im": original}))
    assert (media_type, picture.width) == ("image/png", LONGEST_SIDE)
    assert original.size == (3_000, 30)


@pytest.mark.slow
def test_a_large_photograph_is_sent_as_a_jpeg():
    noise = np.random.default_rng(1).integers(0, 256, (1_500, 1_500, 3), np.uint8)
    photograph = Image.fromarray(noise)
    (entry,) = brought("@image:im", Desk(values={"im": photograph}))
    assert image_of(entry)[0] == "image/jpeg"
    assert len(image_of(entry)[1]) * 3 // 4 < MOST_BYTES


@pytest.mark.slow
def test_a_figure_that_cannot_be_drawn_is_an_error_of_one_line():
    figure = Figure()
    figure.suptitle(r"$\nonsense{$")
    with pytest.raises(AttachmentError, match="can't be drawn") as told:
        load_attachments("@image:fig", Desk(values={"fig": figure}))
    assert "\n" not in str(told.value)


def test_a_class_that_is_only_named_figure_is_refused():
    class Figure:
        def savefig(self, *_: object, **__: object) -> None:
            raise SystemExit

    Figure.__module__ = "matplotlib.figure"
    with pytest.raises(AttachmentError, match="not a matplotlib Figure"):
        load_attachments("@image:fig", Desk(values={"fig": Figure()}))


@pytest.mark.slow
def test_a_figure_whose_png_is_too_large_is_sent_as_a_jpeg():
    figure = Figure(figsize=(16, 16), dpi=100)
    noise = np.random.default_rng(1).integers(0, 256, (1_600, 1_600, 3), np.uint8)
    figure.figimage(noise)
    (entry,) = brought("@image:fig", Desk(values={"fig": figure}))
    assert image_of(entry)[0] == "image/jpeg"
    assert len(image_of(entry)[1]) * 3 // 4 < MOST_BYTES
