"""What every client of a storage starts from, and what Kafka's Java client makes of the same settings."""

import pytest

from meantime.errors import Invalid
from meantime.kafka.java_settings import connector_options, java_settings
from meantime.kafka.settings import Storage, asks_for_credentials, client_config, configured_storages, is_secret

SASL = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "meantime",
    "sasl.password": 'a "quoted" \\ one',
    "ssl.ca.location": "/etc/ca.pem",
}


def test_the_first_configured_cluster_is_the_default_storage_and_has_the_settings() -> None:
    first, second = configured_storages(["a:1,b:1", "c:1"], {"sasl.password": "hush", "socket.keepalive.enable": True})
    assert (first.id, first.bootstrap_servers, first.default) == ("default", "a:1,b:1", True)
    assert first.settings == {"sasl.password": "hush", "socket.keepalive.enable": "true"}
    assert (second.id, second.settings, second.default) == ("kafka-2", {}, False)


def test_every_client_takes_the_settings_of_its_storage() -> None:
    config = client_config(Storage("default", "a:1", {**SASL, "client.id": "mine"}))
    assert config.items() >= {**SASL, "client.id": "mine", "bootstrap.servers": "a:1"}.items()
    assert client_config(Storage("default", "a:1"), "meantime-timers")["client.id"] == "meantime-timers"


@pytest.mark.parametrize("name", ["acks", "sasl.kerberos.kinit.cmd", "ssl.engine.location", "bootstrap.servers"])
def test_a_setting_that_no_storage_may_have_is_refused_by_name_and_without_its_value(name: str) -> None:
    with pytest.raises(Invalid, match=name) as refused:
        configured_storages(["a:1"], {name: "hush"})
    assert "hush" not in str(refused.value)


def test_a_storage_does_not_show_its_secrets() -> None:
    assert "hush" not in repr(Storage("default", "a:1", {"sasl.password": "hush"}))
    assert [name for name in SASL if is_secret(name)] == ["sasl.username", "sasl.password"]


def test_only_a_secured_cluster_asks_for_credentials() -> None:
    assert asks_for_credentials(SASL)
    assert not asks_for_credentials({"client.id": "mine"})


def test_credentials_become_a_login_of_the_java_client() -> None:
    assert java_settings(Storage("default", "a:1", SASL)) == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="meantime" password="a \\"quoted\\" \\\\ one";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/etc/ca.pem",
    }


def test_options_of_the_connector_begin_with_kafka() -> None:
    assert connector_options(Storage("default", "a:1")) == {"kafka.bootstrap.servers": "a:1"}


def test_a_client_certificate_is_handed_over_with_its_key() -> None:
    files = {"/cert.pem": "CERT", "/key.pem": "KEY"}
    given = {"security.protocol": "ssl", "ssl.certificate.location": "/cert.pem", "ssl.key.location": "/key.pem"}
    found = java_settings(Storage("default", "a:1", {**given, "ssl.key.password": "hush"}), files.__getitem__)
    assert found == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "CERT",
        "ssl.keystore.key": "KEY",
        "ssl.key.password": "hush",
    }
    with pytest.raises(Invalid, match=r"ssl\.key"):
        java_settings(Storage("default", "a:1", {"ssl.certificate.pem": "CERT"}))


def test_names_that_differ_are_translated_and_what_only_tunes_librdkafka_is_left_out() -> None:
    given = {
        "client.id": "mine",
        "socket.send.buffer.bytes": "1000",
        "socket.nagle.disable": "true",
        "ssl.endpoint.identification.algorithm": "none",
        "enable.ssl.certificate.verification": "true",
    }
    assert java_settings(Storage("default", "a:1", given)) == {
        "bootstrap.servers": "a:1",
        "client.id": "mine",
        "send.buffer.bytes": "1000",
        "ssl.endpoint.identification.algorithm": "",
    }


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "GSSAPI"),
        ({"enable.ssl.certificate.verification": "false"}, "enable.ssl.certificate.verification"),
        ({"ssl.cipher.suites": "AES"}, "ssl.cipher.suites"),
        ({"ssl.crl.location": "/crl"}, "ssl.crl.location"),
    ],
)
def test_what_the_java_client_cannot_do_is_an_error_that_names_it(given: dict[str, str], named: str) -> None:
    with pytest.raises(Invalid, match=named):
        java_settings(Storage("default", "a:1", given))
