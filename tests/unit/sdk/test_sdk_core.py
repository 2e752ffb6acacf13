import pytest

from meantime import AsyncClient, Client
from meantime.errors import BarrierTimeout, Conflict, Invalid, MeantimeError, NotFound, Unavailable, Unreachable
from meantime.sdk.calls import streams
from meantime.sdk.calls import topics as topic_calls
from meantime.sdk.calls.call import Call, Response, path
from meantime.sdk.core import Core, Credentials, Done, Pause
from meantime.sdk.drift import Drift
from meantime.sdk.node_urls import node_urls, why_unusable
from meantime.sdk.problems import error_of
from meantime.sdk.retries import Retries

A, B = "http://a:1", "http://b:2"


class Stopwatch:
    def __init__(self) -> None:
        self.ms = 0.0

    def __call__(self) -> float:
        return self.ms


def core_with(urls: str = A, clock: Stopwatch | None = None) -> Core:
    retries = Retries(retry_for=10, first_pause=1, longest_pause=4, draw=lambda: 1.0)
    return Core(urls, Credentials(), retries=retries, drift=Drift(clock or Stopwatch()))


def answer(status: int, content: bytes = b"", **headers: str) -> Response:
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, content)


def reads_text(call_answer: Response) -> str:
    return call_answer.content.decode()


GET = Call("GET", "/x", reads_text)
POST = Call("POST", "/x", reads_text, b"{}", repeatable=False)


def test_an_answer_is_read_and_its_stamp_measures_the_drift() -> None:
    clock = Stopwatch()
    core = core_with(clock=clock)
    exchange = core.begin(GET)
    exchange.request()
    clock.ms = 10
    assert exchange.answered(answer(200, b"hello", x_meantime_now="5000")) == Done("hello")
    assert core.drift.now_ms() == 5005


def test_a_request_names_who_is_asking() -> None:
    core = Core("https://a:1", Credentials("secret", "billing"))
    assert core.begin(GET).request().headers == {"Authorization": "Bearer secret", "X-Producer-Group": "billing"}


