"""Previews of attachments, and the attachments that are sent."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure
from notebook_desk import Desk
from panel_protocol import known
from panel_views import Panel

from nbchat.agent.agent import Agent
from nbchat.errors import AttachmentError
from nbchat.jupyter.panel.previews import ERROR_OUTPUT, Previews
from nbchat.jupyter.panel.protocol import Question, received
from nbchat.providers.base import user_text
from nbchat.rendering.entries import entry_html
from nbchat.testing import ScriptedProvider, says


@pytest.fixture
def agent() -> Agent:
    return Agent(ScriptedProvider())


def chips(shown: Previews, agent: Agent, text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = known(shown.mentioned(agent, text))["chips"]
    return found


def test_a_chip_shows_the_tokens_of_a_mention_and_its_preview_what_is_sent(
    agent: Agent,
) -> None:
    shown = Previews(Desk(values={"price": [1, 2], "word": "x"}))
    chip, _unknown = chips(shown, agent, "Is @price right, @ann?")
    preview = known(shown.previewed(agent, chip["key"]))
    (entry,) = shown.entries("Is @price right, @ann?", [chip["key"]])
    assert preview["text"] == user_text(entry)
    assert preview["picture"] == ""
    assert chip["mention"] == "@price"
    assert (
        chip["tokens"]
        == preview["tokens"]
        == agent.engine.tracker.counter.count_entry(entry)
    )


def test_the_preview_of_a_picture_is_the_bytes_that_are_sent(agent: Agent) -> None:
    shown = Previews(Desk(values={"fig": Figure()}))
    (chip,) = chips(shown, agent, "@image:fig")
    (entry,) = shown.entries("@image:fig", [chip["key"]])
    data = entry.arguments["data"]
    picture = known(shown.previewed(agent, chip["key"]))["picture"]
    assert picture == f"data:image/png;base64,{data}"


def test_a_missing_attachment_has_a_chip_with_the_reason(agent: Agent) -> None:
    shown = Previews(Desk(values={"my_token": "t"}))
    missing, unknown = chips(shown, agent, "@error \ud800 @my_toke")
    assert (missing["key"], unknown["key"]) == ("", "")
    assert "No cell has failed in this kernel" in missing["problem"]
    assert "Did you mean my_token" in unknown["problem"]
    assert shown.entries("@my_toke", []) == []
    with pytest.raises(AttachmentError, match="No cell has failed in this kernel"):
        shown.entries("@error", [])


def test_a_previewed_value_is_sent_as_shown_and_others_are_looked_up(
    agent: Agent,
) -> None:
    desk = Desk(values={"a": 1, "b": 1})
    shown = Previews(desk)
    (chip,) = chips(shown, agent, "@a")
    desk.values = {"a": 2, "b": 2}
    sent = shown.entries("@a and @b", [chip["key"], "unknown", 7, None])
    assert [entry.arguments["data"] for entry in sent] == ["int 1", "int 2"]
    assert shown.entries("nothing", [chip["key"]]) == []


def test_a_chip_says_how_many_secrets_are_hidden(agent: Agent) -> None:
    shown = Previews(Desk(values={"config": {"password": "hunter2"}}))
    masked, whole = chips(shown, agent, "@config and @!config")
    assert (masked["hidden"], whole["hidden"]) == (1, 0)
    sent = shown.entries("@config", [masked["key"]])
    assert "hunter2" not in sent[0].tool_args


def test_a_dropped_file_goes_with_the_message_whose_chip_it_is(agent: Agent) -> None:
    shown = Previews(Desk())
    data = base64.b64encode(b"password: hunter2\nport: 1").decode()
    answer = known(shown.uploaded(agent, "notes.txt", "text/plain", data))
    (chip,) = answer["chips"]
    assert (chip["mention"], chip["hidden"]) == ("notes.txt", 1)
    (entry,) = shown.entries("look", [chip["key"]])
    assert "port: 1" in entry.tool_args
    assert shown.entries("look", []) == []
    with pytest.raises(AttachmentError, match="arrived incomplete"):
        shown.uploaded(agent, "notes.txt", "text/plain", "%%%")
    with pytest.raises(AttachmentError, match="cannot be read as a picture"):
        shown.uploaded(agent, "x.gif", "image/gif", data)


def test_an_error_below_a_cell_is_described_by_the_kernel(agent: Agent) -> None:
    shown = Previews(Desk(traceback="of another cell"))
    error = {"traceback": "KeyError: 'region'", "source": "df['region']"}

    def upload(output: bytes) -> Any:
        data = base64.b64encode(output).decode()
        return known(shown.uploaded(agent, "error", ERROR_OUTPUT, data))

    (chip,) = upload(json.dumps(error).encode())["chips"]
    assert chip["mention"] == "error"
    (entry,) = shown.entries("Fix this error.", [chip["key"]])
    assert "KeyError: 'region' in df['region']" in user_text(entry)
    for broken in (b"", b"[]", b"{}", b"[" * 100_000):
        with pytest.raises(AttachmentError, match="can't be read"):
            upload(broken)


def test_old_previews_expire(agent: Agent) -> None:
    desk = Desk(values={name: name * 1_000 for name in "abcd"})
    shown = Previews(desk, kept_characters=3_000)
    keys = [chips(shown, agent, f"@{name}")[0]["key"] for name in "abcd"]
    assert known(shown.previewed(agent, keys[-1]))
    with pytest.raises(AttachmentError, match="Type the mention again"):
        shown.previewed(agent, keys[0])


def test_without_a_resolver_nothing_is_a_mention(agent: Agent) -> None:
    assert chips(Previews(None), agent, "@error @file:x") == []
    assert Previews(None).entries("@error", []) == []


def panel_on_two_answers(**options: Any) -> Panel:
    return Panel(Agent(ScriptedProvider(says("I see."), says("Yes."))), **options)


@pytest.fixture
def panel() -> Iterator[Panel]:
    panel = panel_on_two_answers(resolver=Desk(values={"price": 7}))
    yield panel
    panel.close()


def answer_of(panel: Panel, **question: Any) -> dict[str, Any]:
    """What the panel answers to a view, on the thread that asks."""
    message = received({**question, "token": "t"})
    assert isinstance(message, Question)
    return known(panel._queries.answer(panel.agent, message))


def test_queries_for_chips_previews_and_completions_are_answered(panel: Panel) -> None:
    (chip,) = answer_of(panel, type="mentions", text="@price")["chips"]
    shown = answer_of(panel, type="preview", key=chip["key"])
    assert shown["text"] == "The variable price\n\nint 7"
    offered = answer_of(panel, type="complete")
    names = {each["name"] for each in offered["commands"]}
    assert {"help", "compact", "new"} <= names


@pytest.mark.parametrize("keys", [[], ["", "x"], ["0" * 32]])
def test_a_message_attaches_what_it_mentions(panel: Panel, keys: object) -> None:
    panel.receive({"type": "send", "text": "Is @price right?", "previews": keys})
    assert panel.wait(60)
    assert [user_text(entry) for entry in panel.agent.provider.requests[0].history] == [
        "The variable price\n\nint 7",
        "Is @price right?",
    ]


def test_a_message_is_sent_with_the_values_that_were_previewed(panel: Panel) -> None:
    (chip,) = answer_of(panel, type="mentions", text="@price")["chips"]
    panel._previews._resolver.values["price"] = 8  # noqa: PD011
    panel.receive({"type": "send", "text": "@price", "previews": [chip["key"]]})
    assert panel.wait(60)
    assert panel.session.transcript[0].arguments["data"] == "int 7"


def test_nothing_is_attached_from_pasted_text_and_a_chip_says_so(panel: Panel) -> None:
    mail = "See @price, @nothing, ann@example.org and @file:gone."
    text = f"Is this right?\n{mail}"
    chips = answer_of(panel, type="mentions", text=text, pasted=[mail])["chips"]
    assert [(each["mention"], each["key"]) for each in chips] == [("@price", "")]
    assert "pasted text" in chips[0]["problem"]
    panel.receive({"type": "send", "text": text, "pasted": [mail]})
    assert panel.wait(60)
    assert [user_text(each) for each in panel.agent.provider.requests[0].history] == [
        text
    ]


def test_what_a_person_types_is_attached_beside_a_pasted_text(panel: Panel) -> None:
    mail = "See @price."
    text = f"Is @price right?\n{mail}"
    (chip,) = answer_of(panel, type="mentions", text=text, pasted=[mail])["chips"]
    assert chip["key"]


def test_ask_attaches_what_the_text_mentions(panel: Panel) -> None:
    panel.ask("Is @price right?")
    assert panel.wait(60)
    assert panel.session.transcript[0].content == "The variable price"


def text_sent(shown: Previews, message: str, key: str) -> str:
    """The text of the one attachment that goes with a message."""
    (entry,) = shown.entries(message, [key])
    return str(entry.arguments["data"])


@pytest.mark.slow
def test_a_long_table_is_sent_as_a_description_or_whole(
    agent: Agent, tmp_path: Path
) -> None:
    rows = [f"{number},Bonn,{number * 3}.50" for number in range(1_000)]
    (tmp_path / "sales.csv").write_text("\n".join(["order,city,amount", *rows]))
    frame = pd.read_csv(tmp_path / "sales.csv")
    shown = Previews(Desk(tmp_path, {"sales": frame, "few": frame.head(20)}))
    for mention in ("@file:sales.csv", "@sales"):
        (chip,) = chips(shown, agent, mention)
        assert chip["is_described"]
        assert chip["tokens"] < 2_000 < chip["other_tokens"]
        assert "1,000 rows" in text_sent(shown, mention, chip["key"])
        whole = text_sent(shown, mention, chip["other"])
        assert [whole.splitlines()[n] for n in (0, 778)] == [
            "order,city,amount",
            rows[777].removesuffix("0") if mention == "@sales" else rows[777],
        ]
    (short,) = chips(shown, agent, "@few")
    assert short["other"] == ""


@pytest.mark.slow
def test_a_long_text_asks_and_can_be_sent_as_a_description(
    agent: Agent, tmp_path: Path
) -> None:
    text = "\n".join(f"{number} password: hunter2 and words" for number in range(900))
    (tmp_path / "notes.txt").write_text(text)
    shown = Previews(Desk(tmp_path))
    (chip,) = chips(shown, agent, "@file:notes.txt")
    assert not chip["is_described"]
    assert chip["tokens"] > 4_000 > chip["other_tokens"] > 0
    described = text_sent(shown, "@file:notes.txt", chip["other"])
    assert "900 lines" in described
    assert "characters omitted" in described
    assert "hunter2" not in described + text_sent(shown, "@file:notes.txt", chip["key"])
    data = base64.b64encode(text.encode()).decode()
    (dropped,) = known(shown.uploaded(agent, "n.txt", "text/plain", data))["chips"]
    (entry,) = shown.entries("look", [dropped["other"]])
    assert "900 lines" in entry.arguments["data"]
    (tmp_path / "short.txt").write_text(text[:7_000])
    (short,) = chips(shown, agent, "@file:short.txt")
    assert short["other"] == ""


def test_a_picture_has_a_small_copy_in_its_chip_and_in_the_transcript(
    agent: Agent,
) -> None:
    shown = Previews(Desk(values={"fig": Figure()}))
    (chip,) = chips(shown, agent, "@image:fig")
    assert chip["thumbnail"].startswith("data:image/png;base64,")
    (entry,) = shown.entries("@image:fig", [chip["key"]])
    assert len(chip["thumbnail"]) < 20_000
    assert f'<img class="nbc-thumbnail" src="{chip["thumbnail"]}"' in entry_html(entry)
    broken = entry._replace(tool_args='{"media_type": "image/png", "data": "AAAA"}')
    assert "<img" not in entry_html(broken)
