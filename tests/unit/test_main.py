import pytest

from infra.config import stack_name
from tests.builders import CHECKOUT
from tests.recordings import ON_ONE_WORKER, recorded

pytestmark = ON_ONE_WORKER

PROGRAM = CHECKOUT / "__main__.py"


STACKS = [stack_name(file) for file in sorted(CHECKOUT.glob("Pulumi.*.yaml"))]


@pytest.mark.parametrize("stack", STACKS)
def test_the_program_runs_with_every_stack_file(stack: str) -> None:
    recording = recorded(stack)
    assert recording.of_type("crossvendor:platform:Platform")
    assert recording.outputs["namespace"] == "crossvendor-training"


def test_the_kubeconfig_of_the_stack_leads_to_the_cluster() -> None:
    [cluster] = recorded("example").of_type("pulumi:providers:kubernetes")
    assert cluster.inputs["kubeconfig"] == "build/kubeconfig"


def test_without_one_the_cluster_is_the_ambient_one() -> None:
    [cluster] = recorded("local").of_type("pulumi:providers:kubernetes")
    assert "kubeconfig" not in cluster.inputs


def test_the_program_fits_on_a_screen_and_decides_nothing() -> None:
    lines = PROGRAM.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 35
    assert not [line for line in lines if line.lstrip().startswith(("if ", "for ", "while "))]
