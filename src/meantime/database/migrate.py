"""Bring the schema up to date: forward only, safe to run from many places at once.

The migrations are plain SQL files in `migrations/`, applied in the order of their names by yoyo. yoyo's own lock is a row
that a killed process would leave behind; an advisory lock, which ends with its connection, is held around it, so a
stale row can be broken safely.
"""

from importlib.resources import as_file, files
from urllib.parse import urlencode

from psycopg.conninfo import conninfo_to_dict
from yoyo import get_backend, read_migrations

from meantime.database.addresses import conninfo
from meantime.database.connecting import connect
from meantime.database.pool import translated

_ADVISORY_LOCK = 0x6D65616E74696D65  # "meantime" in ASCII


def migrate(uri: str) -> list[str]:
    """Apply what is missing and return the names of what was applied."""
    with translated(), connect(uri, autocommit=True, answer_within=None) as guard:
        guard.execute("SELECT pg_advisory_lock(%s)", (_ADVISORY_LOCK,))
        backend = get_backend(_for_yoyo(uri))
        try:
            backend.break_lock()
            return _apply(backend)
        finally:
            backend.connection.close()


def _apply(backend: object) -> list[str]:
    with as_file(files("meantime.database").joinpath("migrations")) as folder:
        missing = backend.to_apply(read_migrations(str(folder)))  # type: ignore[attr-defined]
        names = [migration.id for migration in missing]
        with backend.lock():  # type: ignore[attr-defined]
            backend.apply_migrations(missing)  # type: ignore[attr-defined]
    return names


def _for_yoyo(uri: str) -> str:
    """yoyo reads addresses by itself and knows neither several hosts nor `keyword=value` pairs; parameters it passes on."""
    return f"postgresql+psycopg:///?{urlencode(conninfo_to_dict(conninfo(uri)))}"
