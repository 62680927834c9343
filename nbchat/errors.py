"""All errors that nbchat raises on purpose.

NbchatError                   a line for the person, then lines of details
├── ConfigError               a setting that cannot work
├── AttachmentError           an attachment that cannot be sent
├── HistoryError              entries that are not a conversation
├── ModelFileError            the embedded model could not be fetched or loaded
├── StoreError                the session store could not be opened, read or written
│   ├── LogNotWritten         no log in `log_folder`; the store is not affected
│   ├── NotErased             what was removed is still in a file of the database
│   ├── SessionTaken          another kernel continued the session
│   └── SessionNotFound       no session with that id
├── AnswerInvalid         no answer of the model fits the `output` that was asked for
├── PreviewFailed          what a tool call would do cannot be shown; it does not run
├── ChatUnreachable           no chat can be reached in that kernel
├── CompactionError           a summary was refused; `reason` is a code
├── Stopped                   the user pressed Stop; control flow, not a fault
└── ProviderError             the model's server failed
    ├── AuthenticationFailed  401, 403: no key, a wrong key, or a key without permission
    │   └── KeyWithheld       a server wants a key, and got none of another's
    ├── RequestRefused        400, 404 and other faults of the request
    │   └── UnknownModel      404: the server has no such model
    ├── ContextOverflow       the request is longer than the model's window
    ├── QuotaExhausted        429 for money or plan: waiting does not help
    ├── RateLimited           429: waiting helps
    ├── Overloaded            5xx, 529: waiting helps
    ├── ConnectionFailed      no server, lost connection, timeout
    └── ProtocolFault         an answer that breaks the API's rules
"""


def with_details(line: str, *details: str) -> str:
    """The text of an error: a line for the person, then details such as a status."""
    return "\n".join([line, *filter(None, details)])


class NbchatError(Exception):
    """Base class of all errors here: a line for the person, then lines of details."""

    @property
    def line(self) -> str:
        """The event and the advice, without the details."""
        return str(self).partition("\n")[0]


class ConfigError(NbchatError):
    """A setting cannot work; the text says which, and what to set instead."""


class AttachmentError(NbchatError):
    """An attachment of a message is missing, refused or too large."""


class HistoryError(NbchatError):
    """An entry is not five strings, or its role is unknown."""


class ModelFileError(NbchatError):
    """The embedded model's file is missing, broken or cannot be downloaded."""


class StoreError(NbchatError):
    """The session store could not be opened, read or written."""


class LogNotWritten(StoreError):
    """The log in `log_folder` could not be written; the store is not affected."""


class NotErased(StoreError):
    """Removed text is still in free space of the database."""


class SessionTaken(StoreError):
    """Another kernel continued the session; new messages here are not saved."""


class SessionNotFound(StoreError):
    """No session has that id."""


class AnswerInvalid(NbchatError):
    """No answer matches the requested type, also after another attempt."""


class PreviewFailed(NbchatError):
    """The effect of a call cannot be shown to a person, so it does not run."""


class ChatUnreachable(NbchatError):
    """No chat can be reached in the kernel: none was started, or it runs elsewhere."""


class CompactionError(NbchatError):
    """A summary was refused; `reason` is the code of the check that refused it."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep the code beside the text."""
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type["CompactionError"], tuple[str, str]]:
        """Pickled by both arguments; an exception keeps only one."""
        return type(self), (self.reason, str(self))


class Stopped(NbchatError):
    """The user pressed Stop; the partial answer is kept."""


class ProviderError(NbchatError):
    """The model's server failed; `is_retryable` says whether a retry can help."""

    is_retryable = False

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        """`retry_after` is the wait in seconds that the server asked for, if any."""
        super().__init__(message)
        self.retry_after = retry_after


class AuthenticationFailed(ProviderError):
    """The server does not accept the key."""

    kind = ""
    """The provider whose key it is, if it takes one."""


class KeyWithheld(AuthenticationFailed):
    """A server that is not the provider's wants a key; a person may send it."""

    def __init__(self, message: str, server: str) -> None:
        """`server` is its host and port."""
        super().__init__(message)
        self.server = server

    def __reduce__(self) -> tuple[type["KeyWithheld"], tuple[str, str]]:
        """Pickled by both arguments; an exception keeps only one."""
        return type(self), (str(self), self.server)


class RequestRefused(ProviderError):
    """The server refuses the request, such as for a bad parameter."""


class UnknownModel(RequestRefused):
    """The server has no such model."""


class ContextOverflow(ProviderError):
    """The request is longer than the model's context window."""


class QuotaExhausted(ProviderError):
    """The account's credit or plan is used up; a retry cannot help."""


class RateLimited(ProviderError):
    """Too many requests; the same request works later."""

    is_retryable = True


class Overloaded(ProviderError):
    """The server is overloaded or has an internal error; a retry can help."""

    is_retryable = True


class ConnectionFailed(ProviderError):
    """No answer arrived: no server at the address, a lost connection or a timeout."""

    is_retryable = True


class ProtocolFault(ProviderError):
    """The answer breaks the API's rules, or is incomplete."""

    is_retryable = True
