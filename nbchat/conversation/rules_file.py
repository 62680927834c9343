"""Rules from a file of the project: `.nbchat/rules.md` or `AGENTS.md`, found and read.

    rules = read(*find(Path.cwd()), count=counter.count)
    Session([rules.entry])             # as it is sent: an attached file with a label
    rules_in(session.transcript)       # the rules that hold, for a compaction to keep

The text of a repository is somebody else's words: whoever uses this asks a person once
for each file and content. It goes to the model as an attachment, never as a person's
own message and never as a system prompt.
"""

import codecs
import hashlib
import json
import logging
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nbchat.conversation.entries import Entry
from nbchat.conversation.session import PIN_LIMIT, Session
from nbchat.errors import ConfigError

logger = logging.getLogger(__name__)

FILES = (".nbchat/rules.md", "AGENTS.md")
"""Paths in a project, the first one found is used: nbchat's own before the common."""

LIMIT_TOKENS = PIN_LIMIT

LIMIT_CHARACTERS = 8 * LIMIT_TOKENS
"""Twice what prose of so many tokens has: so much can be shown before a yes."""

LIMIT_BYTES = 4 * LIMIT_CHARACTERS
"""A character of UTF-8 has at most 4 bytes: no more of a file is read."""

DIGEST_CHARACTERS = 32
"""Of SHA-256 in hex: 128 bits, which no other text is found for."""

LABEL = "Rules from the file {}"

HOW_LONG = (
    "They hold unless the user says otherwise, and until newer ones replace them."
)

ENDED = "The rules from the file {} no longer hold."

Count = Callable[[str], int]
"""Counts the tokens of a text."""


class Found(NamedTuple):
    """A file of rules, and the folder that it must not leave."""

    path: Path
    project: Path


@dataclass(frozen=True, slots=True)
class RulesFile:
    """The rules of a file as they are sent, at most 2,000 tokens."""

    path: Path
    text: str
    digest: str
    """SHA-256 of the whole text, also of what was cut."""
    note: str = ""
    """A note on the text, such as where it was cut."""

    @property
    def name(self) -> str:
        """The path as a person knows it: `AGENTS.md`, `.nbchat/rules.md`."""
        is_own = self.path.parts[-2:] == Path(FILES[0]).parts
        return FILES[0] if is_own else self.path.name

    @property
    def title(self) -> str:
        """A line above the text: where it is from, and what is unusual about it."""
        return LABEL.format(self.name) + (f" ({self.note})" if self.note else "")

    @property
    def consent_key(self) -> str:
        """The scope of a person's yes: this content of this file."""
        named = os.fsencode(self.path) + b"\0" + self.digest.encode()
        return hashlib.sha256(named).hexdigest()

    @property
    def entry(self) -> Entry:
        """The rules as a labelled message of data."""
        details = {"note": self.note, "data": self.text, "rules": self.digest}
        return _entry(f"{self.title}. {HOW_LONG}", self.name, details)

    @property
    def ending(self) -> Entry:
        """The message that these rules no longer hold."""
        details = {"data": "", "rules": ""}
        return _entry(ENDED.format(self.name), self.name, details)


RulesSource = Callable[[RulesFile | None], RulesFile | None]
"""The rules that hold from now on, given those that were sent last."""


def find(folder: Path) -> Found | None:
    """The nearest `.nbchat/rules.md`, else `AGENTS.md`, up to the folder with `.git`.

    Where no folder above has one, only `folder` itself is looked into.
    """
    # Of os.path: those of Path raise an error for a folder that may not be entered.
    exists, is_file = os.path.exists, os.path.isfile
    folders = [folder, *folder.parents]
    ends = [n for n, each in enumerate(folders) if exists(each / ".git")]
    folders = folders[: ends[0] + 1] if ends else [folder]
    paths = (each / name for name in FILES for each in folders)
    return next((Found(p, folders[-1]) for p in paths if is_file(p)), None)


def read(path: Path, project: Path | None = None, *, count: Count) -> RulesFile | None:
    """The rules in a file; None if it is blank.

    Raises ConfigError, one line, for a file that cannot be read, that is no text, or
    that is outside of its `project`, as behind a symbolic link.
    """
    name = RulesFile(path, "", "").name
    try:
        resolved = path.resolve(strict=True)
        if project and not resolved.is_relative_to(project.resolve()):
            raise ConfigError(
                f"{name} isn't used: it's a link to a file outside of {project}."
            )
        if not resolved.is_file():
            raise ConfigError(f"{name} isn't used: it's not a file.")
        with resolved.open("rb") as file:
            content = file.read(LIMIT_BYTES + 1)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a link loop
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{name} can't be read: {reason}.") from error
    if b"\0" in content:
        raise ConfigError(f"{name} isn't used: it's not a text file in UTF-8.")
    return _rules(path, content, count)


class RulesReader:
    """Reads the same file again only when its size or its time has changed."""

    def __init__(self) -> None:
        self._seen: tuple[object, ...] = ()
        self._rules: RulesFile | None = None

    def read(
        self, path: Path, project: Path | None = None, *, count: Count
    ) -> RulesFile | None:
        """As the function `read`."""
        try:
            state = path.stat()
        except OSError as error:
            raise ConfigError(f"{path} can't be read: {error.strerror}.") from error
        seen = (path, project, state.st_mtime_ns, state.st_size, state.st_ino)
        if seen != self._seen:
            self._rules, self._seen = read(path, project, count=count), seen
        return self._rules


