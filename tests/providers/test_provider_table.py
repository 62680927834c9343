"""One contract for every provider's name, on servers that refuse what real ones refuse.

The same cells for each row of the table `nbchat/providers/provider_table.py`: they are the
table in tests/README.md.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.aws._auth import _get_session
from fault_server import (
    FaultServer,
    Recorded,
    Response,
    answer,
    failure,
    responses_call,
    responses_reasoning,
)
from openai_rules import chat_refusals, responses_refusals
from provider_kit import DIALECTS, KEY, at_home, drained
from watching_server import watching
from wire_rules import anthropic_cache_faults, anthropic_faults

from nbchat.conversation.entries import Entry
from nbchat.conversation.events import TextDelta, ThinkingDelta
from nbchat.conversation.tools import tool
from nbchat.errors import (
    AuthenticationFailed,
    ConfigError,
    NbchatError,
    RequestRefused,
    Stopped,
)
from nbchat.providers.base import Request, RequestOptions
from nbchat.providers.connect import connect
from nbchat.providers.endpoint import PRODUCTS
from nbchat.providers.openai_responses import ResponsesProvider
from nbchat.providers.provider_table import KINDS, SERVICES, service_of

HELLO = Request((Entry("user", "Hello"),))
PIXEL = "iVBORw0KGgo="
CALL = Entry("assistant", "", "c1", "add", '{"a": 1, "b": 2}')
RESULT = Entry("tool", "3", "c1", "add")
PLACES = {"GOOGLE_CLOUD_PROJECT": "proj", "GOOGLE_CLOUD_LOCATION": "global"}
VERTEX_CLAUDE = "/v1/projects/proj/locations/global/publishers/anthropic/models/"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@dataclass(frozen=True)
class Case:
    """A name as people write it, and what its server is like."""

    model: str
    wire: str
    base: str
    """The path of its address."""
    path: str
    """The path of a request for an answer."""
    header: tuple[str, str] = ("Authorization", f"Bearer {KEY}")
    lists: str = ""
    """The path of its list of models; empty if it has none."""
    listed: dict[str, Any] = field(default_factory=dict)
    """A model of the list, and so of the limits that it tells."""

    @property
    def kind(self) -> str:
        return self.model.partition(":")[0]

    @property
    def name(self) -> str:
        return self.model.partition(":")[2]


API_KEY = ("x-api-key", KEY)
CASES = {
    "anthropic": Case(
        "anthropic:claude-sonnet-5-new", "anthropic", "", "/v1/messages", lists="/v1/models"
    ),
    "openai": Case("openai:gpt-6-new", "responses", "/v1", "/v1/responses"),
    "gemini": Case(
        "gemini:gemini-new",
        "gemini",
        "/v1beta/openai",
        "/v1beta/openai/chat/completions",
        lists="/v1beta/openai/models",
    ),
    "azure": Case("azure:gpt-6-luna", "responses", "/openai/v1", "/openai/v1/responses"),
    "azure claude": Case(
        "azure:claude-haiku-5-5", "anthropic", "/anthropic", "/anthropic/v1/messages", API_KEY
    ),
    "bedrock": Case(
        "bedrock:openai.gpt-6-luna", "responses", "/openai/v1", "/openai/v1/responses"
    ),
    "bedrock claude": Case(
        "bedrock:anthropic.claude-haiku-5-5", "anthropic", "/anthropic", "/anthropic/v1/messages"
    ),
    "vertex": Case("vertex:gpt-6-luna", "responses", "/v1/x", "/v1/x/responses"),
    "vertex claude": Case(
        "vertex:claude-haiku-5-5",
        "anthropic",
        "/v1",
        f"{VERTEX_CLAUDE}claude-haiku-5-5:streamRawPredict",
    ),
    "ollama": Case(
        "ollama:qwen3:8b", "openai", "/v1", "/v1/chat/completions", lists="/v1/models",
        listed={"owned_by": "library"},
    ),
    "openrouter": Case(
        "openrouter:qwen/qwen3-new",
        "openai",
        "/api/v1",
        "/api/v1/chat/completions",
        lists="/api/v1/models",
        listed={
            "context_length": 131_072,
            "top_provider": {"context_length": 65_536, "max_completion_tokens": 8_192},
            "pricing": {"prompt": "0.0000002", "completion": "0.0000006", "input_cache_read": "0.00000002"},
        },
    ),
    "lmstudio": Case(
        "lmstudio:qwen3", "openai", "/v1", "/v1/chat/completions", lists="/v1/models",
        listed={"owned_by": "organization_owner"},
    ),
    "vllm": Case(
        "vllm:Qwen/Qwen3-8B", "openai", "/v1", "/v1/chat/completions", lists="/v1/models",
        listed={"owned_by": "vllm", "max_model_len": 40_960},
    ),
}  # fmt: skip
WINDOWS = {
    "ollama": 16_384,
    "openrouter": 65_536,
    "lmstudio": 12_288,
    "vllm": 40_960,
}
"""What those that tell it tell."""


class Faithful(FaultServer):
    """Answers legal requests to the paths of one provider; refuses what is illegal."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case
        self.faults: list[str] = []

    def next_response(self, request: Recorded) -> Response:
        if request.path.partition("?")[0] != self.case.path:
            self.requests.append(request)
            return self._told(request.path)
        name, value = self.case.header
        sent = {key.lower(): each for key, each in request.headers.items()}
        if sent.get(name.lower()) != value:
            return failure(401, {"message": "no key"})
        if self._is_illegal(request.body):
            return failure(400, {"message": f"illegal: {self.faults}"})
        return super().next_response(request)

    def _is_illegal(self, body: Any) -> bool:
        if self.case.wire == "responses":
            found = [each[0] for each in responses_refusals(body)]
        elif self.case.wire == "anthropic":
            found = anthropic_faults(body["messages"]) + anthropic_cache_faults(body)
            has_model = "model" in body
            if has_model == (self.case.kind == "vertex"):
                found.append("the model is in the path of Vertex, else in the body")
        else:
            compatible = {
                "model": "gpt-4",
                **{k: v for k, v in body.items() if k != "model"},
            }
            found = [
                each[0]
                for each in chat_refusals({**compatible, "reasoning_effort": None})
            ]
        self.faults += found
        return bool(found)

    def _told(self, path: str) -> Response:
        """What its questions about models are answered."""
        model = {"id": self.case.name, "object": "model", **self.case.listed}
        match path.partition("?")[0]:
            case "/api/ps":
                return answer(
                    {"models": [{"name": self.case.name, "context_length": 16_384}]}
                )
            case "/api/v0/models":
                return answer({"data": [{**model, "loaded_context_length": 12_288}]})
            case self.case.lists:
                return answer({"object": "list", "data": [model]})
        return failure(404, {"message": "no such path"})


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    for name, value in PLACES.items():
        monkeypatch.setenv(name, value)
    return CASES[request.param]


