"""`/keys`: API keys, for admins. A key is shown once, when it is made."""

import msgspec

from meantime.access.keys import Key
from meantime.api.call import Answer, HttpCall


class KeyForm(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    scopes: list[str]


class KeyView(msgspec.Struct, frozen=True):
    """`revoked_ms` is null while it is valid."""

    id: str
    name: str
    scopes: list[str]
    created_ms: int
    revoked_ms: int | None


class KeysView(msgspec.Struct, frozen=True):
    keys: list[KeyView]


class NewKeyView(msgspec.Struct, frozen=True):
    """`key` is the key itself, which cannot be had again."""

    id: str
    name: str
    scopes: list[str]
    key: str


NO_STORE = {"Cache-Control": "no-store"}


async def list_keys(call: HttpCall[None, None]) -> KeysView:
    """All API keys, the revoked ones too

    The keys themselves are not stored, and not shown.
    """
    return KeysView([_view(key) for key in await call.services.keys.list()])


async def create(call: HttpCall[KeyForm, None]) -> Answer:
    """Make an API key

    `{name, scopes}`. The answer has the key itself; it is shown this once and stored only as a digest.
    """
    asked, services = call.form, call.services
    id, key = await services.keys.add(asked.name, asked.scopes, services.cluster.clock.now_ms())
    call.act.target, call.act.detail = f"keys/{id}", {"name": asked.name, "scopes": asked.scopes}
    return Answer(201, NewKeyView(id, asked.name, asked.scopes, key), headers=NO_STORE)


async def revoke(call: HttpCall[None, None]) -> None:
    """Revoke an API key

    It stops working on every node at once, and its open streams end. 404 for one that is not valid.
    """
    await call.services.keys.revoke(call.names["id"], call.services.cluster.clock.now_ms())


def _view(key: Key) -> KeyView:
    return KeyView(key.id, key.name, list(key.scopes), key.created_ms, key.revoked_ms)
