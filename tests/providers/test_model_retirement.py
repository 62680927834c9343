"""Models that are retired, in the words of those who retire them."""

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from anthropic.resources.messages.messages import DEPRECATED_MODELS
from fault_server import FaultServer, failure
from openai.types.chat import completion_create_params

from nbchat.config.settings import NbChat
from nbchat.conversation.entries import Entry
from nbchat.errors import RequestRefused
from nbchat.providers.base import Request
from nbchat.providers.connect import DEFAULT_MODELS, connect
from nbchat.providers.model_info import LISTED, chat_models, model_info
from nbchat.providers.model_retirement import RETIREMENTS, is_retired, retirement
from nbchat.providers.openai_chat import OpenAIProvider

README = Path(__file__).parents[2] / "README.md"
HELP = str(NbChat.class_traits()["model"].help)
NAMED = {
    *DEFAULT_MODELS.values(),
    *re.findall(r"(?:anthropic|openai|gemini):[\w.-]+\w", HELP),
}


@pytest.mark.parametrize("model", sorted(NAMED))
def test_a_model_that_we_choose_or_recommend_is_not_retired_soon(model):
    name = model.partition(":")[2]
    ending = retirement(name)
    if ending is not None and ending.is_near():
        pytest.fail(
            f"{ending.line(name)}: put it into DEFAULT_MODELS (connect.py), the help of "
            "the setting `model` and the README"
        )


def test_the_readme_names_no_model_that_is_retired_soon():
    text = README.read_text(encoding="utf-8")
    names = re.findall(r"(?:anthropic|openai|gemini):([\w.-]+\w)", text)
    assert names
    endings = [(name, retirement(name)) for name in names]
    assert [name for name, ending in endings if ending and ending.is_near()] == []


@pytest.mark.parametrize("model", sorted(DEFAULT_MODELS.values()))
def test_of_a_default_model_all_limits_and_prices_are_known(model):
    kind, _, name = model.partition(":")
    info = model_info(name, provider=kind)
    assert info.window
    assert info.prices
    assert info.output_limit >= 64_000


def test_the_dates_of_anthropic_are_those_of_its_sdk():
    for name, day in DEPRECATED_MODELS.items():
        plain = re.sub(r"(\d)(st|nd|rd|th),", r"\1,", day)
        expected = datetime.strptime(plain, "%B %d, %Y").replace(tzinfo=UTC).date()
        assert retirement(name), name
        assert retirement(name).day == expected, name


def test_the_dates_of_openai_are_those_of_its_sdk():
    text = Path(completion_create_params.__file__).read_text(encoding="utf-8")
    text = " ".join(text.partition("Deprecated values:")[2].partition('"""')[0].split())
    found = re.findall(
        r"- ((?:\"[\w.-]+\",? ?)+): Announced shutdown date: (\S+)\.", text
    )
    assert len(found) > 10
    for names, day in found:
        for name in re.findall(r'"([\w.-]+)"', names):
            if "audio" in name or re.match(r"gpt-(4-|3\.5)", name):
                continue  # not offered here
            assert retirement(name), name
            assert str(retirement(name).day) == day, name


def test_a_successor_is_known_and_current():
    current = {name for kind in LISTED for name in chat_models(kind)}
    successors = {each.successor for each in RETIREMENTS.values()}
    assert successors <= current
    assert not any(map(retirement, successors))


@pytest.mark.parametrize(
    ("name", "is_known"),
    [
        ("gpt-5-mini", True),
        ("gpt-5-mini-2025-08-07", True),
        ("gpt-5.4-mini", False),
        ("gpt-5-pro", False),
        ("claude-sonnet-4-5@20250929", True),
        ("claude-sonnet-4-6", False),
        ("claude-opus-4-1", False),
        ("gemini-2.5-flash-lite", False),
        ("gemini-2.5-flash-preview-09-2025", True),
    ],
)
def test_a_date_holds_for_the_versions_of_a_model_and_for_no_other(name, is_known):
    assert (retirement(name) is not None) == is_known


def test_a_model_that_is_retired_soon_is_connected_with_one_line(caplog):
    connect("openai:gpt-5-mini", api_key=lambda: "k")
    [line] = caplog.messages
    assert re.fullmatch(r"gpt-5-mini w.* retired on 2026-12-11; use gpt-6-luna", line)
    caplog.clear()
    connect("openai:gpt-6-luna", api_key=lambda: "k")
    assert caplog.messages == []


def test_the_line_says_whether_it_has_happened():
    ending = RETIREMENTS["gpt-5-mini"]
    later, earlier = ending.day, ending.day - timedelta(days=89)
    assert "gpt-5-mini was retired" in ending.line("gpt-5-mini", later)
    assert "will be retired" in ending.line("gpt-5-mini", earlier)
    assert ending.is_near(earlier)
    assert not ending.is_near(ending.day - timedelta(days=90))
    assert is_retired("gpt-5-mini", later)
    assert not is_retired("gpt-5-mini", earlier)
    assert not is_retired("gpt-6-luna", date(2999, 1, 1))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("gpt-4-turbo", "it was retired on 2026-10-23; use gpt-6-luna"),
        ("gpt-6-lunar", "did you mean gpt-6-luna"),
        ("my-own-model", "choose another with /model"),
    ],
)
def test_a_model_that_the_server_has_not_gets_a_name_that_it_has(model, words):
    server = FaultServer()
    server.script(failure(404, {"message": f"The model `{model}` does not exist"}))
    provider = OpenAIProvider(model, base_url=f"{server.url}/v1")
    with pytest.raises(RequestRefused, match=words):
        list(provider.stream(Request((Entry("user", "Hi"),))))
    server.close()


def test_retired_models_are_not_offered():
    assert "gpt-4-turbo" not in chat_models("openai")
    assert "claude-opus-4-0" not in chat_models("anthropic")