@pytest.fixture
def server(case: Case) -> Iterator[Faithful]:
    server = Faithful(case)
    yield server
    server.close()


def connected(server: Faithful, **options: Any) -> Any:
    url = server.url + server.case.base
    options = {"api_key": lambda: KEY, **options}
    if server.case.model.startswith(
        "openai:"
    ):  # elsewhere it means a compatible server
        return at_home(ResponsesProvider, url)(server.case.name, **options)
    return connect(server.case.model, base_url=url, **options)


def asked(server: Faithful, request: Request, response: Response | None = None) -> Any:
    """The body of a request, which must be legal."""
    server.script(response or DIALECTS[server.case.wire].text("ok"))
    drained(connected(server).stream(request))
    assert server.faults == []
    return server.requests[-1].body


def test_stream(server: Faithful):
    server.script(DIALECTS[server.case.wire].text("Hel", "lo"))
    deltas, reply = drained(connected(server).stream(HELLO))
    assert deltas == [TextDelta("Hel"), TextDelta("lo")]
    assert (reply.text, reply.model) == ("Hello", server.case.model)
    assert server.requests[-1].path.partition("?")[0] == server.case.path


def test_tools(server: Faithful):
    wire = DIALECTS[server.case.wire]
    server.script(wire.calls(("c1", "add", '{"a": 1, "b": 2}')), wire.text("Three."))
    provider = connected(server)
    first = replace(HELLO, tools=(add,))
    _, called = drained(provider.stream(first))
    assert [(c.tool_name, c.arguments) for c in called.calls] == [
        ("add", {"a": 1, "b": 2})
    ]
    history = (*first.history, *called.entries, replace_result(called))
    _, said = drained(provider.stream(replace(first, history=history)))
    assert said.text == "Three."
    assert server.faults == []


def replace_result(called: Any) -> Entry:
    return RESULT._replace(tool_id=called.calls[0].tool_id)


def test_images(server: Faithful):
    image = Entry(
        "user", "", "", "image", json.dumps({"data": PIXEL, "media_type": "image/png"})
    )
    body = asked(server, Request((image, Entry("user", "What is it?"))))
    assert PIXEL in json.dumps(body)


