"""Who may use one event type or one subscription: the lists of its `authorization`, as pure decisions.

    {"admins": [{"data_type": "service", "value": "billing"}], "readers": [{"data_type": "*", "value": "*"}], …}

An attribute names keys: those whose name is its `value`, whatever its `data_type` says; `*` and `*` are all keys. `readers`
and `writers` narrow what scopes allow: who is not on the list may not, even with the scope. `admins` may change and delete
what the list is of, without another scope. The scope `admin` needs no list. Where nothing is said, scopes decide alone.
"""

from collections.abc import Sequence
from typing import Any

from meantime.access.scopes import Identity
from meantime.errors import Forbidden, Invalid

ADMINS, READERS, WRITERS = "admins", "readers", "writers"
OF_EVENT_TYPES = (ADMINS, READERS, WRITERS)
OF_SUBSCRIPTIONS = (ADMINS, READERS)
ANY = "*"


def check_authorization(given: object, lists: Sequence[str]) -> None:
    """Raise Invalid unless it is nothing at all, or all these lists and no others, each with an attribute at least."""
    if given is None:
        return
    if not isinstance(given, dict) or set(given) != set(lists):
        raise Invalid(f"authorization has to be an object with these lists of attributes: {', '.join(lists)}")
    for name in lists:
        if not isinstance(given[name], list) or not given[name]:
            raise Invalid(f"authorization.{name} has to be a list of attributes, at least one")
        if not all(map(_is_attribute, given[name])):
            raise Invalid(f"authorization.{name}: an attribute is an object with the texts data_type and value")


def _is_attribute(given: object) -> bool:
    if not isinstance(given, dict) or set(given) != {"data_type", "value"}:
        return False
    return all(isinstance(text, str) and text and "\x00" not in text for text in given.values())


def is_listed(identity: Identity, authorization: Any, *lists: str) -> bool:
    """Whether one of the lists names this key; with the scope `admin` it need not."""
    if identity.may("admin"):
        return True
    if not isinstance(authorization, dict):
        return False
    attributes = [one for name in lists for one in authorization.get(name) or ()]
    return any(_names(one, identity) for one in attributes)


def _names(attribute: Any, identity: Identity) -> bool:
    if not isinstance(attribute, dict):
        return False
    kind, value = attribute.get("data_type"), attribute.get("value")
    return (kind == ANY and value == ANY) or (bool(identity.name) and value == identity.name)


def require_listed(identity: Identity, authorization: Any, what: str, *lists: str) -> None:
    """Raise Forbidden where there is an authorization and none of these lists of it names this key."""
    if authorization is not None and not is_listed(identity, authorization, *lists):
        raise Forbidden(f"the authorization of {what} does not list this key among its {' or '.join(lists)}")
