import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import versions
from infra.accelerators import ACCELERATORS, Vendor
from infra.aws.amd_image_document import (
    INSTALLED_IN,
    MAX_DATA,
    RENDER_GID,
    SETTINGS,
    VIDEO_GID,
    component_document,
    gfx_target_version,
    read_scripts,
    semantic_version,
    settings,
)
from tests.conftest import Golden

ROW = ACCELERATORS[Vendor.AMD]


def document() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(component_document(ROW, read_scripts()))
    return found


def steps(phase: str) -> dict[str, dict[str, Any]]:
    [found] = [each["steps"] for each in document()["phases"] if each["name"] == phase]
    return {step["name"]: step for step in found}


def command(phase: str, step: str) -> str:
    [text] = steps(phase)[step]["inputs"]["commands"]
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize(
    ("architecture", "number"),
    [
        ("gfx1011", 100101),
        ("gfx1030", 100300),
        ("gfx1100", 110000),
        ("gfx906", 90006),
        ("gfx90a", 90010),
        ("gfx942", 90402),
        ("gfx12a0", 121000),
    ],
)
def test_the_kfds_number_of_a_target_follows_from_its_name(architecture: str, number: int) -> None:
    assert gfx_target_version(architecture) == number


@pytest.mark.parametrize("architecture", ["sm_75", "gfx", "gfx1", "gfx10-1-generic", "GFX1011"])
def test_what_is_no_target_of_the_kfd_is_refused(architecture: str) -> None:
    with pytest.raises(ValueError, match=r"is not of the KFD; use one like 'gfx1011'"):
        gfx_target_version(architecture)


def test_the_component_is_the_one_that_was_reviewed(golden: Golden) -> None:
    golden("amd-node-component.yaml", component_document(ROW, read_scripts()))


def test_the_component_is_in_image_builders_words() -> None:
    assert document().keys() == {"name", "description", "schemaVersion", "phases"}
    assert document()["schemaVersion"] == 1.0
    assert [phase["name"] for phase in document()["phases"]] == ["build", "validate", "test"]
    for phase in document()["phases"]:
        for step in phase["steps"]:
            assert step["action"] == "ExecuteBash"
            assert step["onFailure"] == "Abort"
            assert step["timeoutSeconds"] > 0


def test_the_build_writes_installs_and_then_records() -> None:
    assert list(steps("build")) == ["WriteScripts", "InstallDriver", "RecordImage"]
    assert "install-driver.sh" in command("build", "InstallDriver")
    assert "record-image.sh" in command("build", "RecordImage")


@pytest.mark.parametrize("phase", ["validate", "test"])
def test_the_built_and_the_new_instance_are_checked_alike(phase: str) -> None:
    assert list(steps(phase)) == ["CheckDriver"]
    assert command(phase, "CheckDriver") == command("validate", "CheckDriver")
    assert f"exec {INSTALLED_IN}/check-driver.sh" in command(phase, "CheckDriver")


def test_what_the_build_writes_are_the_scripts_and_their_settings(tmp_path: Path) -> None:
    for text in steps("build")["WriteScripts"]["inputs"]["commands"]:
        moved = text.replace(INSTALLED_IN, str(tmp_path))
        subprocess.run(["bash", "-c", moved], check=True, cwd=tmp_path)
    written = {file.name: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()}
    assert written.keys() == {SETTINGS, *read_scripts()}
    assert {name: written[name] for name in read_scripts()} == read_scripts()
    assert all(os.access(tmp_path / name, os.X_OK) for name in read_scripts())


def test_a_script_runs_with_the_settings_and_its_status_is_the_steps(tmp_path: Path) -> None:
    probe = "#!/bin/bash\nenv\nexit 194\n"
    text = component_document(ROW, {"check-driver.sh": probe, "install-driver.sh": probe})
    build = yaml.safe_load(text.replace(INSTALLED_IN, str(tmp_path)))["phases"][0]["steps"]
    for each in build[0]["inputs"]["commands"]:
        subprocess.run(["bash", "-c", each], check=True)
    [run] = build[1]["inputs"]["commands"]
    done = subprocess.run(["bash", "-c", run], capture_output=True, text=True, check=False)
    assert done.returncode == 194
    assert set(done.stdout.splitlines()) >= {f"{k}={v}" for k, v in settings(ROW).items()}


def test_every_setting_that_a_script_requires_is_given_and_no_other() -> None:
    required = {
        name for text in read_scripts().values() for name in re.findall(r"\{([A-Z_]+):\?\}", text)
    }
    assert settings(ROW).keys() == required


def test_the_settings_are_the_tables() -> None:
    found = settings(ROW)
    assert found["GFX_TARGET_VERSION"] == "100101"
    assert (found["RENDER_GID"], found["VIDEO_GID"]) == (str(RENDER_GID), str(VIDEO_GID))
    assert found["DKMS_PACKAGE"] == versions.AMDGPU_DKMS_PACKAGE
    assert re.fullmatch(r"amdgpu-dkms=\S+", found["DKMS_PACKAGE"])
    assert re.fullmatch(r"[0-9A-F]{40}", found["DKMS_KEY"])


def test_another_architecture_is_checked_for_itself() -> None:
    assert "GFX_TARGET_VERSION=100300" in component_document(
        replace(ROW, architecture="gfx1030"), read_scripts()
    )


def test_the_groups_id_is_one_that_ubuntu_gives_to_nothing_by_itself() -> None:
    assert 400 <= RENDER_GID <= 600


def test_the_component_leaves_room_for_a_longer_script() -> None:
    assert len(component_document(ROW, read_scripts())) < MAX_DATA * 0.9


def test_a_component_that_image_builder_would_not_take_is_refused() -> None:
    long = {"install-driver.sh": "#!/bin/bash\n" + "echo a line of some length\n" * 600}
    with pytest.raises(ValueError, match=r"takes 16000 without S3, so shorten the scripts"):
        component_document(ROW, long)


@pytest.mark.parametrize("word", ["{{", "END_OF_SCRIPT"])
def test_a_script_that_would_be_written_differently_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match=r"images/amd-node/a\.sh has .*; write it in another way"):
        component_document(ROW, {"a.sh": f"echo '{word}'\n"})


def test_a_version_follows_the_content() -> None:
    assert semantic_version("a") == semantic_version("a")
    others = [semantic_version(*content) for content in (["a"], ["b"], ["a", "b"], ["ab"])]
    assert len(set(others)) == 4


def test_a_version_is_one_of_image_builders() -> None:
    parts = [int(part) for part in semantic_version("a").split(".")]
    assert len(parts) == 3
    assert all(0 <= part < 2**30 for part in parts)
