"""Rows through batch APIs: tool loops included, half the price, by several processes."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from batch_server import BatchServer
from map_desk import Decision, Desk, category, tickets
from refusing_server import png

from nbchat.agent.agent import Agent
from nbchat.agent.map_agents import MapRun, map_agents
from nbchat.errors import ConfigError
from nbchat.providers.anthropic import AnthropicProvider
from nbchat.providers.base import Provider
from nbchat.providers.model_info import model_info
from nbchat.providers.openai_responses import ResponsesProvider
from nbchat.storage.run_store import Store

LOOK = 0.005

Kind = Callable[[BatchServer], Provider]


def answer(body: dict) -> str | tuple[str, dict] | int:
    """A call of `look_up` first, then the decision; T0004 is refused."""
    text = json.dumps(body)
    ticket = text[text.index("T0") :][:5]
    if ticket == "T0004":
        return 400
    if "is in the files" not in text:
        return "look_up", {"ticket": ticket}
    words = {each["id"]: each["text"] for each in tickets(100)}
    return json.dumps({"category": category(words[ticket]), "ticket": ticket})


def responses(server: BatchServer) -> Provider:
    return ResponsesProvider(
        "gpt-6-luna", base_url=f"{server.url}/v1", api_key=lambda: "k", window=9_000
    )


def messages(server: BatchServer) -> Provider:
    return AnthropicProvider(
        "claude-haiku-5-5", base_url=server.url, api_key=lambda: "k", window=9_000
    )


@pytest.fixture
def serving() -> Iterator[Callable[..., BatchServer]]:
    opened: list[BatchServer] = []

    def serve(reply: Callable = answer, **options: int) -> BatchServer:
        opened.append(BatchServer(reply, **options))
        return opened[-1]

    yield serve
    for each in opened:
        each.close()


def look_up(ticket: str) -> str:
    """Look a ticket up."""
    return f"{ticket} is in the files"


def mapped(
    provider: Provider,
    count: int,
    store: Store | None = None,
    *,
    rows: list[dict[str, str]] | None = None,
    samples: int = 1,
) -> MapRun:
    agent = Agent(provider, tools=[look_up])
    return map_agents(
        agent,
        rows or tickets(count),
        key="id",
        prompt="text",
        output=Decision,
        store=store,
        batch=LOOK,
        name="b",
        samples=samples,
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", [responses, messages])
def test_all_requests_go_in_batches_and_a_refused_one_is_a_row(serving, kind: Kind):
    server = serving()
    run = mapped(kind(server), 7).wait()
    assert run.problem == ""
    table = run.table()
    wanted = [category(each["text"]) for each in tickets(7)]
    assert [row for n, row in enumerate(table["category"]) if n != 4] == [
        *wanted[:4],
        *wanted[5:],
    ]
    assert "RequestRefused" in table["error"][4]
    assert server.sizes == [7, 6]
    assert table["tokens"][0] == 220


@pytest.mark.slow
def test_two_samples_of_a_row_go_in_batches_one_after_the_other(serving):
    server = serving()
    run = mapped(responses(server), 3, samples=2).wait()
    assert set(run.review()["doubt"]) == {""}
    assert server.sizes == [3, 3, 3, 3]
    assert run.table()["tokens"][0] == 2 * 220


@pytest.mark.slow
def test_batches_cost_half(serving):
    server = serving()
    provider = AnthropicProvider(
        "claude-haiku-4-5", base_url=server.url, api_key=lambda: "k", window=9_000
    )
    provider._known = model_info("claude-haiku-4-5", provider="anthropic")
    whole = 2 * (100 * 1.0 + 10 * 5.0) / 1e6  # dollars per million tokens of this model
    run = mapped(provider, 2).wait()
    assert run.table()["dollars"][0] == pytest.approx(whole / 2)


@pytest.mark.slow
def test_another_process_reads_the_replies_of_a_batch_that_was_sent(
    serving, tmp_path: Path
):
    url = f"sqlite:///{tmp_path / 'x.db'}"
    server = serving(looks=-1)
    first = mapped(responses(server), 3, Store(url))
    while not (server.batches and Store(url).results("b").batches()):
        threading.Event().wait(0.005)
    first.stop().wait()
    assert first.counts.done == 0
    server.looks = 0
    again = mapped(responses(server), 3, Store(url)).wait()
    assert list(again.table()["category"]) == ["card", "transfer", "other"]
    assert server.sizes == [3, 3]
    assert Store(url).results("b").batches() == {}


@pytest.mark.slow
def test_the_reply_to_an_earlier_input_is_not_read_for_a_later_one(
    serving, tmp_path: Path
):
    url = f"sqlite:///{tmp_path / 'x.db'}"

    def echoed(body: dict) -> str:
        found = "transfer" if "it is late" in json.dumps(body) else "card"
        return json.dumps({"category": found, "ticket": "T0001"})

    server = serving(echoed, looks=-1)
    first = mapped(responses(server), 0, Store(url), rows=[{"id": "T", "text": "lost"}])
    while not (server.batches and Store(url).results("b").batches()):
        threading.Event().wait(0.005)
    first.stop().wait()
    server.looks = 0
    changed = [{"id": "T", "text": "it is late"}]
    again = mapped(responses(server), 0, Store(url), rows=changed).wait()
    assert list(again.table()["category"]) == ["transfer"]
    assert Store(url).results("b").batches() == {}


@pytest.mark.slow
def test_a_request_whose_batch_expired_is_sent_again(serving):
    sent: list[dict] = []

    def expiring(body: dict) -> object:
        sent.append(body)
        return 0 if len(sent) == 1 else answer(body)

    run = mapped(messages(serving(expiring)), 1).wait()
    assert list(run.table()["category"]) == ["card"]
    assert sent[0] == sent[1]


def test_a_provider_without_batches_is_refused_at_once():
    with pytest.raises(ConfigError, match="leave out batch=True"):
        map_agents(Agent(Desk()), ["hello"], batch=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [responses, messages])
def test_content_that_a_batch_refuses_is_left_out_of_the_next_one(serving, kind: Kind):
    def refusing(body: dict) -> str | tuple[str, dict] | int:
        text = json.dumps(body)
        if "base64" in text:
            return 400
        return "fine" if "picture follows" in text else ("shot", {})

    def shot() -> bytes:
        """Take a picture of the screen."""
        return png()

    server = serving(refusing)
    agent = Agent(kind(server), tools=[shot])
    rows = list(map_agents(agent, ["a", "b"], batch=LOOK, name="p").wait().rows())
    assert [row["value"] for row in rows] == ["fine", "fine"]
    assert server.sizes == [2, 2, 2]
