"""The walk with httpx: `walk.py URL NAME http1|http2|both`. A private CA is named by `SSL_CERT_FILE`."""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx

URL, NAME, SPOKEN = sys.argv[1:]
HOW = {"http1": {}, "http2": {"http1": False, "http2": True}, "both": {"http2": True}}
Lines = Iterator[dict[str, Any]]


def told(step: str, answer: httpx.Response, seen: list[Any]) -> None:
    protocol = answer.http_version
    line = {"step": step, "status": answer.status_code, "protocol": protocol, "seen": seen}
    print(json.dumps(line), flush=True)


def lines(answer: httpx.Response) -> Lines:
    return (json.loads(line) for line in answer.iter_lines() if line)


def numbers(batches: Lines, count: int) -> tuple[list[int], dict[str, Any]]:
    """What the events of a stream say, until there are so many, and the last cursor."""
    seen: list[int] = []
    for batch in batches:
        seen += [event["n"] for event in batch.get("events", [])]
        if len(seen) >= count:
            break
    return seen, batch["cursor"]


def streams(http: httpx.Client) -> None:
    events = f"/event-types/{NAME}/events"
    answer = http.post("/event-types", json={"name": NAME, "owning_application": "walk", "category": "undefined"})
    told("create event type", answer, [])
    answer = http.post(events, json=[{"n": 1}, {"n": 2}, {"n": 3}])
    told("publish", answer, [])
    cursors = json.dumps([{"partition": "0", "offset": "BEGIN"}])
    asked = {"stream_limit": 3, "batch_limit": 3, "stream_timeout": 30}
    with http.stream("GET", events, params=asked, headers={"X-Nakadi-Cursors": cursors}) as stream:
        told("read events", stream, numbers(lines(stream), 99)[0])

    wanted = {"owning_application": "walk", "event_types": [NAME], "read_from": "begin"}
    answer = http.post("/subscriptions", json=wanted)
    told("subscribe", answer, answer.json()["event_types"])
    subscription = f"/subscriptions/{answer.json()['id']}"
    with http.stream("GET", f"{subscription}/events", params={"batch_limit": 3}) as stream:
        seen, cursor = numbers(lines(stream), 3)
        told("read subscription", stream, seen)
        stream_id = {"X-Nakadi-StreamId": stream.headers["X-Nakadi-StreamId"]}
        answer = http.post(f"{subscription}/cursors", json={"items": [cursor]}, headers=stream_id)
        told("commit", answer, [])
    answer = http.get(f"{subscription}/cursors")
    told("committed", answer, [item["offset"] == cursor["offset"] for item in answer.json()["items"]])


def topics(http: httpx.Client) -> None:
    topic, group = f"/topics/{NAME}", {"X-Producer-Group": "walk"}

    def schedule(*ids: str) -> httpx.Response:
        messages = [{"id": id, "after_ms": 0, "body": {"for": id}} for id in ids]
        return http.post(f"{topic}/messages", json={"messages": messages}, headers=group)

    def hold(how: str, leases: list[Any], **more: int) -> httpx.Response:
        claims = [{"id": lease["id"], "version": lease["version"], **more} for lease in leases]
        return http.post(f"{topic}/leases/{how}", json={"consumer_id": "walker", "leases": claims})

    def each(answer: httpx.Response, field: str) -> list[Any]:
        return [result[field] for result in answer.json()["results"]]

    answer = http.put(topic, json={"bucket_count": 8})
    told("create topic", answer, [answer.json()["name"]])
    answer = schedule("m1", "m2", "m3")
    told("schedule", answer, each(answer, "status"))
    leases: list[Any] = []
    for _ in range(30):
        pull = {"consumer_id": "walker", "limit": 3 - len(leases), "wait_ms": 2000}
        answer = http.post(f"{topic}/leases", json=pull)
        leases += answer.json()["leases"]
        if len(leases) == 3:
            break
    leases.sort(key=lambda lease: str(lease["id"]))
    told("lease", answer, [lease["id"] for lease in leases])
    answer = hold("extend", leases, after_ms=60_000)
    told("extend", answer, each(answer, "status"))
    answer = hold("delete", answer.json()["results"][:2])
    told("delete", answer, each(answer, "status"))

    with http.stream("GET", f"{topic}/leases", params={"consumer_id": "walker"}) as stream:
        pushed = lines(stream)
        leases = [next(pushed)]
        answer = schedule("m4")
        told("schedule while streaming", answer, each(answer, "status"))
        leases.append(next(pushed))
        told("push", stream, [lease["id"] for lease in leases])
        answer = hold("delete", leases)
        told("delete what was pushed", answer, each(answer, "status"))


def bodies(http: httpx.Client) -> None:
    def problem(step: str, answer: httpx.Response) -> None:
        document = answer.json()
        told(step, answer, [answer.headers["Content-Type"], document["status"], document["code"]])

    events, messages, group = f"/event-types/{NAME}/events", f"/topics/{NAME}/messages", {"X-Producer-Group": "walk"}
    problem("not an array", http.post(events, json={"n": 1}))
    problem("no such event type", http.get(f"/event-types/{NAME}-no"))
    problem("no instant", http.patch(f"{messages}/m1", json={"after_ms": "soon"}, headers=group))
    statuses = [http.post(events, json=[{"n": n}]).status_code for n in range(20)]
    told("keep alive", http.get("/health"), sorted(set(statuses)))
    large = [{"n": n, "filling": "x" * 500_000} for n in range(8)]
    answer = http.post(events, json=large)
    told("large body", answer, [answer.text] if answer.text else [])
    chunks = iter([b'{"messages": [', b'{"id": "c1", "after_ms": 0, "body": 1}', b"]}"])
    answer = http.post(messages, content=chunks, headers=group)
    told("body in chunks", answer, [result["status"] for result in answer.json()["results"]])


def main() -> None:
    parts: list[Callable[[httpx.Client], None]] = [streams, topics, bodies]
    with httpx.Client(base_url=URL, timeout=60, **HOW[SPOKEN]) as http:  # type: ignore[arg-type]
        for part in parts:
            part(http)


main()
