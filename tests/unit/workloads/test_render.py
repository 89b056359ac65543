from pathlib import Path

import pytest
import yaml

from infra.accelerators import Vendor
from workloads import render
from workloads.jobs import allreduce
from workloads.render import FOLDER, SHIPPED, main, shipped_text, to_yaml, write_shipped


@pytest.mark.parametrize("name", SHIPPED)
def test_a_committed_manifest_is_what_the_code_renders(name: str) -> None:
    committed = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    assert committed == shipped_text(name), "stale; run `python -m workloads.render --all`"


def test_every_committed_manifest_is_shipped() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.yaml")) == sorted(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_manifest_opens_with_how_to_use_it(name: str) -> None:
    comments = [line for line in shipped_text(name).splitlines() if line.startswith("#")]
    verbs = [line.split(":")[0].removeprefix("# ") for line in comments[3:]]
    assert verbs == ["Apply", "Check", "Logs", "Clean"]
    assert f"kubectl create -f workloads/manifests/{name}.yaml" in comments[3]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_manifest_reads_back_as_the_job(name: str) -> None:
    assert yaml.safe_load(shipped_text(name)) == SHIPPED[name].job.to_dict()


def test_a_string_that_older_yaml_takes_for_a_boolean_is_quoted() -> None:
    text = to_yaml(allreduce(workers={Vendor.NVIDIA: 1, Vendor.AMD: 1}))
    assert 'value: "n"' in text
    assert "value: n\n" not in text


def test_the_command_line_renders_what_it_was_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["allreduce", "--nvidia", "3", "--amd", "2", "--carriers", "gloo", "mpi"]
    assert main([*arguments, "--link-mbits", "500"]) == 0
    body = yaml.safe_load(capsys.readouterr().out)
    tasks = {task["name"]: task for task in body["spec"]["tasks"]}
    assert (tasks["worker-nvidia"]["replicas"], tasks["worker-amd"]["replicas"]) == (3, 2)
    [container] = tasks["launcher"]["template"]["spec"]["containers"]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    assert environment["CROSSVENDOR_CARRIERS"] == "gloo mpi"
    assert environment["CROSSVENDOR_LINK_MBITS"] == "500"


def test_the_command_line_writes_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    assert main(["allreduce", "--output", str(path)]) == 0
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["kind"] == "Job"


def test_an_impossible_job_is_one_sentence_and_status_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["allreduce", "--nvidia", "0", "--amd", "1"]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("allreduce: workers are 0 nvidia, 1 amd;")
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize("arguments", [[], ["allreduce", "--all"]])
def test_one_job_or_all_must_be_named(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "name one job, or give --all" in capsys.readouterr().err


def test_writing_all_manifests_removes_those_that_are_no_longer_shipped(tmp_path: Path) -> None:
    (tmp_path / "99-gone.yaml").write_text("old", encoding="utf-8")
    (tmp_path / "README.md").write_text("kept", encoding="utf-8")
    write_shipped(tmp_path)
    expected = {f"{name}.yaml" for name in render.SHIPPED} | {"README.md"}
    assert {path.name for path in tmp_path.iterdir()} == expected
