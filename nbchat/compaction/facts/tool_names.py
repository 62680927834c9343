"""Read a tool's name: whether it changes something, and what says that it is done.

A name is read word by word. Verbs that are nouns, too, act only where no word says that
they are looked up: `refund_payment` acts, `refund_status` does not.
"""

import re
import unicodedata
from functools import lru_cache

CACHED_NAMES = 5_000
"""Names of tools and fields that are remembered: the same ones come again and again."""


def fold(text: str) -> str:
    """A text in small letters, and Latin ones without their accents."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFD", text.lower())
    kept = [
        sign
        for at, sign in enumerate(parts)
        if not (unicodedata.combining(sign) and at and parts[at - 1] < "\u0250")
    ]
    return unicodedata.normalize("NFC", "".join(kept)).replace("\u2019", "'")


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
    reseat resend reserve reset resolve renew restart restock restore resume retry
    return revert revoke rollback rotate save scale schedule sell send set share
    ship sign start stop store submit subscribe suspend swap terminate toggle top
    transfer transition trigger turn unassign unblock unfreeze uninstall unlink
    unlock unsubscribe update upgrade upload upsert void waive withdraw write
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
    "resend": "resent",
    "reset": "reset",
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


LEAST_STEM, ENDING = 4, 2
"""Letters of a stem that two words may share, and of a verb's ending."""

GROUPS = (
    word_set(
        """
        create add insert make open register save store write publish post build
        generate issue record upload import install invite book reserve order
        place
        """
    ),
    word_set(
        """
        end cancel remove delete drop close terminate stop void revoke disable
        deactivate archive resolve erase purge clear uninstall unsubscribe flush
        empty wipe
        """
    ),
    word_set(
        """
        update change modify edit set adjust rename move replace apply save
        assign patch transfer copy switch toggle turn swap reschedule write
        upgrade downgrade
        """
    ),
    word_set(
        """
        send deliver dispatch email mail notify forward invite share transmit
        """
    ),
    word_set(
        """
        book reserve confirm schedule register issue ticket order purchase buy
        """
    ),
    word_set(
        """
        pay charge transfer settle refund debit credit capture send withdraw
        deposit reimburse execute fill make approve authorize
        """
    ),
    word_set(
        """
        place trade sell buy order purchase execute fill exchange
        """
    ),
    word_set(
        """
        start run launch enable activate deploy resume restart boot reboot
        """
    ),
    word_set(
        """
        submit request file send report register create open apply post log
        raise receive accept lodge record
        """
    ),
    word_set(
        """
        reject decline deny refuse dismiss
        """
    ),
    word_set(
        """
        grant give allow add assign invite share enroll authorize
        """
    ),
)
"""Verbs that say of each other that they are done."""

ENDS = 1
"""The place of the verbs that end something."""

_HOLDS = word_set(
    "block deactivate decline dismiss freeze hold lock mute pause reject suspend"
)
"""Verbs by which something is kept from happening."""

_ALWAYS = word_set("complete execute finish succeed")
"""Verbs that say of every other verb that it is done."""

_MADE = word_set("add create make")
"""Verbs that say it of every verb that creates something."""

_AGREES = word_set("confirm process verify")
"""Verbs that say it of verbs that do not end something: a booking that is confirmed is
not cancelled."""

_PAST_FORMS = {
    "build": "built",
    "give": "gave",
    "make": "made",
    "run": "ran",
    "sell": "sold",
    "send": "sent",
    "write": "wrote",
}


@lru_cache(CACHED_NAMES)
def tool_words(tool: str) -> tuple[str, ...]:
    """The words of a tool's name in small letters, its verb first if it is known."""
    words = [word for word in re.split(r"[\W_]+", snake(tool)) if word]
    verb = verb_of(tool)
    return tuple(dict.fromkeys([verb, *words] if verb else words))


@lru_cache(CACHED_NAMES)
def own_forms(tool: str) -> frozenset[str]:
    """The words that say that what a tool does is done, in English."""
    return frozenset(form for verb in _verbs(tool) for form in _forms(verb))


@lru_cache(CACHED_NAMES)
def related_forms(tool: str) -> frozenset[str]:
    """The words of related verbs, as `removed` of a tool that deletes."""
    verbs = _verbs(tool)
    groups = (group for group in GROUPS if not group.isdisjoint(verbs))
    others = () if is_end(tool) else _AGREES
    made = _MADE if creates(tool) else ()
    related = verbs.union(_ALWAYS, others, made, *groups)
    return frozenset(form for verb in related for form in _forms(verb))


def _verbs(tool: str) -> set[str]:
    """The verb of a tool; all its words if none is known."""
    verb = verb_of(tool)
    return {verb} if verb else set(tool_words(tool))


def _forms(verb: str) -> set[str]:
    past = {_PAST_FORMS[verb]} if verb in _PAST_FORMS else set()
    return participles(verb) | past


def is_related(tool: str, *verbs: str) -> bool:
    """Whether a tool's name has a verb that is related to one of some verbs."""
    groups = (group for group in GROUPS if not group.isdisjoint(verbs))
    return any(not _verbs(tool).isdisjoint(group) for group in groups)


@lru_cache(CACHED_NAMES)
def positive_forms(tool: str) -> frozenset[str]:
    """The participles of all verbs, without those that end what the tool began."""
    ends = set() if is_end(tool) else GROUPS[ENDS] | _HOLDS
    return DONE_FORMS.difference(*map(participles, ends))


def is_end(tool: str) -> bool:
    """Whether a tool ends something or holds it, so that it is not active then."""
    return is_related(tool, "cancel") or not _HOLDS.isdisjoint(_verbs(tool))


def is_start(tool: str) -> bool:
    """Whether a tool lets something begin, so that it is done once that runs."""
    return is_related(tool, "launch") and "run" not in tool_words(tool)


@lru_cache(CACHED_NAMES)
def is_of(tool: str, field: str) -> bool:
    """Whether a field's name is a noun of what a tool does, as `booking` of `book`."""
    groups = (group for group in GROUPS if not group.isdisjoint(_verbs(tool)))
    verbs = _verbs(tool).union(tool_words(tool), *groups)
    words = field.split("_")
    stems = [verb.removesuffix("e") for verb in verbs if len(verb) >= LEAST_STEM - 1]
    return any(word.startswith(stem) for word in words for stem in stems)


def has_stem_of(tool: str, word: str) -> bool:
    """Whether a word has the stem of a word in a tool's name, in any language."""
    folded = fold(word)
    return any(stem in folded for stem in _stems(tool))


@lru_cache(CACHED_NAMES)
def _stems(tool: str) -> tuple[str, ...]:
    stems = [stem for word in tool_words(tool) for stem in _stems_of(fold(word))]
    return tuple(stems)


def _stems_of(word: str) -> list[str]:
    """A word without its ending; pairs of signs where words have no spaces."""
    if word[0] >= "\u2e80":
        return [word[at : at + 2] for at in range(len(word) - 1)]
    ending = ENDING if word[0] < "\u0400" else ENDING + 1
    is_arabic = "\u0600" <= word[0] < "\u0980"
    stem = word if is_arabic else word[: len(word) - ending]
    return [stem] if len(stem) >= LEAST_STEM - is_arabic else []


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
