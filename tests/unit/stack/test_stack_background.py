import os

from meantime.stack import background
from meantime.stack.model import Event, StackOptions


def test_a_supervisor_outlives_whoever_listened_to_it(monkeypatch, tmp_path):
    read, write = os.pipe()
    os.close(read)

    def serve(options, tell):
        tell(Event("ready", "kafka-1"))
        tell(Event("stopped", "kafka-1"))

    monkeypatch.setattr(background, "serve", serve)
    assert background.main(write, StackOptions(data=str(tmp_path))) == 0