class GivenRules:
    """The rules of a path that a program gives, as the source of an agent's rules.

    Later changes of the file are followed; while it cannot be read, the last ones hold.
    """

    def __init__(self, path: str | Path, *, count: Count) -> None:
        """Read the file; raises ConfigError if there are no rules to read."""
        self._path, self._count = Path(path).expanduser().absolute(), count
        self._reader = RulesReader()
        self._rules = self._reader.read(self._path, count=count)
        if self._rules is None:
            raise ConfigError(f"{self._path} has no rules: the file is empty.")

    def __call__(self, _sent: RulesFile | None) -> RulesFile | None:
        """The rules in the file now."""
        try:
            self._rules = self._reader.read(self._path, count=self._count)
        except ConfigError as error:
            logger.warning("%s Its last rules stay in force.", error)
        return self._rules


class SentRules:
    """The newest rules in a session; of each transcript only new entries are read."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._length = 0
        self._newest: Entry | None = None

    def news(
        self,
        source: RulesSource | None,
        session: Session,
        attached: Iterable[Entry] = (),
    ) -> list[Entry]:
        """The attachments of the next message, after what the rules' source has new.

        Rules among them, as those of a message that is sent again, are not sent twice.
        """
        attached = list(attached)
        if source is None:
            return attached
        others = [each for each in attached if not each.is_rules]
        sent = self._in(session)
        known = rules_in([sent] if sent else [])
        before = rules_in(attached) or known
        wanted = source(before)
        if _digest(wanted) == _digest(known):
            return others
        new = wanted.entry if wanted else known.ending if known else None
        return [new, *others] if new else others

    def _in(self, session: Session) -> Entry | None:
        """The newest entry of rules in a session."""
        if session is not self._session:
            self._session, self._length, self._newest = session, 0, None
        new = session.transcript[self._length :]
        self._length += len(new)
        self._newest = next((e for e in reversed(new) if e.is_rules), self._newest)
        return self._newest


def rules_source(
    rules: str | Path | RulesSource | None, *, count: Count
) -> RulesSource | None:
    """The source of an agent's rules: of a path the file itself."""
    return GivenRules(rules, count=count) if isinstance(rules, str | Path) else rules


def rules_in(entries: Sequence[Entry]) -> RulesFile | None:
    """The rules from a file that hold after these entries; None if there are none.

    Pass `session.included_transcript`: what a person excluded is not among them.
    """
    newest = next((each for each in reversed(entries) if each.is_rules), None)
    match newest.arguments if newest else {}:
        case {"name": str(name), "data": str(text), "rules": str(digest), **others}:
            note = str(others.get("note", ""))
            return RulesFile(Path(name), text, digest, note) if text else None
    return None


def without_rules(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The entries, rules of files among them as any other attached files.

    For a conversation from elsewhere: the yes of its author is not that of its reader.
    """
    for entry in entries:
        if entry.is_rules:
            details = {k: v for k, v in entry.arguments.items() if k != "rules"}
            yield entry._replace(tool_args=json.dumps(details))
        else:
            yield entry


def _digest(rules: RulesFile | None) -> str:
    return rules.digest if rules else ""


def _entry(caption: str, name: str, details: dict[str, str]) -> Entry:
    details = {"media_type": "text/plain", "name": name, **details}
    return Entry("user", caption, "", "file", json.dumps(details))


def _rules(path: Path, content: bytes, count: Count) -> RulesFile | None:
    """The rules in the bytes of a file, with notes of what is unusual."""
    is_whole = len(content) <= LIMIT_BYTES
    decode = codecs.getincrementaldecoder("utf-8-sig")
    notes = []
    try:
        whole = decode().decode(content[:LIMIT_BYTES], final=is_whole)
    except UnicodeDecodeError:
        whole = decode("replace").decode(content[:LIMIT_BYTES], final=is_whole)
        notes.append("bytes that are not UTF-8 are shown as \ufffd")
    whole = whole.replace("\r\n", "\n").strip()
    text = _cut(whole, count)
    if not text:
        return None
    if text != whole or not is_whole:
        notes.insert(0, f"only its beginning, up to {LIMIT_TOKENS:,} tokens")
    digest = hashlib.sha256(whole.encode()).hexdigest()[:DIGEST_CHARACTERS]
    return RulesFile(path, text, digest, "; ".join(notes))


def _cut(text: str, count: Count) -> str:
    """The beginning of a text, up to the limits; after a line where one ends late."""
    if len(text) <= LIMIT_CHARACTERS and count(text) <= LIMIT_TOKENS:
        return text
    sizes = range(min(len(text), LIMIT_CHARACTERS) + 1)
    size = bisect_right(sizes, LIMIT_TOKENS, key=lambda n: count(text[:n])) - 1
    end = text.rfind("\n", size // 2, size) + 1 or size
    return text[:end].rstrip()
