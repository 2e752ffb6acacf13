"""Addresses of PostgreSQL, with one host and with several."""

import pytest
from psycopg.conninfo import conninfo_to_dict

from meantime.config import without_password
from meantime.database.addresses import Hosts, conninfo, has_several_hosts
from meantime.database.migrate import _for_yoyo
from meantime.errors import Invalid

SEVERAL = ["postgresql://u:p@h1:1,h2:2/db", "postgresql://u:p@/db?host=h1,h2&port=1,2", "host=h1,h2 port=1,2 dbname=db"]


@pytest.mark.parametrize("address", SEVERAL)
def test_of_several_hosts_the_one_that_takes_writes_is_looked_for(address):
    found = conninfo_to_dict(conninfo(address))
    assert (found["host"], found["port"], found["dbname"]) == ("h1,h2", "1,2", "db")
    assert found["target_session_attrs"] == "read-write"
    assert has_several_hosts(address)


def test_what_an_address_says_itself_counts():
    found = conninfo_to_dict(conninfo(f"{SEVERAL[0]}?target_session_attrs=any&connect_timeout=9"))
    assert (found["target_session_attrs"], found["connect_timeout"]) == ("any", "9")


@pytest.mark.parametrize("address", SEVERAL)
def test_a_host_that_does_not_answer_is_tried_last(address):
    hosts = Hosts(address)
    assert {conninfo_to_dict(hosts.address())["host"] for _ in range(100)} == {"h1,h2", "h2,h1"}
    hosts.avoid("h1", "1")
    found = [conninfo_to_dict(hosts.address()) for _ in range(20)]
    assert {(one["host"], one["port"], one["target_session_attrs"]) for one in found} == {("h2,h1", "2,1", "read-write")}


def test_hosts_may_share_a_port():
    found = conninfo_to_dict(Hosts("host=h1,h2 port=7").address())
    assert (found["port"], set(found["host"].split(","))) == ("7,7", {"h1", "h2"})


def test_one_host_is_taken_as_it_is():
    assert Hosts("postgresql://u:p@h1:1/db").address() == conninfo("postgresql://u:p@h1:1/db")
    assert not has_several_hosts("postgresql://u:p@h1:1/db")
    assert "target_session_attrs" not in conninfo_to_dict(conninfo("postgresql://u:p@h1:1/db"))


@pytest.mark.parametrize("address", [*SEVERAL, "postgresql://u:a%40b%2B%20c@h1/db"])
def test_migrations_get_every_part_of_an_address(address):
    from yoyo.connections import parse_uri

    read = parse_uri(_for_yoyo(address))
    assert (read.scheme, read.hostname, read.port, read.username) == ("postgresql+psycopg", None, None, None)
    wanted = {name: str(value) for name, value in conninfo_to_dict(conninfo(address)).items()}
    assert read.args == wanted


def test_the_password_of_an_address_with_several_hosts_is_not_shown():
    assert without_password(SEVERAL[0]) == "postgresql://u@h1:1,h2:2/db"


@pytest.mark.parametrize(
    "address", ["nonsense", "postgresql://u:secret@h1:1,h2:2/db?colour=blue", "postgresql://u:secret@[h1/db"]
)
def test_an_address_that_cannot_be_read_is_refused_without_its_password(address):
    with pytest.raises(Invalid, match="cannot be read") as refusal:
        Hosts(address)
    assert "secret" not in refusal.value.detail
