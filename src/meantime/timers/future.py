"""The message `Future` of a request, as any protobuf of the same shape writes it:

message Future { string callBackTopic = 1; string callBackKey = 2; bytes callBack = 3; }
"""

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
)


def encode(future: Future) -> bytes:
    message = _message()(callBackTopic=future.topic, callBackKey=future.key, callBack=future.callback)
    return bytes(message.SerializeToString())


def decode(value: bytes) -> Future | None:
    """None when it is not such a message."""
    try:
        message = _message().FromString(value)
    except DecodeError:
        return None
    return Future(intern(message.callBackTopic), message.callBackKey, message.callBack)


@cache
def _message() -> Any:
    file = FileDescriptorProto(name="meantime/future.proto", package="meantime", syntax="proto3")
    future = file.message_type.add(name="Future")
    for number, (name, kind) in enumerate(FIELDS, start=1):
        future.field.add(name=name, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("meantime.Future"))
