from pathlib import Path

import pytest

from meantime.config import Config, describe, load, load_with_sources, without_password
from meantime.errors import Invalid


def test_flags_beat_environment_beats_file_beats_defaults(tmp_path: Path) -> None:
    file = tmp_path / "meantime.toml"
    file.write_text('port = 1001\nid = "from-file"\nlog_level = "warning"\n')
    config = load(file, {"MEANTIME_PORT": "1002", "MEANTIME_ID": "from-environment"}, {"id": "from-flag", "host": None})
    assert (config.id, config.port, config.log_level, config.host) == ("from-flag", 1002, "warning", "127.0.0.1")


def test_every_key_is_documented_and_says_where_its_value_came_from() -> None:
    config, sources = load_with_sources(None, {"MEANTIME_PORT": "9"}, {})
    settings = {setting.key: setting for setting in describe(config, sources)}
    assert set(settings) == set(Config.__struct_fields__)
    assert all(setting.about.endswith(".") for setting in settings.values())
    assert settings["port"].source == "environment"
    assert settings["host"].source == "default"


def test_secrets_are_not_shown() -> None:
    environment = {"MEANTIME_POSTGRES": "postgresql://me:hush@db/x", "MEANTIME_ZOOKEEPER_AUTH": "me:hush"}
    config, sources = load_with_sources(None, environment, {})
    assert "hush" not in repr(describe(config, sources))


def test_settings_of_kafka_are_a_table_in_the_file_and_json_in_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "meantime.toml"
    file.write_text('[kafka_settings]\n"sasl.password" = "hush"\n"socket.nagle.disable" = true\n')
    assert load(file, {}, {}).kafka_settings == {"sasl.password": "hush", "socket.nagle.disable": True}
    variables = {"MEANTIME_KAFKA_SETTINGS": '{"sasl.password": "hush"}'}
    config, sources = load_with_sources(None, variables, {})
    assert config.kafka_settings == {"sasl.password": "hush"}
    shown = {setting.key: setting.value for setting in describe(config, sources)}
    assert shown["kafka_settings"] == {"sasl.password": "***"}


@pytest.mark.parametrize("given", ['{"sasl.password": "hush"', '["hush"]', '{"sasl.password": ["hush"]}'])
def test_settings_of_kafka_that_cannot_be_read_are_refused_without_showing_them(given: str) -> None:
    with pytest.raises(Invalid, match="kafka_settings") as refused:
        load(None, {"MEANTIME_KAFKA_SETTINGS": given}, {})
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"MEANTIME_PORT": "eighty"}, "port"),
        ({"MEANTIME_PORT": "70000"}, "port"),
        ({"MEANTIME_LOG_LEVEL": "loud"}, "log_level"),
        ({"MEANTIME_TLS_CERT": "x.pem"}, "tls_key"),
        ({"MEANTIME_TLS_CERT": "/nowhere", "MEANTIME_TLS_KEY": "/nowhere"}, "tls_cert"),
        ({"MEANTIME_HOST": "0.0.0.0"}, "without authentication"),
    ],
)
def test_a_bad_value_is_refused_by_name(variables: dict[str, str], named: str) -> None:
    with pytest.raises(Invalid, match=named):
        load(None, variables, {})


def test_an_unknown_key_in_the_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "meantime.toml"
    file.write_text("prot = 8080\n")
    with pytest.raises(Invalid, match="prot"):
        load(file, {}, {})


def test_a_missing_or_broken_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot read"):
        load(tmp_path / "none.toml", {}, {})
    broken = tmp_path / "broken.toml"
    broken.write_text("a = = b")
    with pytest.raises(Invalid, match="not valid TOML"):
        load(broken, {}, {})


def test_keys_arrive_in_the_clear_beyond_loopback_only_where_that_is_wanted(tmp_path: Path) -> None:
    beyond = {"MEANTIME_HOST": "0.0.0.0", "MEANTIME_AUTH": "true"}
    with pytest.raises(Invalid, match="--insecure"):
        load(None, beyond, {})
    assert load(None, beyond, {"insecure": True}).auth
    assert load(None, beyond | {"MEANTIME_INSECURE": "true"}, {}).auth
    pem = str(tmp_path / "node.pem")
    Path(pem).touch()
    assert load(None, beyond | {"MEANTIME_TLS_CERT": pem, "MEANTIME_TLS_KEY": pem}, {}).auth
    assert load(None, {"MEANTIME_AUTH": "true"}, {}).auth


def test_kafka_clusters_are_separated_by_semicolons() -> None:
    assert load(None, {"MEANTIME_KAFKA": "a:1,b:1;c:2"}, {}).kafka_clusters() == ["a:1,b:1", "c:2"]


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://me:hush@db/meantime",
        "postgresql://me:hush?hush@db/meantime",
        "postgresql://me:hush@hush@db/meantime",
        "postgresql://db/meantime?user=me&password=hush@hush&sslmode=require",
        "postgresql://me@db/meantime?PASSWORD=hush",
        "host=db user=me password=hush dbname=meantime",
        r"host=db user=me password = 'hu sh\'hush' dbname=meantime",
        r"host=db user=me password=hush\ hush dbname=meantime",
        "user=me sslpassword=hush host=db",
        "password='hush user=me host=db",
    ],
)
def test_no_form_of_an_address_shows_its_password(given: str) -> None:
    shown = without_password(given)
    assert "hu" not in shown
    assert "db" in shown or given.startswith("password='")


def test_an_address_without_a_password_is_shown_as_it_is() -> None:
    for address in ("postgresql://db/meantime", "postgresql://me@db/meantime?sslmode=require", "host=db user=me"):
        assert without_password(address) == address
