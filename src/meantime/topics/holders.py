"""Who holds a lease, as it is stored: a consumer and the key with which it came, if keys are asked for.

So the consumer id of one key is not that of another: nobody extends, releases, deletes or gets back what was leased with
another key. Outside only the consumer id is shown.
"""

_BETWEEN = "/"
"""No part of a consumer id."""


def holder_of(consumer_id: str, key_id: str | None) -> str:
    return consumer_id if key_id is None else f"{consumer_id}{_BETWEEN}{key_id}"


def consumer_of(holder: str) -> str:
    """The consumer id alone."""
    return holder.partition(_BETWEEN)[0]
