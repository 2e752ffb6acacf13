"""Whatever is sent to any operation of the OpenAPI document, no node answers with a 5xx, nor with a status or a media type
that the document does not name.

Requests are generated from the document, valid and invalid ones. Only the status and the first bytes are read, because
streams have no end. `MEANTIME_FUZZ_EXAMPLES` makes it longer.
"""

import os
import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from api_document import Operation

from conftest import Breakable

pytestmark = [pytest.mark.lane("nodes"), pytest.mark.takes(seconds=130), pytest.mark.timeout(600)]

if TYPE_CHECKING:  # loaded by the test: every lane reads this file, and one runs it
    from schemathesis import GenerationMode

EXISTING = "fuzzed"
MISNOMERS = ("%00", "%2e%2e", "%ff", "%F0%9F%95%B0", "-", "a" * 300, "0", "%27", "a%20b", "a%2Fb")
EXAMPLES = int(os.environ.get("MEANTIME_FUZZ_EXAMPLES", "6"))


@pytest.fixture(scope="module")
def url(breakable: Breakable) -> str:
    url = breakable.urls[0]
    declared = {"name": EXISTING, "owning_application": "fuzz", "category": "undefined"}
    schema = {"schema": {"type": "json_schema", "schema": "{}"}}
    assert httpx.post(f"{url}/event-types", json=declared | schema).status_code == 201
    assert httpx.put(f"{url}/topics/{EXISTING}", json={}).status_code == 201
    return url


def test_no_request_makes_a_node_answer_with_a_5xx_or_against_its_document(url: str) -> None:
    import schemathesis
    from schemathesis import GenerationMode

    schema = schemathesis.openapi.from_url(f"{url}/schema/openapi.json")
    failures: list[str] = []
    count, silent = 0, []
    with httpx.Client(base_url=url, timeout=10) as client:
        for result in schema.get_all_operations():
            operation = result.ok()
            valid = _fuzz(client, operation, GenerationMode.POSITIVE, failures)
            silent += [] if valid else [operation.label]
            count += valid
            if _can_be_wrong(operation):
                count += _fuzz(client, operation, GenerationMode.NEGATIVE, failures)
            else:
                count += _misname(client, operation, failures)
    assert not failures, "\n".join(failures)
    assert silent == [], "nothing was generated for these"
    assert count > 500


def _can_be_wrong(operation: Any) -> bool:
    """A path alone has next to nothing that could be generated against its schema, and that takes long."""
    return bool(operation.body) or bool(operation.query)


def _misname(client: httpx.Client, operation: Any, failures: list[str]) -> int:
    for name in MISNOMERS:
        path = re.sub(r"\{[^}]+\}", name, operation.path)
        try:
            with client.stream(operation.method, path) as answer:
                fault = _fault(operation, answer)
        except httpx.TransportError:
            continue  # a path that HTTP cannot carry
        if fault:
            failures.append(f"{fault}: {operation.method} {path}")
    return len(MISNOMERS)


def _fuzz(client: httpx.Client, operation: Any, mode: "GenerationMode", failures: list[str]) -> int:
    from hypothesis import HealthCheck, Phase, given, settings

    sent = 0

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        nonlocal sent
        sent += 1
        if sent % 2 and operation.method.upper() != "DELETE":
            case.path_parameters = dict.fromkeys(case.path_parameters or {}, EXISTING)
        _keep_at_home(case)
        answer = _answer(client, case)
        if answer is not None and (fault := _fault(operation, answer)):
            failures.append(f"{fault}: {case.as_curl_command()}")

    try:
        send()
    except Exception as error:
        if type(error).__name__ not in ("Unsatisfiable", "SkipTest", "Skipped"):
            raise
    return sent


def _keep_at_home(case: Any) -> None:
    """A storage is probed where it says it is; nothing here may call elsewhere."""
    if isinstance(case.body, dict) and isinstance(case.body.get("kafka_configuration"), dict):
        case.body["kafka_configuration"] |= {"bootstrap_servers": "127.0.0.1:1", "settings": {}}


def _fault(operation: Any, answer: httpx.Response) -> str:
    """In which way an answer is not as the document says; its body is not looked at."""
    return Operation(operation.schema.raw_schema, operation.method.upper(), operation.path).fault_of(answer, b"")


def _answer(client: httpx.Client, case: Any) -> httpx.Response | None:
    arguments = case.as_transport_kwargs(base_url=str(client.base_url))
    known = {name: arguments[name] for name in ("method", "url", "params", "headers", "json", "data") if arguments.get(name)}
    if isinstance(known.get("data"), bytes | str):
        known["content"] = known.pop("data")
    known["headers"] = {**dict(known.get("headers", {})), "Connection": "close"}
    try:
        request = client.build_request(**known)
        answer = client.send(request, stream=True)
    except (httpx.TransportError, httpx.InvalidURL, ValueError, TypeError):
        return None  # cannot be put into HTTP at all, or the server closed an impossible request
    answer.close()
    return answer
