"""Logging in to the console and out of it: a key becomes a cookie. With authentication off there is nothing to log in to."""

import msgspec

from meantime import __version__
from meantime.access.scopes import Identity
from meantime.api.call import Answer, HttpCall
from meantime.api.http.browsers import check_origin, cookie, session_token
from meantime.errors import Unauthenticated

NO_STORE = {"Cache-Control": "no-store"}


class LoginForm(msgspec.Struct, forbid_unknown_fields=True):
    key: str


class IdentityView(msgspec.Struct, frozen=True):
    """Whose key it is, and what it may do."""

    name: str
    key_id: str | None
    scopes: list[str]


class SessionView(msgspec.Struct, frozen=True):
    """`identity` is null while nobody is logged in; with authentication off everybody may do everything."""

    authentication: bool
    identity: IdentityView | None
    node: str
    release: str


async def login(call: HttpCall[LoginForm, None]) -> Answer:
    """Log in to the console

    `{"key": "mt_…"}`. 204 with a cookie that only this browser has and no page can read: it stands for the key for some
    hours, until a logout, or until the key is revoked. 401 for a wrong key, 429 after many of them.
    """
    exchange, sessions = call.exchange, call.services.sessions
    check_origin(exchange.method, exchange.headers, proof=False)
    if sessions is None:
        return Answer(204, headers=NO_STORE)
    token = await sessions.begin(call.form.key.strip(), exchange.peer())
    header = cookie(token, sessions.lasts_for, exchange.headers, tls=exchange.tls())
    return Answer(204, headers=NO_STORE | {"Set-Cookie": header})


async def logout(call: HttpCall[None, None]) -> Answer:
    """Log out of the console

    The session ends on every node, and the cookie is taken back. Again is fine.
    """
    exchange, sessions = call.exchange, call.services.sessions
    check_origin(exchange.method, exchange.headers, proof=False)
    token = session_token(exchange.headers)
    if sessions is not None and token is not None:
        await sessions.end(token)
    return Answer(204, headers=NO_STORE | {"Set-Cookie": cookie("", 0, exchange.headers, tls=exchange.tls())})


async def show_session(call: HttpCall[None, None]) -> Answer:
    """Who is logged in to the console, and what they may do

    Also for who is not logged in: `identity` is null then.
    """
    identity = await _identity(call)
    view = SessionView(
        authentication=call.services.sessions is not None,
        identity=None if identity is None else IdentityView(identity.name, identity.key_id, sorted(identity.scopes)),
        node=call.services.node_id,
        release=__version__,
    )
    return Answer(200, view, headers=NO_STORE)


async def _identity(call: HttpCall[None, None]) -> Identity | None:
    sessions, token = call.services.sessions, session_token(call.exchange.headers)
    if sessions is None:
        return call.identity
    if token is None:
        return None
    try:
        return await sessions.identify(token, call.exchange.peer())
    except Unauthenticated:
        return None
