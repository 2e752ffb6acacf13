import pytest

from meantime.access.scopes import EVERYBODY, Identity, check_scope
from meantime.errors import Forbidden, Invalid


def holder(*scopes: str) -> Identity:
    return Identity("k", frozenset(scopes))


@pytest.mark.parametrize(
    ("scopes", "verb", "name", "allowed"),
    [
        (["admin"], "publish", "orders", True),
        (["publish:orders"], "publish", "orders", True),
        (["publish:orders"], "publish", "orders2", False),
        (["publish:orders"], "read", "orders", False),
        (["publish:orders.*"], "publish", "orders.new", True),
        (["publish:*"], "publish", "anything", True),
        (["read:*"], "admin", None, False),
        (["timers"], "timers", None, True),
        ([], "timers", None, False),
        (["publish:[o]rders"], "read", "orders", False),
    ],
)
def test_what_no_scope_allows_is_denied(scopes: list[str], verb: str, name: str | None, allowed: bool) -> None:
    assert holder(*scopes).may(verb, name) is allowed


def test_a_refusal_names_the_scope_that_is_needed() -> None:
    with pytest.raises(Forbidden, match="publish:orders") as refusal:
        holder("timers").require("publish", "orders")
    assert refusal.value.extras == {"required_scope": "publish:orders"}


def test_with_authentication_off_everybody_may_do_everything() -> None:
    assert EVERYBODY.may("consume", "x")
    assert EVERYBODY.may("admin")


SCOPES = ["admin", "timers", "apps", "metrics", "publish:a", "read:*", "produce:g", "consume:t", "operate:t", "callback:k"]


@pytest.mark.parametrize("scope", SCOPES)
def test_these_are_scopes(scope: str) -> None:
    assert check_scope(scope) == scope


@pytest.mark.parametrize("scope", ["", "root", "admin:x", "publish", "publish:", "timers:", "write:x"])
def test_these_are_not(scope: str) -> None:
    with pytest.raises(Invalid, match="is not a scope"):
        check_scope(scope)


def test_who_sees_bodies_looks_too_and_not_the_other_way_round() -> None:
    look, bodies = Identity("k", frozenset({"look"})), Identity("k", frozenset({"look:bodies"}))
    assert (look.may("look"), look.sees_bodies) == (True, False)
    assert (bodies.may("look"), bodies.sees_bodies) == (True, True)
    assert EVERYBODY.sees_bodies
    assert not Identity("k", frozenset({"operate:*", "read:*"})).may("look")
    assert check_scope("look:bodies") == "look:bodies"
    with pytest.raises(Invalid):
        check_scope("look:everything")
