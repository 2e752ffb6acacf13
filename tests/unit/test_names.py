import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.errors import Invalid
from meantime.names import check_event_type, check_identifier, is_loopback


@pytest.mark.parametrize("name", ["a", "orders", "order-created", "a.b", "A_b.1-c", "x" * 255])
def test_these_can_name_event_types(name: str) -> None:
    assert check_event_type(name) == name


@pytest.mark.parametrize("name", ["", "1a", ".a", "a.", "a..b", "a.-b", "a b", "ä", "a/b", "x" * 256, "a\n"])
def test_these_cannot(name: str) -> None:
    with pytest.raises(Invalid):
        check_event_type(name)


@given(st.text(alphabet="0123456789abcXYZ._:@-", min_size=1, max_size=128))
def test_identifiers_are_what_the_alphabet_says(text: str) -> None:
    assert check_identifier(text, "topic") == text


@pytest.mark.parametrize("text", ["", "x" * 129, "a b", "a/b", "ä", "a\n", "a%"])
def test_anything_else_is_refused_with_its_purpose(text: str) -> None:
    with pytest.raises(Invalid, match="consumer"):
        check_identifier(text, "consumer")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.10", "::1"])
def test_what_stays_on_this_machine_is_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["127.example.org", "0.0.0.0", "::", "10.0.0.1", "localhost.example.org", ""])
def test_what_may_leave_this_machine_is_not(host: str) -> None:
    assert not is_loopback(host)
