"""Everything nbchat raises on purpose.

NbchatError                   one line: what was seen, and what to do
├── ConfigError               a setting that cannot work
├── AttachmentError           something a message points at that cannot be sent
├── HistoryError              entries that make no conversation
├── ModelFileError            the embedded model could not be fetched or loaded
├── StoreError                the session store could not be opened, read or written
│   ├── SessionTaken          another kernel has gone on with the session
│   └── SessionNotFound       there is no session of that id
├── ChatUnreachable           no chat listens in that kernel
├── CompactionError           a summary that was refused; carries a reason code
├── Stopped                   the person pressed Stop; control flow, not a fault
└── ProviderError             the model's server
    ├── AuthenticationFailed  401, 403: no key, a wrong key, a key without the right
    ├── RequestRefused        400, 404 and other faults of the request: unknown model
    ├── ContextOverflow       the request is longer than the model's window
    ├── QuotaExhausted        429 for money or plan: waiting does not help
    ├── RateLimited           429: waiting helps
    ├── Overloaded            5xx, 529: waiting helps
    ├── ConnectionFailed      no server there, reset, timeout
    └── ProtocolFault         an answer that is not what the API promises
"""


class NbchatError(Exception):
    """The base of everything raised on purpose; its text is one line for a person."""


class ConfigError(NbchatError):
    """A setting cannot work; says which, what was seen and what to set instead."""


class AttachmentError(NbchatError):
    """What a message points at is not there, is refused, or is too large."""


class HistoryError(NbchatError):
    """An entry is not made of five strings, or nobody has its role."""


class ModelFileError(NbchatError):
    """The embedded model's file is missing, broken or cannot be fetched."""


class StoreError(NbchatError):
    """The session store refused to open, read or write."""


class LogUnwritten(StoreError):
    """No log could be written into `log_folder`; the store is not concerned."""


class SessionTaken(StoreError):
    """Another kernel has gone on with the session; what is said here is not saved."""


class SessionNotFound(StoreError):
    """There is no session of that id."""


class ChatUnreachable(NbchatError):
    """No chat listens in a kernel: none has begun there, or it is elsewhere."""


class CompactionError(NbchatError):
    """A summary was refused; `reason` is the code of the gate that refused it."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep the gate's code beside the sentence."""
        super().__init__(message)
        self.reason = reason


class Stopped(NbchatError):
    """The person asked to stop; whatever had arrived is kept."""


class ProviderError(NbchatError):
    """The model's server failed; `is_retryable` says whether waiting can help."""

    is_retryable = False

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        """Keep the wait in seconds the server asked for, if it asked."""
        super().__init__(message)
        self.retry_after = retry_after


class AuthenticationFailed(ProviderError):
    """The server does not accept the key."""


class RequestRefused(ProviderError):
    """The server calls the request wrong: unknown model, bad parameter."""


class ContextOverflow(ProviderError):
    """The request is longer than the model's context window."""


class QuotaExhausted(ProviderError):
    """The account has no money or plan left; retrying is useless."""


class RateLimited(ProviderError):
    """Too many requests; the same request works later."""

    is_retryable = True


class Overloaded(ProviderError):
    """The server is busy or broken for now."""

    is_retryable = True


class ConnectionFailed(ProviderError):
    """No answer came: nothing listens, the line was cut, or it stalled."""

    is_retryable = True


class ProtocolFault(ProviderError):
    """The answer is not what the API promises; half an answer is one, too."""

    is_retryable = True
