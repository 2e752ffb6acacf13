"""Which requests a page of another origin has caused, and what the cookie of a session is."""

import pytest

from meantime.api.http.browsers import check_origin, cookie, session_token
from meantime.errors import Forbidden

OWN = {b"host": b"node:8080", b"origin": b"http://node:8080"}


def refused(method: str, headers: dict[bytes, bytes], *, proof: bool) -> bool:
    try:
        check_origin(method, headers, proof=proof)
    except Forbidden:
        return True
    return False


@pytest.mark.parametrize(
    ("headers", "without_proof", "with_proof"),
    [
        ({}, False, True),
        (OWN, False, False),
        (OWN | {b"host": b"NODE:8080"}, False, False),
        ({b":authority": b"node:8080", b"origin": b"https://node:8080"}, False, False),
        (OWN | {b"origin": b"http://evil.example"}, True, True),
        (OWN | {b"origin": b"http://node:8081"}, True, True),
        (OWN | {b"origin": b"null"}, True, True),
        ({b"origin": b"http://node:8080"}, True, True),
        ({b"sec-fetch-site": b"same-origin", b"origin": b"https://proxy.example", b"host": b"inside:8080"}, False, False),
        (OWN | {b"sec-fetch-site": b"cross-site"}, True, True),
        (OWN | {b"sec-fetch-site": b"same-site"}, True, True),
        ({b"sec-fetch-site": b"cross-site"}, True, True),
        ({b"sec-fetch-site": b"none"}, False, True),
    ],
)
def test_a_write_that_another_origin_has_caused_is_refused(headers, without_proof, with_proof) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert refused(method, headers, proof=False) == without_proof
        assert refused(method, headers, proof=True) == with_proof
    assert not refused("GET", headers, proof=True)


def test_the_cookie_is_for_this_site_only_and_no_page_reads_it() -> None:
    plain = cookie("ms_x", 60, {}, tls=False)
    assert plain == "meantime_session=ms_x; Path=/; Max-Age=60; HttpOnly; SameSite=Strict"
    assert cookie("ms_x", 60, {}, tls=True) == f"{plain}; Secure"
    assert cookie("ms_x", 60, {b"origin": b"https://proxy.example"}, tls=False) == f"{plain}; Secure"
    assert "Max-Age=0" in cookie("", 60, {}, tls=False)


def test_the_session_is_found_among_other_cookies() -> None:
    assert session_token({}) is None
    assert session_token({b"cookie": b"a=b; meantime_session=ms_x;c=d"}) == "ms_x"
    assert session_token({b"cookie": b"not_meantime_session=ms_x; meantime_session="}) is None
