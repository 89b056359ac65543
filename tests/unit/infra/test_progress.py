import json
import threading
from pathlib import Path

import pytest

from infra.progress import Progress


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_a_step_is_told_and_kept_with_its_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timings = tmp_path / "timings.jsonl"
    with Progress(timings).step("nodes"):
        pass
    assert capsys.readouterr().out == "  nodes: 0.0 s\n"
    [line] = lines(timings)
    assert line.keys() == {"step", "seconds"}
    assert line["step"] == "nodes"


def test_a_failed_step_is_told_and_not_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timings = tmp_path / "timings.jsonl"
    with pytest.raises(ValueError, match="broken"), Progress(timings).step("nodes"):
        raise ValueError("broken")
    assert capsys.readouterr().out == "  nodes: failed after 0.0 s\n"
    assert not timings.exists()


def test_text_in_brackets_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    Progress().say("[bold]x[/bold] [/]")
    assert capsys.readouterr().out == "[bold]x[/bold] [/]\n"


def test_steps_of_many_threads_leave_whole_lines(tmp_path: Path) -> None:
    timings = tmp_path / "timings.jsonl"
    progress = Progress(timings)
    threads = [
        threading.Thread(target=progress.record, args=(f"step {number}", float(number)))
        for number in range(50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {line["seconds"] for line in lines(timings)} == set(range(50))


def test_without_a_file_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Progress().record("nodes", 1.0)
    assert list(tmp_path.iterdir()) == []
