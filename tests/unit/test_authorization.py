from typing import Any

import pytest

from meantime.access.authorization import (
    ADMINS,
    OF_EVENT_TYPES,
    OF_SUBSCRIPTIONS,
    READERS,
    WRITERS,
    check_authorization,
    is_listed,
    require_listed,
)
from meantime.access.scopes import EVERYBODY, Identity
from meantime.errors import Forbidden, Invalid

ALL = {"data_type": "*", "value": "*"}
BILLING = {"data_type": "service", "value": "billing"}
LISTS = {"admins": [BILLING], "readers": [ALL], "writers": [BILLING]}


def key(name: str, *scopes: str) -> Identity:
    return Identity("k", frozenset(scopes), name)


@pytest.mark.parametrize(
    "given",
    [
        {},
        [],
        "all",
        {"readers": [ALL]},
        LISTS | {"deleters": [ALL]},
        LISTS | {"readers": []},
        LISTS | {"readers": None},
        LISTS | {"readers": ALL},
        LISTS | {"readers": ["billing"]},
        LISTS | {"readers": [{"value": "billing"}]},
        LISTS | {"readers": [BILLING | {"more": 1}]},
        LISTS | {"readers": [{"data_type": "", "value": "x"}]},
        LISTS | {"readers": [{"data_type": "service", "value": 7}]},
        LISTS | {"readers": [{"data_type": "service", "value": "a\x00"}]},
    ],
)
def test_what_is_no_authorization_is_refused(given: Any) -> None:
    with pytest.raises(Invalid, match="authorization"):
        check_authorization(given, OF_EVENT_TYPES)


def test_an_event_type_has_three_lists_and_a_subscription_two() -> None:
    check_authorization(LISTS, OF_EVENT_TYPES)
    check_authorization(None, OF_EVENT_TYPES)
    check_authorization({"admins": [ALL], "readers": [BILLING]}, OF_SUBSCRIPTIONS)
    with pytest.raises(Invalid):
        check_authorization(LISTS, OF_SUBSCRIPTIONS)


def test_a_key_is_listed_by_its_name_and_everybody_by_stars() -> None:
    assert is_listed(key("billing"), LISTS, WRITERS)
    assert not is_listed(key("shipping"), LISTS, WRITERS, ADMINS)
    assert is_listed(key("shipping"), LISTS, WRITERS, READERS)
    assert not is_listed(key("*"), {"readers": [BILLING]}, READERS)
    assert not is_listed(key(""), {"readers": [{"data_type": "service", "value": ""}]}, READERS)


def test_who_may_everything_needs_no_list() -> None:
    for identity in (EVERYBODY, key("x", "admin")):
        require_listed(identity, LISTS, "it", WRITERS)


def test_nothing_said_is_nothing_forbidden_and_what_cannot_be_read_forbids() -> None:
    require_listed(key("x"), None, "it", READERS)
    broken: tuple[Any, ...] = ("all", {}, {"readers": "x"}, {"readers": [7]}, {"readers": [{"value": ["x"]}]})
    for authorization in broken:
        with pytest.raises(Forbidden):
            require_listed(key("x"), authorization, "it", READERS)
