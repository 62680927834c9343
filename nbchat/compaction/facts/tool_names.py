"""Decide by a tool's name whether it changes something: `cancel_order`, `user_delete`.

A name is read word by word. Verbs that are nouns, too, act only where no word says that
they are looked up: `refund_payment` acts, `refund_status` does not.
"""

import re
from functools import lru_cache

CACHED_NAMES = 5_000
"""Names of tools and fields that are remembered: the same ones come again and again."""


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_VERBS = word_set(
    """
    accept acknowledge activate add adjust allocate append apply approve archive
    assign attach authorize ban block book buy cancel capture change charge clear
    clone close commit complete confirm create credit deactivate decline deduct
    delete deliver deploy deposit detach disable dismiss dispatch drop edit enable
    enroll escalate exchange expire extend finalize finish fix forward freeze
    fulfill give grant hold insert install invite issue kill launch link lock make
    mark merge mkdir modify move mute notify open order patch pause pay place post
    publish purchase push put reactivate reassign rebook reboot redeem refuel refund
    register reject release remove rename reopen replace reply request reschedule
    reseat resend reserve reset resolve restart restock restore resume retry return
    revert revoke rollback rotate save scale schedule sell send set ship sign start
    stop store submit subscribe suspend swap terminate toggle top transfer
    transition trigger turn unassign unblock unfreeze uninstall unlink unlock
    unsubscribe update upgrade upload upsert void waive withdraw write
    """
)
"""Verbs of tools that change something."""

_NOUNS = word_set(
    """
    book charge commit credit deposit exchange hold issue link mark open order patch
    place post purchase push refund release request return scale schedule ship sign
    stop store swap top transfer turn
    """
)
"""Those that are nouns or adjectives, too."""

_CREATING = word_set(
    """
    add append book buy create insert invite issue make order place post publish
    purchase register request reserve schedule send submit subscribe upload
    """
)
"""Verbs that create something, which the result is about."""

_LOOKS = word_set(
    """
    analyze browse calculate can check compare compute count describe diff editor
    estimate explain fetch find get has how inspect is list look lookup manager
    preview query quote read review scan search show simulate summarize test think
    tool translate validate verify view
    """
)
"""Words of tools that only look, or of which the name does not say what they do."""

_ABOUT = word_set(
    """
    availability balance by count counts detail details difference fee fees for
    history hours info locations log logs notes of options points policies policy
    positions report reports score sellers state stats status stories summary
    timeline times
    """
)
"""Words after which a verb is a noun: `order_details`, `open_positions`."""

_BEFORE_VERBS = word_set(
    """
    async auto batch bulk do execute force perform process quick safe try
    """
)
"""Words before the verb that say only how it is done."""

MOST_BEFORE_VERB = 3
"""Words before a verb, such as a service's name: `aws_ec2_terminate_instances`."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(CACHED_NAMES)
def snake(name: str) -> str:
    """A name in snake case, as `orderId` in `order_id`."""
    return _CAMEL.sub("_", name).replace("-", "_").replace(" ", "_").lower()


def singular(word: str) -> str:
    """An English noun in its singular."""
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


@lru_cache(CACHED_NAMES)
def things_looked_up(tool: str) -> tuple[str, ...]:
    """The things in a look-up's name: `order` of `get_order` and `order_details`."""
    first, *rest = re.split(r"_by_|_for_", snake(tool))[0].split("_")
    while first not in _LOOKS and not _LOOKS.isdisjoint(rest):  # after a service's name
        first, *rest = rest
    words = rest if first in _LOOKS else []
    if rest and rest[-1] in _ABOUT and not (first in _LOOKS or acts(tool)):
        words = [first, *rest]
    return tuple(singular(word) for word in words if word not in _ABOUT)


@lru_cache(CACHED_NAMES)
def acts(tool: str) -> bool:
    """Whether a tool's name says that it changes something."""
    verb, rest = _verb_of(tool)
    is_looked_up = not (_LOOKS | _ABOUT).isdisjoint(rest)
    return bool(verb) and not (verb in _NOUNS and is_looked_up)


def verb_of(tool: str) -> str:
    """The verb of a tool that changes something; empty for another tool."""
    return _verb_of(tool)[0] if acts(tool) else ""


@lru_cache(CACHED_NAMES)
def creates(tool: str) -> bool:
    """Whether a tool's name says that it creates something."""
    return verb_of(tool) in _CREATING


@lru_cache(CACHED_NAMES)
def is_done_form(tool: str, word: str) -> bool:
    """Whether a word says that what the tool does is done: `cancelled` of `cancel`."""
    verb, _ = _verb_of(tool)
    return bool(verb) and word in participles(verb)


def participles(verb: str) -> set[str]:
    """The forms of a verb that say that it is done."""
    if verb in _IRREGULAR:
        return {_IRREGULAR[verb]}
    regular = {f"{verb}ed", f"{verb}d", f"{verb}{verb[-1]}ed"}
    return regular | ({f"{verb[:-1]}ied"} if verb.endswith("y") else set())


_IRREGULAR = {
    "buy": "bought",
    "freeze": "frozen",
    "give": "given",
    "hold": "held",
    "make": "made",
    "pay": "paid",
    "put": "put",
    "rollback": "rolled",
    "sell": "sold",
    "send": "sent",
    "set": "set",
    "unfreeze": "unfrozen",
    "withdraw": "withdrawn",
    "write": "written",
}
"""Participles that do not end in `ed`."""

DONE_FORMS = frozenset(form for verb in _VERBS for form in participles(verb))
"""The participles of all verbs."""


def _verb_of(tool: str) -> tuple[str, list[str]]:
    """The verb that acts, or an empty text, and the words after it."""
    words = [word for word in snake(re.split(r"__|[.:/]", tool)[-1]).split("_") if word]
    while len(words) > 1 and words[0] in _BEFORE_VERBS:
        del words[0]
    first, *rest = words or [""]
    if first in _VERBS:
        return first, rest
    if not _LOOKS.isdisjoint(words):
        return "", []
    for place, verb in enumerate(rest, 1):  # after a service's name, or at the end
        is_placed = place < MOST_BEFORE_VERB or place == len(words) - 1
        if verb in _VERBS - _NOUNS and is_placed:
            return verb, words[place + 1 :]
    return "", []
