"""How much is done each second, of one node and of all together."""

from meantime.console.activity import Activity, Totals, fitting, merged, rates


def test_rates_are_what_was_done_between_two_looks() -> None:
    before = Totals({"orders": (10, 5)}, {"mails": (1, 1, 1), "quiet": (7, 7, 7)})
    after = Totals({"orders": (30, 5), "new": (4, 0)}, {"mails": (5, 3, 1), "quiet": (7, 7, 7)}, (1, 2))
    found = rates("a", before, after, 2.0, {"mails": (60, 100)})
    assert found.event_types == {"orders": (10.0, 0.0)}
    assert found.topics == {"mails": (2.0, 1.0, 0.0)}
    assert found.sums == (10.0, 0.0, 2.0, 1.0, 0.0)
    assert (found.lateness, found.overloads) == ((1, 2), {"mails": (60, 100)})


def test_a_counter_that_has_begun_anew_counts_as_nothing() -> None:
    found = rates("a", Totals({"orders": (10, 10)}, {}), Totals({"orders": (2, 12)}, {}), 1.0, {})
    assert found.event_types == {"orders": (0.0, 2.0)}


def test_a_notification_has_room_for_the_busiest_and_the_sums_have_all() -> None:
    topics = {f"topic-{number:04}-{'x' * 80}": (float(number), 0.0, 0.0) for number in range(1000)}
    activity = Activity("a", {}, topics, (0.0, 0.0, 499_500.0, 0.0, 0.0))
    payload = fitting(activity)
    assert len(payload) < 8_000
    assert b"topic-0999" in payload
    assert b"topic-0001" not in payload
    assert b"499500" in payload


def test_all_nodes_together_are_the_sum_of_each() -> None:
    one = Activity("a", {"orders": (1.0, 2.0)}, {"mails": (1.0, 0.0, 0.0)}, (1.0, 2.0, 1.0, 0.0, 0.0))
    other = Activity("b", {"orders": (10.0, 0.0)}, {}, (10.0, 0.0, 0.0, 0.0, 0.0))
    event_types, topics, sums = merged([one, other])
    assert event_types == {"orders": {"publish": 11.0, "read": 2.0}}
    assert topics == {"mails": {"create": 1.0, "lease": 0.0, "delete": 0.0}}
    assert sums == {"publish": 11.0, "read": 2.0, "create": 1.0, "lease": 0.0, "delete": 0.0}
