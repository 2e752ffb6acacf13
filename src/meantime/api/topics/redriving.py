"""`POST /topics/{topic}/redrive`: what died in a topic goes back to it; what an application's workers have given up, to the
job of its queue by way of `<application>.retry`."""

from functools import partial

from meantime.api.call import HttpCall
from meantime.api.topics.forms import MOST_REDRIVEN, RedriveForm
from meantime.errors import Invalid, NotFound
from meantime.topics.model import Redriven, Topic
from meantime.topics.rules import application_of
from meantime.topics.settings import SettingsChange
from meantime.topics.topics import Topics
from meantime.workers.letters import LARGEST_BODY, dead_topic, retry_topic, sent_back


async def redrive(call: HttpCall[RedriveForm, None]) -> Redriven:
    """Send dead messages back

    `{to?, limit?}`: dead letters go back to the topic they came from, those of an application's workers to the job of their
    queue, or all to `to`; they start again from the first attempt. Answers with how many moved, how many were skipped, and
    why.
    """
    asked, topics = call.form, call.services.topics
    if asked.to is not None:
        call.identity.require("operate", asked.to)
    limit = MOST_REDRIVEN if asked.limit is None else asked.limit
    if not 1 <= limit <= MOST_REDRIVEN:
        raise Invalid(f"limit must be from 1 to {MOST_REDRIVEN}", field="limit")
    topic = await topics.catalog.get(call.names["topic"])
    done = await topics.dead_letters.redrive(topic.name, asked.to, limit)
    application = application_of(topic.name)
    of_workers = application is not None and topic.name == dead_topic(application)
    if application is not None and of_workers and done.moved < limit:
        done += await _letters_of_workers(topics, topic, application, asked.to, limit - done.moved)
    leased = await topics.sending_back.leased(topic, all_messages=of_workers)
    call.act.count, call.act.detail = done.moved, {} if asked.to is None else {"to": asked.to}
    return done + Redriven(0, leased, {"leased": leased})


async def _letters_of_workers(topics: Topics, topic: Topic, application: str, to: str | None, limit: int) -> Redriven:
    retries = retry_topic(application)
    if to is None or to == retries:
        return await topics.sending_back.send(topic, partial(_ensured, topics, retries), _as_retry, limit)
    return await topics.sending_back.send(topic, partial(topics.catalog.get, to), _as_it_is, limit)


def _as_retry(id: str, body: bytes) -> tuple[str, bytes] | None:
    return sent_back(body)


def _as_it_is(id: str, body: bytes) -> tuple[str, bytes] | None:
    return (id, body) if sent_back(body) else None


async def _ensured(topics: Topics, name: str) -> Topic:
    """The topic of an application whose workers have not needed it yet is made for them."""
    try:
        return await topics.catalog.get(name)
    except NotFound:
        return (await topics.catalog.put(name, SettingsChange(max_body_bytes=LARGEST_BODY)))[0]
