"""nbchat as a persona in the chats of jupyter-ai: `nbchat acp` behind its ACP client.

jupyter-ai finds it by the entry point `jupyter_ai.personas` and imports this module;
nothing else does. It needs the package jupyter-ai-acp-client, which jupyter-ai brings.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jupyter_ai_acp_client.base_acp_persona import BaseAcpPersona
from jupyter_ai_persona_manager import PersonaDefaults, PersonaRequirementsUnmet

COMMAND = (
    sys.executable,
    "-c",
    "from nbchat.cli.main import main; main(['acp'])",
)
"""Starts `nbchat acp` in the environment of the server, whatever its PATH is."""

if find_spec("acp") is None:
    raise PersonaRequirementsUnmet(
        "nbchat needs a package: pip install 'jupyter-nbchat[acp]'"
    )


class NbchatPersona(BaseAcpPersona):  # type: ignore[misc]  # it has no types
    """Answers in a chat of jupyter-ai; each chat is a session of nbchat."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, executable=list(COMMAND), **options)

    @property
    def defaults(self) -> PersonaDefaults:
        """The name and picture in the chat."""
        return PersonaDefaults(
            name="nbchat",
            description="Long conversations: old messages become a summary and facts.",
            avatar_path=str(Path(__file__).with_name("persona.svg")),
            system_prompt="unused",  # the session's own is in nbchat's settings
        )
