"""Read site files: settings and locks in `nbchat_config.d/*.json`.

    {"NbChat": {"policy": "tiered"}, "locked": ["policy"]}

The files of all Jupyter config folders are merged in the order of their names; of two
files with the same name, the one in the folder that Jupyter lists first wins. Only the
folder that locks a setting, and folders that Jupyter lists after it (environment and
system), can set its value: a user's own files cannot.
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
    """One file: its values, and the settings it locks."""

    path: Path
    rank: int
    """Index of its folder in Jupyter's list; the system's folder is last."""
    values: Mapping[str, Any]
    locked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """All site files, merged."""

    values: Mapping[str, Any]
    origins: Mapping[str, Path]
    """The file that sets each value."""
    locks: Mapping[str, Path]
    """The file that locks each locked setting."""


def read_site() -> Site:
    """Read and merge all site files; raises ConfigError naming a broken file."""
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
