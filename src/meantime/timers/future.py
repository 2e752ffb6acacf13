"""The message `Future` of a request, as any protobuf of the same shape writes it. `future.proto` is for other clients."""

from functools import cache
from sys import intern
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from meantime.timers.model import Future

FIELDS = (
    ("callBackTopic", FieldDescriptorProto.TYPE_STRING),
    ("callBackKey", FieldDescriptorProto.TYPE_STRING),
    ("callBack", FieldDescriptorProto.TYPE_BYTES),
    ("headers", FieldDescriptorProto.TYPE_STRING),
)
REPEATED = "headers"


def encode(future: Future) -> bytes:
    message = _message()(callBackTopic=future.topic, callBackKey=future.key, callBack=future.callback)
    message.headers.extend(future.headers)
    return bytes(message.SerializeToString())


def decode(value: bytes) -> Future | None:
    """None when it is not such a message."""
    try:
        message = _message().FromString(value)
    except DecodeError:
        return None
    return Future(intern(message.callBackTopic), message.callBackKey, message.callBack, tuple(message.headers))


@cache
def _message() -> Any:
    file = FileDescriptorProto(name="meantime/future.proto", package="meantime", syntax="proto3")
    future = file.message_type.add(name="Future")
    for number, (name, kind) in enumerate(FIELDS, start=1):
        label = FieldDescriptorProto.LABEL_REPEATED if name == REPEATED else FieldDescriptorProto.LABEL_OPTIONAL
        future.field.add(name=name, number=number, type=kind, label=label)
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("meantime.Future"))
