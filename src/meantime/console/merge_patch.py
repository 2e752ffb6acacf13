"""What has changed between two states, as a JSON merge patch (RFC 7396): objects are merged, null takes a field away, and
anything else is replaced as a whole. A state has no null itself: what is not known is not there.
"""

from typing import Any

Json = dict[str, Any]


def difference(before: Json, after: Json) -> Json:
    """The patch that makes `after` of `before`."""
    patch: Json = {name: None for name in before if name not in after}
    for name, value in after.items():
        if name not in before:
            patch[name] = value
            continue
        old = before[name]
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := difference(old, value):
                patch[name] = inner
        elif old != value:
            patch[name] = value
    return patch


def patched(before: Json, patch: Json) -> Json:
    """The state that a patch makes; the same that a browser does."""
    after = dict(before)
    for name, value in patch.items():
        if value is None:
            after.pop(name, None)
        elif isinstance(value, dict):
            old = after.get(name)
            after[name] = patched(old if isinstance(old, dict) else {}, value)
        else:
            after[name] = value
    return after
