"""A storage's settings from where it is registered, secrets included: for pipelines that may read the database."""

import psycopg

from meantime.database.connecting import connect
from meantime.errors import StorageUnavailable


def registered_settings(postgres: str, storage_id: str) -> dict[str, str]:
    try:
        with connect(postgres) as connection:
            row = connection.execute("SELECT settings FROM storages WHERE id = %s", (storage_id,)).fetchone()
    except psycopg.Error as error:
        raise StorageUnavailable(f"the settings of storage {storage_id!r} cannot be looked up: {error}") from error
    return dict(row[0]) if row else {}
