"""Previews of what a message attaches, exactly as it will be sent.

A preview that was shown is kept, and sent as it was shown, whatever the variable is
then.
"""

import base64
import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import replace

from nbchat.agent.agent import Agent
from nbchat.chat.attachments.attachments import (
    Attachment,
    load_attachment,
    shown_error,
    unknown_name,
    uploaded,
)
from nbchat.chat.attachments.mentions import Mention, Resolver, mentions
from nbchat.conversation.entries import Entry
from nbchat.conversation.pastes import prompt_entry
from nbchat.conversation.pictures import thumbnail_of
from nbchat.errors import AttachmentError
from nbchat.jupyter.panel.protocol import Chip, Mentioned, Previewed
from nbchat.providers.base import image_of, user_text

PASTED = "It's in pasted text, so it isn't attached. Type it to attach it."

ERROR_OUTPUT = "application/vnd.jupyter.error"

KEPT_CHARACTERS = 20_000_000
"""Characters of previews: four of the largest pictures, or some thousand tables."""


class Previews:
    """Resolves mentions to attachments, and keeps those that were shown."""

    def __init__(
        self, resolver: Resolver | None, *, kept_characters: int = KEPT_CHARACTERS
    ) -> None:
        """Without a resolver no message attaches anything."""
        self._resolver = resolver
        self._kept_characters = kept_characters
        self._shown: OrderedDict[str, Attachment] = OrderedDict()
        self._changing = threading.Lock()

    def mentioned(
        self, agent: Agent, text: str, pasted: Collection[str] = ()
    ) -> Mentioned:
        """A chip for each mention in a text, with its size or its problem.

        A mention in what was pasted has one that says that nothing is attached.
        """
        typed = self._mentions(text, pasted)
        chips = [chip for each in typed if (chip := self._chip(agent, each))]
        others = (each for each in self._mentions(text, ()) if each not in typed)
        chips += [_problem(each, PASTED) for each in others if self._is_there(each)]
        return Mentioned(tuple(chips))

    def _mentions(self, text: str, pasted: Collection[str]) -> list[Mention]:
        """The text that the person typed, without pasted text."""
        spans = prompt_entry(text, pasted).pasted
        return mentions(text, self._resolver, pasted=spans)

    def _is_there(self, mention: Mention) -> bool:
        """True if typing this would attach something."""
        try:
            return self._attached(mention) is not None
        except AttachmentError:
            return False

    def uploaded(
        self, agent: Agent, name: str, media_type: str, data: str
    ) -> Mentioned:
        """A chip for a file that was dropped, pasted or picked, in base64.

        *Fix* below an error of a cell brings it as a file of its own type.
        """
        content = _decoded(data)
        if media_type == ERROR_OUTPUT and self._resolver is not None:
            attachment = shown_error(content, self._resolver)
        else:
            attachment = uploaded(name, media_type, content)
        return Mentioned((self._shown_chip(agent, attachment),))

    def previewed(self, agent: Agent, key: str) -> Previewed:
        """The attachment behind a chip."""
        with self._changing:
            shown = self._shown.get(key)
        if shown is None:
            raise AttachmentError("This preview has expired. Type the mention again.")
        picture = image_of(shown.entry)
        return Previewed(
            text=user_text(shown.entry),
            tokens=agent.engine.tracker.counter.count_entry(shown.entry),
            picture=f"data:{picture[0]};base64,{picture[1]}" if picture else "",
        )

    def entries(
        self, text: str, keys: Collection[str], pasted: Collection[str] = ()
    ) -> list[Entry]:
        """The attachments of a text: as shown under a key, or as they are now.

        Raises AttachmentError for what is missing.
        """
        with self._changing:
            shown = [self._shown.get(key) for key in keys]
        uploads = [each for each in shown if each and each.mention.kind == "upload"]
        known = {each.mention: each for each in shown if each}
        named = self._mentions(text, pasted)
        found = [known.get(each) or self._attached(each) for each in named]
        return [each.entry for each in (*found, *uploads) if each]

    def _attached(self, mention: Mention) -> Attachment | None:
        return (
            None if self._resolver is None else load_attachment(mention, self._resolver)
        )

    def _chip(self, agent: Agent, mention: Mention) -> Chip | None:
        try:
            attachment = self._attached(mention)
        except AttachmentError as error:
            return _problem(mention, str(error))
        if attachment is not None:
            return self._shown_chip(agent, attachment)
        unknown = unknown_name(mention, self._resolver) if self._resolver else ""
        return _problem(mention, unknown) if unknown else None

    def _shown_chip(self, agent: Agent, attachment: Attachment) -> Chip:
        count = agent.engine.tracker.counter.count_entry
        other = attachment.other
        return Chip(
            mention=attachment.mention.text,
            key=self._keep(attachment),
            tokens=count(attachment.entry),
            problem="",
            hidden=attachment.hidden,
            other="" if other is None else self._keep(replace(attachment, entry=other)),
            other_tokens=0 if other is None else count(other),
            is_described=attachment.is_described,
            thumbnail=thumbnail_of(attachment.entry),
        )

    def _keep(self, shown: Attachment) -> str:
        named = json.dumps([shown.mention.text, *shown.entry]).encode()
        key = hashlib.sha256(named).hexdigest()[:32]
        with self._changing:
            self._shown[key] = shown
            self._shown.move_to_end(key)
            while len(self._shown) > 1 and self._size() > self._kept_characters:
                self._shown.popitem(last=False)
        return key

    def _size(self) -> int:
        return sum(len(each.entry.tool_args) for each in self._shown.values())


def _problem(mention: Mention, reason: str) -> Chip:
    return Chip(mention.text, "", 0, reason, 0, "", 0, is_described=False, thumbnail="")


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        raise AttachmentError("The file arrived incomplete. Attach it again.") from None
