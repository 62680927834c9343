"""What a site has set and locked: `nbchat_config.d/*.json` in Jupyter's config folders.

    {"NbChat": {"policy": "tiered"}, "locked": ["policy"]}

Files are merged in the order of their names, whatever folder they are in; of two files
with one name, that in the folder Jupyter lists first counts more. A locked setting is
set by the folder that locks it and those Jupyter lists after it, which belong to the
environment and the system: no file of a user's own gets past it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_config_path

from nbchat.errors import ConfigError

FOLDER = "nbchat_config.d"


@dataclass(frozen=True, slots=True)
class SiteFile:
    """One file: the settings it gives a value, and those it locks."""

    path: Path
    rank: int
    """The place of its folder in Jupyter's list; the last one is the system's."""
    values: Mapping[str, Any]
    locked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """All files merged."""

    values: Mapping[str, Any]
    origins: Mapping[str, Path]
    """The file each value is from."""
    locks: Mapping[str, Path]
    """The file that locks a setting."""


def read_site() -> Site:
    """The site's settings and locks; raises ConfigError naming a broken file."""
    folders = list(enumerate(dict.fromkeys(jupyter_config_path())))
    files = [
        _read(path, rank)
        for rank, folder in reversed(folders)
        for path in Path(folder, FOLDER).glob("*.json")
    ]
    return _merged(sorted(files, key=lambda file: file.path.name))


def _merged(files: Iterable[SiteFile]) -> Site:
    files = list(files)
    locks: dict[str, SiteFile] = {}
    for file in sorted(files, key=lambda file: file.rank):
        locks |= dict.fromkeys(file.locked, file)
    values: dict[str, Any] = {}
    origins: dict[str, Path] = {}
    for file in files:
        for name, value in file.values.items():
            if name not in locks or file.rank >= locks[name].rank:
                values[name], origins[name] = value, file.path
    return Site(values, origins, {name: file.path for name, file in locks.items()})


def _read(path: Path, rank: int) -> SiteFile:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        values, locked = dict(found.get("NbChat", {})), found.get("locked", [])
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ConfigError(
            f'{path} is not JSON of the form {{"NbChat": {{...}}}}: {error}'
        ) from error
    if not isinstance(locked, list) or not all(isinstance(n, str) for n in locked):
        raise ConfigError(
            f'{path}: "locked" must be a list of names, as in ["policy"], not {locked}'
        )
    return SiteFile(path, rank, values, tuple(locked))
