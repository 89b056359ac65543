import json

import pytest

from workloads.training.events import emit


def test_an_event_is_one_line_of_json_with_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    emit("case", message="two\nlines", correct=True)
    [line] = capsys.readouterr().out.splitlines()
    event = json.loads(line)
    assert event["time"] > 1e9
    assert (event["event"], event["message"], event["correct"]) == ("case", "two\nlines", True)


def test_what_json_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        emit("case", seconds=float("nan"))
