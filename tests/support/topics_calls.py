"""What producers and consumers ask over HTTP, as tests need it."""

from uuid import uuid4

import httpx
from topics_nodes import GROUP


async def new_topic(http: httpx.AsyncClient, **settings: object) -> str:
    name = f"t-{uuid4().hex[:8]}"
    assert (await http.put(f"/topics/{name}", json=settings)).status_code == 201
    return name


async def create(http: httpx.AsyncClient, topic: str, *ids: str, after_ms: int = 0) -> None:
    messages = [{"id": one, "after_ms": after_ms, "body": one} for one in ids]
    answer = await http.post(f"/topics/{topic}/messages", json={"messages": messages}, headers=GROUP)
    assert answer.status_code == 201, answer.text


async def pull(http: httpx.AsyncClient, topic: str, consumer_id: str = "c", **fields: int) -> list[dict[str, object]]:
    answer = await http.post(f"/topics/{topic}/leases", json={"consumer_id": consumer_id, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()["leases"]


async def operate(
    http: httpx.AsyncClient, topic: str, action: str, *leases: dict[str, object], consumer_id: str = "c"
) -> list[dict[str, object]]:
    body = {"consumer_id": consumer_id, "leases": leases}
    answer = await http.post(f"/topics/{topic}/leases/{action}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def claim(lease: dict[str, object], **fields: object) -> dict[str, object]:
    return {"id": lease["id"], "version": lease["version"], **fields}
