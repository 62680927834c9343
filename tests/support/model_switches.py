"""Random switches between five models on three APIs, and the turns that fail.

Each model refuses thinking of the others, one takes no pictures, some name no index in
their refusals. Tools return pictures, calls and texts; compactions come between.
"""

import random
from collections.abc import Callable

from fault_server import (
    AnthropicDialect,
    OpenAIDialect,
    Response,
    ResponsesDialect,
    responses_call,
    responses_reasoning,
    responses_text,
)
from refusing_server import (
    RefusingServer,
    Rule,
    has_own_thinking,
    has_readable_pictures,
    picture,
    png,
    takes_no_pictures,
)
from wire_rules import anthropic_faults, openai_faults, responses_faults

from nbchat.agent.agent import Agent
from nbchat.errors import NbchatError

MESSAGES, CHAT, RESPONSES = AnthropicDialect(), OpenAIDialect(), ResponsesDialect()


def either(*rules: Rule) -> Rule:
    def rule(body: dict) -> str | None:
        return next((said for each in rules if (said := each(body))), None)

    return rule


def unnamed(rule: Rule) -> Rule:
    return lambda body: "Bad request." if rule(body) else None


def legal(body: dict) -> str | None:
    """What is illegal in a request however its content is; never to be repaired."""
    if "input" in body:
        faults = responses_faults(body["input"])
    elif any(m["role"] in ("system", "tool") for m in body["messages"]):
        faults = openai_faults(body["messages"])
    else:
        faults = []
    return "; ".join(faults) or None


def legal_anthropic(body: dict) -> str | None:
    return "; ".join(anthropic_faults(body["messages"])) or None


def thinking(signature: str):
    start = {"type": "thinking", "thinking": "", "signature": ""}
    return start, [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": signature},
    ]


def anthropic_reply(name: str, number: int, *, calls: bool) -> Response:
    thought = thinking(f"{name}{number}")
    if calls:
        start = {
            "type": "tool_use",
            "id": f"t{name}{number}",
            "name": "shot",
            "input": {},
        }
        return MESSAGES.stream(thought, (start, []), stop="tool_use")
    said = {"type": "text", "text": ""}, [{"type": "text_delta", "text": "fine"}]
    return MESSAGES.stream(thought, said)


def responses_reply(name: str, number: int, *, calls: bool) -> Response:
    mark = f"rs_{name}{number}"
    thought = responses_reasoning(mark, "hm", encrypted=f"{name}{number}")
    item = (
        responses_call(f"c{number}", "shot", "{}") if calls else responses_text("fine")
    )
    return RESPONSES.stream(thought, item)


def openai_reply(_name: str, number: int, *, calls: bool) -> Response:
    return CHAT.calls((f"c{number}", "shot", "{}")) if calls else CHAT.text("fine")


MODELS: dict[str, tuple[str, Callable[..., Response], Rule]] = {
    "opus": (
        "anthropic",
        anthropic_reply,
        either(has_own_thinking("opus"), has_readable_pictures, legal_anthropic),
    ),
    "sonnet": (
        "anthropic",
        anthropic_reply,
        either(unnamed(has_own_thinking("sonnet")), legal_anthropic),
    ),
    "sol": ("responses", responses_reply, either(has_own_thinking("sol"), legal)),
    "luna": (
        "responses",
        responses_reply,
        either(unnamed(has_own_thinking("luna")), legal),
    ),
    "blind": ("openai", openai_reply, either(takes_no_pictures(), legal)),
}


def shot() -> bytes:
    """Take a picture of the screen."""
    return png(colour=random.choice(["red", "green", "blue"]))


def switched(seed: int, switches: int) -> tuple[int, int, int, list[str]]:
    """Turns, refused requests, failed turns and their errors."""
    chance = random.Random(seed)
    servers = {
        name: RefusingServer(kind, rule) for name, (kind, _, rule) in MODELS.items()
    }
    providers = {name: each.provider(model=name) for name, each in servers.items()}
    agent = Agent(providers["opus"], tools=[shot])
    failures: list[str] = []
    for turn in range(switches):
        name = chance.choice(list(MODELS))
        agent.use(providers[name])
        calls = [True] * chance.randrange(3) + [False]
        make = MODELS[name][1]
        script = [
            make(name, 100 * turn + n, calls=each) for n, each in enumerate(calls)
        ]
        servers[name].script(*script)
        attached = []
        if chance.random() < 0.2:
            whole = png((30, 30))
            data = whole if chance.random() < 0.5 else whole[:50]
            attached = [picture(data, f"{turn}.png")]
        try:
            agent.run(f"turn {turn}", attached=attached).result()
        except NbchatError as error:
            failures.append(f"{seed}.{turn} {name}: {error}")
        servers[name]._script.clear()
        if chance.random() < 0.15:
            list(agent.compact())
    refused = sum(len(each.refused) for each in servers.values())
    for each in servers.values():
        each.close()
    return switches, refused, len(failures), failures
