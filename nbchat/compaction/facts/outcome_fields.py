"""Fields and states of JSON results that say how a call went."""

import re

from nbchat.compaction.facts.tool_names import word_set

FAILED_STATE = re.compile(
    r"(?:.*_)?(?:aborted|bounced|conflict|declined|denied|err|error|errored|fail|failed"
    r"|failure|forbidden|invalid|ko|nok|not_found|offline|refused|rejected|rolled_back"
    r"|rolling_back|skipped|sold_out|timed_out|timeout|unauthorized|undelivered"
    r"|unsuccessful)"
)
"""States of an action that was not done."""

GOOD = word_set(
    """
    ok okay success successful succeeded complete completed done executed finished final
    """
)
"""States that say that an action is done, whatever it was."""

AGREED = word_set("approved confirmed processed settled")
"""States of what an action was about; of one that ends something they deny it."""

NEW = word_set("active available backlog live new online open opened ready to_do todo")
"""States of what has just been created."""

NEUTRAL = frozenset(("", "active", "enabled", "open"))
"""States that say nothing of what was changed."""

WAITING_STATE = re.compile(
    r"accepted|deferred|enqueued|in_progress|partial\w*|pending|processing|queued"
    r"|running|scheduled|started|starting|submitted|waiting|no_?op|unchanged"
    r"|not_modified"
)
DEMANDING_STATE = re.compile(
    r"action_required|confirmation_required|(?:awaiting|needs|requires|waiting_for)_\w+"
    r"|pending_(?:acceptance|action|approval|authori[sz]ation|confirmation|payment"
    r"|review|signature|verification)|(?:(?:in|under)_)?review|deferred|draft|enqueued"
    r"|on_hold|queued"
)
"""States of an action that was not done yet, and that wait for another one; these are
the action's also in a record."""

ACKNOWLEDGEMENT_FIELDS = 4
"""Fields of a result that only tells how a call went; in a record with more of them a
state such as `pending` is the record's."""

SUCCESS = word_set("is_success ok succeeded success successful")
CONSENT = word_set(
    """
    accepted acknowledged allowed applied authorized confirmed executed is_valid
    permitted valid
    """
)
ERRORS = re.compile(
    r"(?:is_|has_)?(?:\w+_)?(?:err|errors?|exceptions?|fault|(?:failure|rejection"
    r"|decline|denial)_reason)"
    r"(?:_?(?:causes?|codes?|description|details?|info|list|messages?|msgs?|name|reason"
    r"|string|summary|text|title|type))?"
)
"""Names of errors: `error`, `errorMessages`, `user_errors`, `faultstring`."""

SOME_FAILED = re.compile(
    r"errors?_count|failed(?:_\w+)?|failures?|rejected|skipped|ignored|conflicts"
    r"|invalid|unprocessed|dropped|bounced|not_found|missing|fehler|fehlgeschlagen"
    r"|abgelehnt|erreurs|echoues?|ignorees?|rejetee?s?|errores|rechazad[oa]s"
    r"|fallid[oa]s|omitid[oa]s|erros|recusad[oa]s|falhas|ignorad[oa]s|errori"
    r"|rifiutat[ei]|falliti|ошибки|ошибок|отклонено|пропущено|失败|失敗|错误|エラー"
    r"|실패"
)
LEFT = word_set(
    """
    left outstanding remaining rest to_do unfinished übrig rest restant restants
    restantes осталось 剩余 残り
    """
)
"""Counts of what failed, and of what was not reached."""

UNFINISHED = word_set("complete completed done finished")
WARNINGS = word_set("warning warnings")
NOT_ENDED = word_set("active enabled open running")
"""States of what has not ended."""

STATES = word_set(
    """
    outcome phase result stage state status estado estatus situacao situação statut état
    zustand stato статус состояние 状态 狀態 状態 상태 الحالة स्थिति
    """
)
STATE_ENDINGS = ("_state", "_status")

HTTP_CODES = word_set(
    """
    cod code http_code http_status http_status_code response_code status status_code
    """
)
EXIT_CODES = word_set(
    """
    errno exit_code exit_status exitcode rc return_code returncode
    """
)
COUNTS = word_set(
    """
    affected affected_rows changed changes matched_count modified_count row_count
    rowcount rows_affected
    """
)
DEMANDS = re.compile(r"(?:needs|requires)_\w+|\w+_required")
NEXT = re.compile(
    r"next(?:_(?:steps?|action|actions))?|action_required|required_actions?"
    r"|(?:\w+_)?(?:approval|confirmation|confirm|verification|checkout|payment|consent"
    r"|signing|authori[sz]ation)_(?:url|link|token|uri)|challenge|otp|tan"
    r"|validation(?:_errors)?|missing_\w+|awaiting(?:_\w+)?|pending_\w+|blocked_by"
    r"|blockers|queue_position|position_in_queue"
)
"""Fields that name the next step that is needed."""

WAITS = re.compile(
    r"(?:awaiting|waiting|pending|queued|required|needed|missing|submitted for"
    r"|requires?|needs|to be|erforderlich|ausstehend|requis|requerid[oa]|pendiente"
    r"|pendente|necessari[oa]|требуется|ожида\w+|待|需要|필요|대기|مطلوب|लंबित)\b"
)
"""How a value begins that says that something waits."""

RECEIPTS = word_set("ack acked acknowledged applied changed effective saved sent")
"""Fields that say yes or no to whether something was done."""

MODES = word_set("livemode has_more is_truncated truncated test")
"""Fields of which no says nothing of the action."""

ON = word_set("active enabled is_active is_enabled on running")
MESSAGES = word_set("message msg status_message mensaje mensagem meldung 消息")
NOTES = MESSAGES | word_set("detail details hint info note notes notice reason")
"""Fields in which a result says in words what happened."""

IDENTITY = re.compile(
    r"(?:^|_)(?:ids?|sid|uid|uuid|key|ref|reference|code|sha|etag|receipt|transaction"
    r"|confirmation|ts|version|revision|url|location|updated_at|modified_at)$"
)
"""Names of what something new or changed has."""

HAS_DIGIT = re.compile(r"\d")

TAG = re.compile(r"<(\w[\w.:-]{0,60})(?: [^<>]{0,200})?>([^<>]{0,2000})</\1>")
TAGS = re.compile(r"</?\w[^<>]{0,200}/?>|<\?xml[^<>]{0,200}\?>")

TRIALS = word_set(
    """
    check_only dry dry_run dryrun no_op noop plan_only preview simulate simulated
    test_mode validate_only what_if would_change
    """
)
TRIAL_MODES = word_set("dry dry_run dryrun plan preview simulate simulation test")
MEANT = word_set("apply commit confirm execute")
"""Arguments that make a call a trial where they are false."""

TELLS = word_set(
    """
    data description detail details documentation_url hint instance message msg
    output path reason request_id stack stderr stdout timestamp title trace_id
    traceback type
    """
)
"""Fields of a result that only tells about an error."""

ENVELOPE = word_set("body content data output payload response result results")
"""Fields in which services wrap what they return."""

YES, NO = ("true", "1", "yes"), ("false", "0", "no")
NOTHING = frozenset(
    ("", "0", "none", "null", "false", "no", "ok", "success", "[]", "{}")
)

ERROR_CODES = range(400, 600)
"""HTTP status codes of failures."""

DEEPEST, MOST_ITEMS, LONGEST_TAGS, LONGEST_PYTHON = 3, 200, 5_000, 100_000
"""Levels of envelopes, items of a list, and characters of tags and of what Python has
printed that are looked at."""
