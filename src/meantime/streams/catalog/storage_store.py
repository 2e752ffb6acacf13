"""Storages in PostgreSQL."""

from psycopg.types.json import Jsonb

from meantime.kafka.settings import Storage
from meantime.streams.catalog.store import Store


class StorageStore:
    def __init__(self, store: Store) -> None:
        self._database = store.database
        self._queries = store.queries

    async def insert(self, storage: Storage, now_ms: int) -> bool:
        """False when the id is taken."""
        async with self._database.transaction() as connection:
            cursor = await connection.execute(self._queries["insert_storage"], _params(storage, now_ms))
            await connection.execute(self._queries["notify_storages"])
        return cursor.rowcount == 1

    async def keep(self, storage: Storage, now_ms: int) -> None:
        """Insert it, or move it to its new address and settings; it becomes the default only where there is none. Settings
        that are not given stay as they are: another node may have brought them."""
        async with self._database.transaction() as connection:
            rows = await (await connection.execute(self._queries["lock_storages"])).fetchall()
            params = _params(storage, now_ms)
            params["is_default"] = storage.default and not any(row["is_default"] for row in rows)
            inserted = await connection.execute(self._queries["insert_storage"], params)
            moved = await connection.execute(self._queries["move_storage"], params)
            if inserted.rowcount + moved.rowcount:
                await connection.execute(self._queries["notify_storages"])

    async def delete(self, id: str) -> str | None:
        """Empty when it was deleted, why not otherwise, None when there is no such storage."""
        async with self._database.transaction() as connection:
            rows = await (await connection.execute(self._queries["lock_storages"])).fetchall()
            defaults = {row["id"]: row["is_default"] for row in rows}
            if id not in defaults:
                return None
            if defaults[id]:
                return "the default"
            used = await (await connection.execute(self._queries["storage_in_use"], {"id": id})).fetchone()
            if used is not None and used["used"]:
                return "in use"
            await connection.execute(self._queries["delete_storage"], {"id": id})
            await connection.execute(self._queries["forget_doomed_in_storage"], {"id": id})
            await connection.execute(self._queries["notify_storages"])
        return ""

    async def make_default(self, id: str) -> bool:
        async with self._database.transaction() as connection:
            rows = await (await connection.execute(self._queries["lock_storages"])).fetchall()
            if id not in {row["id"] for row in rows}:
                return False
            for row in rows:
                if row["is_default"] and row["id"] != id:
                    await connection.execute(self._queries["set_default_storage"], {"id": row["id"], "is_default": False})
            await connection.execute(self._queries["set_default_storage"], {"id": id, "is_default": True})
            await connection.execute(self._queries["notify_storages"])
        return True


def _params(storage: Storage, now_ms: int) -> dict[str, object]:
    return {
        "id": storage.id,
        "storage_type": storage.storage_type,
        "bootstrap_servers": storage.bootstrap_servers,
        "settings": Jsonb(storage.settings),
        "is_default": storage.default,
        "now_ms": now_ms,
    }
