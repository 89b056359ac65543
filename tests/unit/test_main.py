from pathlib import Path

import pytest

from infra.render import run_program
from tests.builders import CHECKOUT

PROGRAM = CHECKOUT / "__main__.py"


@pytest.mark.parametrize("file", sorted(CHECKOUT.glob("Pulumi.*.yaml")), ids=lambda file: file.name)
def test_the_program_runs_with_every_stack_file(file: Path) -> None:
    recording = run_program(file)
    assert recording.of_type("crossvendor:platform:Platform")
    assert recording.outputs["namespace"] == "crossvendor-training"


def test_the_kubeconfig_of_the_stack_leads_to_the_cluster() -> None:
    [cluster] = run_program(CHECKOUT / "Pulumi.example.yaml").of_type("pulumi:providers:kubernetes")
    assert cluster.inputs["kubeconfig"] == "build/kubeconfig"


def test_without_one_the_cluster_is_the_ambient_one() -> None:
    [cluster] = run_program(CHECKOUT / "Pulumi.local.yaml").of_type("pulumi:providers:kubernetes")
    assert "kubeconfig" not in cluster.inputs


def test_the_program_fits_on_a_screen_and_decides_nothing() -> None:
    lines = PROGRAM.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 35
    assert not [line for line in lines if line.lstrip().startswith(("if ", "for ", "while "))]
