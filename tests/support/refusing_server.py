"""A server that refuses what public APIs refuse in the content of a request.

    server = RefusingServer("anthropic", takes_no_pictures)
    agent = Agent(server.provider(), ...)
    server.refused          # the messages of its refusals

It answers all other requests from its script, then with "fine", and a request for a
summary with one. Its rules are those of the published limits and of the bug reports that
`reference/tried-from-outside/robustness.md` names.
"""

import base64
import io
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from fault_server import FaultServer, Recorded, Response, answer, failure
from PIL import Image
from provider_kit import DIALECTS, provider_at

from nbchat.conversation.entries import Entry
from nbchat.providers.sdk_provider import SdkProvider

Json = dict[str, Any]
Rule = Callable[[Json], str | None]

SUMMARY = "<summary>\nThe person sent pictures and asked about them.\n</summary>"


class RefusingServer(FaultServer):
    """Refuses by a rule; `status` is that of its refusals."""

    def __init__(self, kind: str, rule: Rule | None = None, status: int = 400) -> None:
        super().__init__()
        self.kind, self.rule, self.status = kind, rule, status
        self.refused: list[str] = []
        self.reply: Callable[[Json], Response | None] = lambda _body: None
        """Answers a request; None leaves it to the script."""
        self._changing = threading.Lock()

    def provider(self, **options: Any) -> SdkProvider:
        options = {"window": 200_000, **options}
        return provider_at(self, self.kind, **options)

    def next_response(self, request: Recorded) -> Response:
        with self._changing:
            return self._next(request)

    def _next(self, request: Recorded) -> Response:
        if request.path.endswith(("count_tokens", "models")):
            return answer({"input_tokens": 10, "data": []})
        message = self.rule(request.body) if self.rule else None
        if message is not None:
            self.requests.append(request)
            self.refused.append(message)
            kind = "invalid_request_error"
            return failure(self.status, {"type": kind, "message": message})
        if (reply := self.reply(request.body)) is not None:
            self.requests.append(request)
            return reply
        if self._script:
            return super().next_response(request)
        self.requests.append(request)
        is_summary = "<summary>" in json.dumps(request.body)[-20_000:]
        return DIALECTS[self.kind].text(SUMMARY if is_summary else "fine")


def png(size: tuple[int, int] = (40, 30), colour: str = "black") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "PNG")
    return file.getvalue()


def picture(data: bytes, name: str = "plot.png", kind: str = "image/png") -> Entry:
    """A picture in a transcript as an earlier version of nbchat has left it there."""
    details = {
        "media_type": kind,
        "name": name,
        "data": base64.b64encode(data).decode(),
    }
    return Entry("user", f"The image {name}", "", "image", json.dumps(details))


def messages_of(body: Json) -> list[Json]:
    found: list[Json] = body.get("messages") or body.get("input") or []
    return found


def parts_of(body: Json) -> Iterator[tuple[int, int, Json]]:
    """Each part with the indices of its message and of itself."""
    for place, message in enumerate(messages_of(body)):
        content = message.get("content")
        if isinstance(content, list):
            for at, part in enumerate(content):
                yield place, at, part


def picture_data(part: Json) -> tuple[str, bytes] | None:
    """Media type and bytes of a part, on any wire; None for other parts."""
    match part:
        case {"type": "image", "source": {"media_type": kind, "data": data}}:
            return kind, base64.b64decode(data)
        case {"type": "image_url", "image_url": {"url": url}}:
            pass
        case {"type": "input_image", "image_url": url}:
            pass
        case _:
            return None
    head, _, data = url.partition(";base64,")
    return head.removeprefix("data:"), base64.b64decode(data)


def pictures_in(body: Json) -> list[tuple[str, bytes]]:
    found = (picture_data(part) for _, _, part in parts_of(body))
    return [each for each in found if each is not None]


def takes_no_pictures(
    message: str = "image_url is only supported by certain models.",
) -> Rule:
    return lambda body: message if pictures_in(body) else None


def has_readable_pictures(body: Json, *, is_named: bool = True) -> str | None:
    """Anthropic's rules for pictures: decodable, the right type, not too large."""
    found = [(m, at, picture_data(part)) for m, at, part in parts_of(body)]
    every = [each for each in found if each[2] is not None]
    most = 2_000 if len(every) > 20 else 8_000
    for place, at, each in every:
        assert each is not None
        fault = _fault(*each, most)
        if fault is not None:
            where = f"messages.{place}.content.{at}.image.source.base64: "
            return f"{where if is_named else ''}{fault}"
    return None


def _fault(kind: str, data: bytes, most: int) -> str | None:
    try:
        image = Image.open(io.BytesIO(data))
        image.load()
    except (OSError, SyntaxError):
        return "Could not process image"
    if Image.MIME[image.format or ""] != kind:
        return f"The image was specified using the {kind} media type, but it is not"
    if max(image.size) > most:
        return f"At least one of the image dimensions exceed max allowed size: {most}"
    return None


def has_own_thinking(model: str, *, is_named: bool = True) -> Rule:
    """Refuses thinking whose signature, or encrypted content, another model has made."""

    def rule(body: Json) -> str | None:
        for place, message in enumerate(messages_of(body)):
            blocks = [(at, part) for n, at, part in parts_of(body) if n == place]
            for at, block in [*blocks, (0, message)]:
                made = block.get("signature") or block.get("encrypted_content")
                if made and not made.startswith(model):
                    where = f"messages.{place}.content.{at}: " if is_named else ""
                    return f"{where}Invalid `signature` in `thinking` block"
        return None

    return rule