def test_reasoning(server: Faithful):
    """Effort is asked for in the words of the API, and thoughts are shown apart."""
    wire = DIALECTS[server.case.wire]
    thought: dict[str, Callable[[], Response]] = {
        "openai": lambda: wire.stream({"reasoning_content": "Hm."}, {"content": "Hi."}),  # type: ignore[arg-type]
        "gemini": lambda: wire.stream({"reasoning_content": "Hm."}, {"content": "Hi."}),  # type: ignore[arg-type]
        "responses": lambda: wire.stream(  # type: ignore[call-arg]
            responses_reasoning("rs_1", "Hm."), responses_call("c1", "add", "{}")
        ),
        "anthropic": lambda: wire.stream(  # type: ignore[call-arg]
            (
                {"type": "thinking", "thinking": "", "signature": ""},
                [
                    {"type": "thinking_delta", "thinking": "Hm."},
                    {"type": "signature_delta", "signature": "s"},
                ],
            ),
            ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Hi."}]),
        ),
    }
    server.script(thought[server.case.wire]())
    request = replace(HELLO, options=RequestOptions(effort="low"))
    deltas, reply = drained(connected(server).stream(request))
    assert ThinkingDelta("Hm.") in deltas
    assert "Hm." not in reply.text
    words = json.dumps(server.requests[-1].body)
    assert '"low"' in words


def test_cache(server: Faithful):
    """Cached tokens are part of the input; the request says what to cache where it can."""
    body = asked(server, replace(HELLO, system="Be kind."))
    marks = {"anthropic": "cache_control", "responses": "prompt_cache_key"}
    assert marks.get(server.case.wire, "") in json.dumps(body)
    server.script(DIALECTS[server.case.wire].text("ok", usage=(1_000, 7, 900)))
    _, reply = drained(connected(server).stream(HELLO))
    assert (reply.usage.input_tokens, reply.usage.cache_read_tokens) == (1_000, 900)


def test_usage(server: Faithful):
    server.script(DIALECTS[server.case.wire].text("ok", usage=(20, 5, 0)))
    _, reply = drained(connected(server).stream(HELLO))
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (20, 5)
    assert not reply.usage.is_estimated


def test_stop(case: Case):
    import threading
    import time

    with watching("silent") as silent:
        stop = threading.Event()
        provider: Any = connect(
            case.model,
            base_url=silent.url + case.base,
            api_key=lambda: KEY,
            window=9_000,
        )
        threading.Thread(target=lambda: (silent.began.wait(20), stop.set())).start()
        with pytest.raises(Stopped):
            list(provider.stream(HELLO, stop=stop))
        stopped_at = time.monotonic()
        assert silent.left.wait(20)
        assert silent.left_at - stopped_at < 0.3


def test_limits(server: Faithful):
    info = connected(server).info()
    listed = server.case.kind in WINDOWS
    if listed:
        assert info.window == WINDOWS[server.case.kind]
        assert info.sources["window"] == "the model's server"
    assert info.output_limit > 0
    told = server.case.listed.get("top_provider", {}).get("max_completion_tokens")
    assert told in (None, info.output_limit)


def test_a_wrong_key_is_named_with_its_variable(server: Faithful):
    provider = connected(server, api_key=lambda: "wrong-key-1234567")
    with pytest.raises(
        AuthenticationFailed, match=r"rejected the API key.\nCheck [A-Z]"
    ):
        drained(provider.stream(HELLO))


@pytest.mark.slow
def test_the_key_is_shown_nowhere(server: Faithful, caplog):
    caplog.set_level("DEBUG")
    server.script(
        DIALECTS[server.case.wire].text("ok"), failure(400, {"message": f"bad {KEY}"})
    )
    provider = connected(server)
    drained(provider.stream(HELLO))
    with pytest.raises(RequestRefused) as refused:
        drained(provider.stream(HELLO))
    assert KEY not in caplog.text + repr(provider) + str(refused.value)


def test_models_are_listed_or_it_is_said_that_they_are_not(server: Faithful):
    provider = connected(server)
    if server.case.lists:
        _, _, name = server.case.model.partition(":")
        assert {name, server.case.model} & {each.name for each in provider.catalog()}
    else:
        with pytest.raises(NbchatError):
            provider.catalog()


FEATURES = (
    "stream",
    "tools",
    "images",
    "reasoning",
    "cache",
    "usage",
    "stop",
    "limits",
)


def test_the_readme_of_the_tests_has_a_test_in_each_cell():
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    header = f"| provider | {' | '.join(FEATURES)} |"
    table = readme.partition(header)[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in table]
    assert cells == [
        [name, *(f"test_{feature}[{name}]" for feature in FEATURES)] for name in CASES
    ]
    assert all(callable(globals()[f"test_{feature}"]) for feature in FEATURES)


