"""The record of a run: what is expected, and what is kept on disk."""

from pathlib import Path

import pytest

from infra.accelerators import Vendor
from tests.unit.workloads.report.builders import a_record, a_request
from workloads.report.record import Record, Timing, append_timing, read_timings


def test_workers_are_named_as_volcano_names_pods() -> None:
    assert a_request(2, 1).worker_pods == {
        "allreduce-x7k2p-worker-nvidia-0": Vendor.NVIDIA,
        "allreduce-x7k2p-worker-nvidia-1": Vendor.NVIDIA,
        "allreduce-x7k2p-worker-amd-0": Vendor.AMD,
    }


def test_a_saved_record_is_read_back_as_it_was(tmp_path: Path) -> None:
    record = a_record(a_request(2, 2), problem="x: y; z.")
    record.save(tmp_path / "r.json")
    assert Record.load(tmp_path / "r.json") == record


def test_timings_of_other_commands_are_kept_and_ours_are_added(tmp_path: Path) -> None:
    file = tmp_path / "build" / "timings.jsonl"
    assert read_timings(file) == ()
    append_timing(file, Timing(step="nodes", seconds=1.5))
    append_timing(file, Timing(step="allreduce job", seconds=20))
    assert [timing.step for timing in read_timings(file)] == ["nodes", "allreduce job"]
    assert file.read_text().splitlines()[0] == '{"step":"nodes","seconds":1.5}'


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        a_record(a_request()).phase = "Completed"
