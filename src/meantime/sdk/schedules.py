"""`client.schedules`: the calls of schedules under names of their own, for both clients."""

from meantime.sdk.calls import schedules as calls
from meantime.sdk.http.transport import AsyncSender, Sender, async_method, method


class Schedules:
    """What recurs.

    >>> client.schedules.put("tidy", every="10m", target={"topic": "chores", "group": "shop"})
    >>> [firing.local for firing in client.schedules.next("tidy", count=3)]
    """

    def __init__(self, sender: Sender) -> None:
        self.send = sender.send

    put = method(calls.put)
    get = method(calls.get)
    list = method(calls.list_schedules)
    delete = method(calls.delete)
    preview = method(calls.preview)
    next = method(calls.next_firings)
    firings = method(calls.firings)
    fire = method(calls.fire)
    pause = method(calls.pause)
    resume = method(calls.resume)
    pause_all = method(calls.pause_all)
    resume_all = method(calls.resume_all)
    backfill = method(calls.backfill)


class AsyncSchedules:
    """The same as `Schedules`, awaited."""

    def __init__(self, sender: AsyncSender) -> None:
        self.send = sender.send

    put = async_method(calls.put)
    get = async_method(calls.get)
    list = async_method(calls.list_schedules)
    delete = async_method(calls.delete)
    preview = async_method(calls.preview)
    next = async_method(calls.next_firings)
    firings = async_method(calls.firings)
    fire = async_method(calls.fire)
    pause = async_method(calls.pause)
    resume = async_method(calls.resume)
    pause_all = async_method(calls.pause_all)
    resume_all = async_method(calls.resume_all)
    backfill = async_method(calls.backfill)
