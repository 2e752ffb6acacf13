"""Which messages of a topic somebody means, as pure decisions: whether a filter makes sense, and where what it holds stands.

What the status of a message is follows from its instant, its stage and its lock (`rules.status`), so a status is a range of
instants in each of the places that an index keeps apart.
"""

from meantime.errors import Invalid
from meantime.names import is_identifier
from meantime.topics.model import MessageFilter, MessageRanges, MessageStage
from meantime.topics.rules import AVAILABLE, DEAD, PROCESSING, WAITING
from meantime.topics.storage.messages import FIRST_MS, LAST_MS

STATUSES = (WAITING, PROCESSING, AVAILABLE, DEAD)
_NONE = (1, 0)
_OPEN, _LAST = int(MessageStage.OPEN), int(MessageStage.LAST)


def check_filter(wanted: MessageFilter) -> None:
    if wanted.status is not None and wanted.status not in STATUSES:
        raise Invalid(f"status must be one of {', '.join(STATUSES)}, not {wanted.status!r}", field="status")
    if wanted.id_prefix and not is_identifier(wanted.id_prefix):
        raise Invalid("id_prefix must be the beginning of a message id", field="id_prefix")
    if wanted.ids is not None and (wanted.id_prefix or wanted.from_ms is not None or wanted.to_ms is not None):
        raise Invalid("ids name the messages themselves: give no id_prefix, from_ms or to_ms besides", field="ids")


def ranges_of(wanted: MessageFilter, now_ms: int) -> MessageRanges:
    first = FIRST_MS if wanted.from_ms is None else max(wanted.from_ms, FIRST_MS)
    end = LAST_MS if wanted.to_ms is None else min(wanted.to_ms, LAST_MS)
    past, ahead = (first, min(end, now_ms + 1)), (max(first, now_ms + 1), end)
    found = {
        None: MessageRanges((first, end), (first, end), (_OPEN, _LAST), (first, end)),
        WAITING: MessageRanges(ahead, _NONE, (), _NONE),
        PROCESSING: MessageRanges(_NONE, ahead, (_OPEN, _LAST), _NONE),
        AVAILABLE: MessageRanges(past, past, (_OPEN,), _NONE),
        DEAD: MessageRanges(_NONE, past, (_LAST,), (first, end)),
    }
    return found[wanted.status]