def test_every_row_of_the_table_has_a_case():
    rows = {service_of(case.kind, case.name) for case in CASES.values()}
    assert rows == {service for service in SERVICES if service.kind != "local"}


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"local"}))
def test_without_address_or_key_one_line_says_what_to_set(kind, monkeypatch):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", *PLACES):
        monkeypatch.delenv(name, raising=False)
    service = service_of(kind, "m")
    if not (service.needs_key or "{" in service.address):
        assert connect(f"{kind}:m").name == f"{kind}:m"
        return
    with pytest.raises(
        ConfigError,
        match=rf"{PRODUCTS[kind]} needs an (API key|address). Set [A-Z_]+",
    ):
        connect(f"{kind}:m")


@pytest.mark.parametrize(
    ("model", "environment", "address"),
    [
        ("azure:gpt-6", {"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/"}, "https://r.openai.azure.com/openai/v1"),
        ("azure:claude-x", {"ANTHROPIC_FOUNDRY_RESOURCE": "r"}, "https://r.services.ai.azure.com/anthropic"),
        ("bedrock:claude-x", {"AWS_REGION": "eu-west-1"}, "https://bedrock-mantle.eu-west-1.api.aws/anthropic"),
        ("bedrock:gpt-6", {"AWS_DEFAULT_REGION": "eu-west-1"}, "https://bedrock-mantle.eu-west-1.api.aws/openai/v1"),
        ("vertex:claude-x", PLACES, "https://aiplatform.googleapis.com/v1"),
        ("vertex:gpt-6", PLACES, "https://aiplatform.googleapis.com/v1/projects/proj/locations/global/publishers/openai/v1"),
        ("ollama:m", {"OLLAMA_BASE_URL": "http://127.0.0.1:5"}, "http://127.0.0.1:5/v1"),
    ],
)  # fmt: skip
def test_addresses_come_from_the_variables_of_the_sdks(
    monkeypatch, model, environment, address
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    provider: Any = connect(model, api_key=lambda: KEY)
    assert provider.endpoint.url == address
    client = provider._client
    assert str(client.base_url).rstrip("/") == address


def test_a_provider_that_closed_is_named_with_others_to_use():
    message = (
        r"^GitHub Models closed on July 30, 2026, so 'github:openai/gpt-5' can't be "
        r"used anymore\. Use another provider, such as openrouter:gpt-5 or openai:gpt-5\.$"
    )
    with pytest.raises(ConfigError, match=message):
        connect("github:openai/gpt-5")
    with pytest.raises(
        ConfigError, match=r"^GitHub Models closed .* or openai:NAME\.$"
    ):
        connect("github:")


def test_a_name_with_a_typo_gets_the_nearest():
    with pytest.raises(ConfigError, match=r"Did you mean openrouter:x/y\?"):
        connect("openruter:x/y")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["bedrock:claude-x", "bedrock:gpt-6"])
def test_aws_credentials_sign_requests_to_trusted_hosts_only(monkeypatch, model):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    case = CASES["bedrock claude" if "claude" in model else "bedrock"]
    server = FaultServer()
    for hosts, signs in ((("127.0.0.1",), True), ((), False)):
        server.script(DIALECTS[case.wire].text("ok"))
        provider: Any = connect(
            model, base_url=server.url + case.base, api_key_hosts=hosts
        )
        drained(provider.stream(HELLO))
        sent = {
            name.lower(): each for name, each in server.requests[-1].headers.items()
        }
        assert sent["authorization"].startswith("AWS4-HMAC-SHA256") == signs
        assert "wJalr" not in str(sent)
    server.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", ["bedrock:claude-x", "bedrock:gpt-6", "vertex:claude-x", "vertex:gpt-6"]
)
def test_missing_credentials_of_a_cloud_are_one_line(monkeypatch, tmp_path, model):
    for name in (
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_CONFIG_FILE",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    _get_session.cache_clear()  # of the SDK: another test's credentials
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    for name, value in PLACES.items():
        monkeypatch.setenv(name, value)
    kind = model.partition(":")[0]
    provider: Any = connect(model)
    line = (
        rf"no credentials for {PRODUCTS[kind]}. Run: "
        rf'pip install "jupyter-nbchat\[{kind}\]"'
    )
    with pytest.raises((AuthenticationFailed, ConfigError), match=line) as failed:
        drained(provider.stream(HELLO))
    assert len(str(failed.value).splitlines()) == 2