def test_a_request_tells_the_clock_of_its_client_once_the_way_is_known() -> None:
    clock = Stopwatch()
    core = Core(A, Credentials(), drift=Drift(clock, wall=lambda: 7000.0))
    exchange = core.begin(GET)
    assert "X-Meantime-Client-Time" not in exchange.request().headers
    clock.ms = 10
    exchange.answered(answer(200, x_meantime_now="5000"))
    told = core.begin(GET).request().headers
    assert (told["X-Meantime-Client-Time"], told["X-Meantime-Client-Round-Trip"]) == ("7000", "10")


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_a_key_leaves_this_machine_in_the_clear_only_where_that_is_wanted(
    client: type[Client | AsyncClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in ("http://10.0.0.1:8080", "http://127.0.0.1:1,http://nodes.example"):
        with pytest.raises(Invalid, match="in the clear"):
            client(url, "secret")
        client(url)
        client(url, "secret", insecure=True)
    client("http://127.0.0.1:1,http://localhost:2,https://nodes.example", "secret")
    monkeypatch.setenv("MEANTIME_INSECURE", "true")
    client(A, "secret")
    with pytest.raises(Invalid, match="in the clear"):
        client(A, "secret", insecure=False)
    with pytest.raises(Invalid, match="to trust"):
        client(A, ca="/nowhere")


def test_a_repeatable_call_is_sent_again_with_growing_pauses_and_given_up_in_time() -> None:
    clock = Stopwatch()
    exchange = core_with(clock=clock).begin(GET)
    for pause in (1, 2, 4):
        exchange.request()
        assert exchange.failed(OSError("gone"), arrived=True) == Pause(pause)
        clock.ms += pause * 1000
    with pytest.raises(Unreachable, match="no answer from http://a:1: gone"):
        exchange.failed(OSError("gone"), arrived=True)


def test_a_call_that_is_not_repeatable_is_not_sent_again_once_it_may_have_arrived() -> None:
    exchange = core_with().begin(POST)
    exchange.request()
    with pytest.raises(Unreachable, match="not known whether the call had an effect"):
        exchange.failed(OSError("reset"), arrived=True)


def test_a_call_that_is_not_repeatable_is_sent_again_when_it_never_arrived() -> None:
    exchange = core_with().begin(POST)
    exchange.request()
    assert exchange.failed(OSError("refused"), arrived=False) == Pause(1)


def test_the_next_node_is_asked_at_once_and_stays_preferred() -> None:
    core = core_with(f"{A},{B}")
    exchange = core.begin(GET)
    assert exchange.request().url == f"{A}/x"
    assert exchange.failed(OSError("refused"), arrived=False) == Pause(0)
    assert exchange.request().url == f"{B}/x"
    exchange.answered(answer(200))
    assert core.begin(GET).request().url == f"{B}/x"


def test_two_calls_that_fail_on_one_node_turn_away_from_it_once() -> None:
    core = core_with(f"{A},{B}")
    first, second = core.begin(GET), core.begin(GET)
    first.request()
    second.request()
    first.failed(OSError(), arrived=False)
    second.failed(OSError(), arrived=False)
    assert core.url == B


def test_retry_after_is_honoured() -> None:
    exchange = core_with().begin(GET)
    exchange.request()
    assert exchange.answered(answer(503, retry_after="7")) == Pause(7)


def test_a_longer_retry_after_than_the_patience_is_an_error() -> None:
    exchange = core_with().begin(GET)
    exchange.request()
    with pytest.raises(Unavailable):
        exchange.answered(answer(503, b'{"code":"unavailable","detail":"busy"}', retry_after="70"))


def test_a_publish_that_a_switch_kept_waiting_is_sent_again() -> None:
    exchange = core_with().begin(streams.publish("orders", {"id": 1}))
    exchange.request()
    assert exchange.answered(answer(503, b'{"code":"unavailable"}', retry_after="1")) == Pause(1)


def test_a_publish_with_an_unknown_outcome_is_not_sent_again() -> None:
    exchange = core_with().begin(streams.publish("orders", {"id": 1}))
    exchange.request()
    with pytest.raises(Unavailable):
        exchange.answered(answer(503, b'{"code":"storage_unavailable"}', retry_after="1"))


def test_a_stream_of_the_same_consumer_is_waited_for_and_any_other_conflict_is_not() -> None:
    patient = Call("GET", "/x", reads_text, conflict_for=15)
    exchange = core_with().begin(patient)
    exchange.request()
    assert exchange.answered(answer(409)) == Pause(1)
    with pytest.raises(Conflict):
        core_with().begin(GET).answered(answer(409))


def test_a_problem_becomes_the_error_of_its_code_with_its_extras() -> None:
    error = error_of(answer(404, b'{"type":"about:blank","code":"not_found","detail":"no topic","topic":"x"}'))
    assert type(error) is NotFound
    assert (error.detail, error.extras) == ("no topic", {"topic": "x"})


def test_a_code_of_a_newer_server_falls_back_to_the_status_and_is_kept() -> None:
    error = error_of(answer(409, b'{"code":"brand_new","detail":"worker-1 is at it"}'))
    assert type(error) is Conflict
    assert error.code == "brand_new"
    assert Conflict.code == "conflict"


def test_errors_with_constructors_of_their_own_come_back_too() -> None:
    error = error_of(answer(503, b'{"code":"barrier_timeout","detail":"who?","missing":["n2"]}'))
    assert type(error) is BarrierTimeout
    assert error.extras == {"missing": ["n2"]}


@pytest.mark.parametrize("content", [b"", b"<html>", b"[1]", b'"text"'])
def test_an_error_that_is_no_problem_document_is_an_error_all_the_same(content: bytes) -> None:
    error = error_of(answer(502, content))
    assert isinstance(error, MeantimeError)
    assert error.detail == "the node answered 502"


@pytest.mark.parametrize("urls", ["", " , ", "localhost:8080", "ftp://x", "http://"])
def test_what_is_no_address_is_refused_before_anything_is_sent(urls: str) -> None:
    with pytest.raises(Invalid):
        node_urls(urls)


def test_several_addresses_may_be_given() -> None:
    assert node_urls("http://a:1/, http://b:2") == (A, B)
    assert node_urls([A, B]) == (A, B)


def test_names_are_quoted_in_paths() -> None:
    assert path("topics", "a b/c", query={"x": None, "y": 3}) == "/topics/a%20b%2Fc?y=3"


def test_scheduling_makes_up_an_id_so_that_it_can_be_repeated() -> None:
    call = topic_calls.schedule("t", {"n": 1}, after=2)
    assert call.repeatable
    assert call.content is not None
    assert b'"after_ms":2000' in call.content
    assert b'"id":"' in call.content


@pytest.mark.parametrize(
    "url", ["ftp://b", "b:2", "http://", "http://b:no", "https://me:pass@b", "https://b?x=1", "http://[b"]
)
def test_what_a_cluster_calls_a_node_and_is_none_is_left_out(url: str) -> None:
    core = core_with()
    assert len(core.learn([url])) == 1
    assert core.urls == (A,)


def test_nodes_are_learned_once_and_left_out_with_one_warning() -> None:
    core = Core("https://a:1", Credentials("secret"))
    assert core.learn(["https://a:1/", "https://b:2/", "https://b:2", "http://c:3", ""]) == {
        "http://c:3": "the key would go out in the clear"
    }
    assert core.learn(["http://c:3"]) == {}
    assert core.urls == ("https://a:1", "https://b:2")


@pytest.mark.parametrize(
    ("given", "key", "learned", "usable"),
    [
        ("http://a:1", False, "http://b:2", True),
        ("http://a:1", False, "https://b:2", True),
        ("http://a:1", True, "http://b:2", False),
        ("http://a:1", True, "https://b:2", True),
        ("https://a:1", False, "http://b:2", False),
        ("https://a:1", True, "http://b:2", False),
        ("https://a:1", True, "http://127.0.0.1:2", False),
        ("http://127.0.0.1:1", True, "http://b:2", False),
        ("http://127.0.0.1:1", True, "http://127.0.0.1:2", True),
        ("http://127.0.0.1:1", True, "http://localhost:2", True),
        ("http://localhost:1", True, "http://[::1]:2", True),
        ("http://127.0.0.1:1", True, "http://127.0.0.1.example.org:2", False),
        ("http://127.0.0.1:1", True, "HTTP://b:2", False),
        ("https://127.0.0.1:1", True, "http://127.0.0.1:2", True),
    ],
)
def test_a_learned_node_is_used_where_nothing_secret_goes_out_in_the_clear(given, key, learned, usable) -> None:
    assert (why_unusable(learned, [given], has_key=key) is None) is usable
