"""The magics %chat and %%chat.

Only light modules are imported here, which keeps `%load_ext nbchat` fast; the first use
of a magic imports the rest, or a thread does while the panel opens.
"""

from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from nbchat.config.layers import settings
from nbchat.errors import NbchatError
from nbchat.rendering.plain_text import terminal_text

if TYPE_CHECKING:
    from nbchat.jupyter.kernel_chat import KernelChat

ALIAS = "nbchat"
"""The line magic that is the same as %chat: people look for the package's name."""


@magics_class
class ChatMagics(Magics):
    """The magics of one shell; their first use opens the chat."""

    def __init__(self, shell: InteractiveShell) -> None:
        """Read the settings; raises UsageError for an invalid one."""
        super().__init__(shell)
        try:
            self.settings = settings(shell.config)
        except NbchatError as error:
            raise UsageError(terminal_text(str(error))) from None
        self._chat: KernelChat | None = None

    @no_var_expand
    @line_cell_magic
    def chat(self, line: str, cell: str | None = None) -> object:
        """Chat with a model in the notebook; long conversations are compacted.

        %chat                      show the chat panel
        %chat side                 open it beside the notebook (JupyterLab, Notebook)
        %chat /compact             run a command; %chat /help lists them
        session = %chat session    the Session: history, transcript, compactions
        agent = %chat agent        the Agent: run, ask, chat, engine
        %chat transcript           show the whole conversation, also without a kernel
        %chat transcript keep      the same, updated after each turn
        %chat fix                  attach the last error and ask how to fix it
        %%chat                     send the cell's text; the answer appears below it.
                                   Running the cell again replaces its turn
        %%chat add                 send it as another turn

        %config NbChat lists the settings.
        """
        try:
            if cell is None:
                return self._line(line.strip())
            if line.strip() not in ("", "add"):
                raise UsageError(f"%%chat takes only add, not {line.strip()!r}.")
            cell_id = "" if line.strip() else _cell_id(self.shell)
            self._open().send(cell.rstrip("\n"), cell_id=cell_id)
        except NbchatError as error:
            raise UsageError(terminal_text(str(error))) from None
        return None

    def close(self) -> None:
        """Close the chat, if one was opened."""
        if self._chat is not None:
            self._chat.close()
            self._chat = None

    def _line(self, line: str) -> object:
        match line:
            case "":
                self._open().reread()
                return self._open().panel()
            case "side":
                self._open().show_beside()
            case "session":
                return self._open().agent.session
            case "transcript":
                return self._open().conversation()
            case "transcript keep":
                self._open().keep_transcript()
            case "agent":
                self._open().reread()
                return self._open().agent
            case "fix":
                self._open().fix()
            case _:
                self._open().command(line)
        return None

    def _open(self) -> "KernelChat":
        if self._chat is None:
            # Not at the top: it imports the database and what the SDKs need.
            from nbchat.jupyter.kernel_chat import KernelChat  # noqa: PLC0415

            self._chat = KernelChat(self.settings, self.shell)
        return self._chat


def _cell_id(shell: InteractiveShell | None) -> str:
    """The id of the cell that runs, as JupyterLab names it; empty elsewhere."""
    get_parent = getattr(getattr(shell, "kernel", None), "get_parent", dict)
    parent: dict[str, Any] = get_parent() or {}
    return str(parent.get("metadata", {}).get("cellId", ""))


def open_beside() -> str:
    """Load nbchat, if it isn't, and return the id of the chat panel's widget model.

    The extension of JupyterLab calls this, maybe of another version: keep its name.
    """
    shell = get_ipython()
    if shell is None:
        raise UsageError("nbchat needs IPython.")
    load(shell)
    magics = shell.magics_manager.registry[ChatMagics.__name__]
    return str(magics.chat("").model_id)


def load(shell: InteractiveShell) -> None:
    """Register the magics and their settings with a shell, if they aren't yet."""
    if ChatMagics.__name__ in shell.magics_manager.registry:
        return
    magics = ChatMagics(shell)
    shell.register_magics(magics)
    line_magics = shell.magics_manager.magics["line"]
    line_magics[ALIAS] = line_magics["chat"]  # `%nbchat?` shows its docstring
    shell.configurables.append(magics.settings)  # type: ignore[arg-type]


def unload(shell: InteractiveShell) -> None:
    """Remove everything that `load` registered."""
    magics = shell.magics_manager.registry.pop(ChatMagics.__name__, None)
    if magics is None:
        return
    magics.close()
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("chat", None)
    shell.magics_manager.magics["line"].pop(ALIAS, None)
    for part in (magics, magics.settings):
        if part in shell.configurables:
            shell.configurables.remove(part)
