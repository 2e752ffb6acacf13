import pytest

from meantime.cli.progress import Summary


@pytest.mark.parametrize(("done", "said"), [(0, "published 0 events"), (1, "published 1 event in"), (1200, "1,200 events")])
def test_a_result_is_said_in_good_english(done: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Summary("published", "events", done).report(json=False, rejected=0)
    assert said in capsys.readouterr().err
