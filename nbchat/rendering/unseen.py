"""Characters that nobody sees, or that turn others around, written out as escapes."""

import re
import unicodedata

_UNSEEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}

_CANDIDATE = re.compile(r"[^\n\t\x20-\x7e]")


def with_unseen_shown(text: str) -> str:
    r"""The text with `\u202e` and the like in the place of what they stand for.

    Line breaks and tabs stay; JSON reads the same as before.
    """
    return _CANDIDATE.sub(lambda found: _shown(found[0]), text)


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _UNSEEN:
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
