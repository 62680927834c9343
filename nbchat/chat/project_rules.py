"""Rules from a file of the notebook's project, used after a person agrees.

A cloned repository is written by others. So the text is shown, whole, before it is
used, and the answer applies to this content of this file. The store keeps it.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from nbchat.agent.agent import Agent
from nbchat.chat.chat_events import RulesOffered
from nbchat.conversation.rules_file import (
    FILES,
    RulesFile,
    RulesReader,
    RulesSource,
    find,
)
from nbchat.errors import ConfigError, NbchatError, StoreError
from nbchat.rendering.arguments import with_invisibles_escaped
from nbchat.storage.store import SessionStore

SCOPE = "rules"
"""The scope of the answers among the stored settings."""

STATES = {
    True: "in use. /rules ignore turns them off.",
    False: "not in use. /rules use turns them on.",
    None: "not in use yet. Choose /rules use or /rules ignore.",
}
"""Text of each answer in `/rules`."""


class ProjectRules:
    """The rules file of the folder in which a chat runs, and the answers about it."""

    def __init__(
        self,
        store: SessionStore,
        *,
        is_on: Callable[[], bool],
        offer: Callable[[RulesOffered], bool],
        folder: Callable[[], Path] = Path.cwd,
    ) -> None:
        """`is_on` says whether files of rules may be used at all.

        `offer` shows what waits for an answer, and that nothing does any more; it
        returns whether it has shown the whole text.
        """
        self._store, self._is_on, self._offer = store, is_on, offer
        self._folder = folder
        self._reader = RulesReader()
        self._answers: dict[str, bool] = {}
        self._offered = RulesOffered()
        self._shown = ""
        """The file and content that were shown last."""

    def source(self, agent: Agent) -> RulesSource:
        """The rules of an agent: those of the file after the person agreed."""
        return partial(self._in_force, agent)

    def look(self, agent: Agent) -> RulesFile | None:
        """Read the file again, and offer new rules that wait for an answer."""
        rules, problem = None, ""
        try:
            found = find(self._folder()) if self._is_on() else None
            if found is not None:
                count = agent.engine.tracker.counter.count
                rules = self._reader.read(*found, count=count)
        except ConfigError as error:
            problem = str(error)
        except OSError:  # the kernel's folder is gone
            pass
        is_waiting = rules is not None and self._answer(rules) is None
        offered = RulesOffered(rules if is_waiting else None, problem)
        if offered != self._offered:
            self._offered = offered
            self.offer_again()
        return rules

    def offer_again(self) -> None:
        """Offer waiting rules once more, as in a panel that was opened."""
        if self._offer(self._offered) and self._offered.rules:
            self._shown = self._offered.rules.consent_key

    def listing(self, agent: Agent) -> str:
        """The text of the file and whether it is used; empty without a file."""
        rules = self.look(agent)
        if rules is None:
            return self._offered.problem
        self._shown = rules.consent_key
        return f"{rules.title}: {STATES[self._answer(rules)]}\n{_text(rules)}"

    def answer(self, agent: Agent, *, is_yes: bool) -> str:
        """Use the file from the next message on, or not; returns a sentence on it.

        A yes counts for what was shown. Raises NbchatError where there is no file.
        """
        rules = self.look(agent)
        if rules is None:
            raise NbchatError(self._offered.problem or self._missing)
        if is_yes and rules.consent_key != self._shown:
            listing = self.listing(agent)
            return f"{listing}\n\nTo use these rules, run /rules use again."
        unsaved = self._keep(rules, is_yes=is_yes)
        self.look(agent)
        if is_yes:
            return f"The rules from {rules.name} apply from your next message.{unsaved}"
        return f"The rules from {rules.name} are off. /rules use turns them on."

    def _in_force(self, agent: Agent, sent: RulesFile | None) -> RulesFile | None:
        """The rules in force, given those that were sent last."""
        rules = self.look(agent)
        if rules is None:
            return None
        is_yes = self._answer(rules)
        if is_yes is None and sent is not None:  # a changed file waits for its answer
            earlier = replace(sent, path=rules.path)
            return sent if self._answer(earlier) else None
        return rules if is_yes else None

    def _answer(self, rules: RulesFile) -> bool | None:
        """The answer about this content; None if there was none."""
        key = rules.consent_key
        if key not in self._answers:
            with suppress(StoreError):
                stored = self._store.settings([SCOPE])
                found = {name: value is True for name, (_, value) in stored.items()}
                self._answers = found | self._answers
        return self._answers.get(key)

    def _keep(self, rules: RulesFile, *, is_yes: bool) -> str:
        """Keep an answer; returns a note if it can't be stored."""
        self._answers[rules.consent_key] = is_yes
        try:
            self._store.set_setting(SCOPE, rules.consent_key, is_yes)
        except StoreError as error:
            return f" nbchat remembers your answer until the kernel stops. {error.line}"
        return ""

    @property
    def _missing(self) -> str:
        if not self._is_on():
            return "Rules files are off. /set rules_files true turns them on."
        names = " or ".join(FILES)
        return f"This project has no rules file: no {names} with text was found."


def _text(rules: RulesFile) -> str:
    """The text with each character that cannot be seen written out."""
    return with_invisibles_escaped(rules.text)
