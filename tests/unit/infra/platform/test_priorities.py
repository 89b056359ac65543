from infra.names import PRIORITY_TRAINING
from infra.platform.priorities import Priorities
from tests.conftest import Deploy


def test_training_waits_for_room_and_is_nobodys_default(deploy: Deploy) -> None:
    [priority] = deploy(lambda: Priorities("p")).of_type(
        "kubernetes:scheduling.k8s.io/v1:PriorityClass"
    )
    assert priority.inputs["metadata"]["name"] == PRIORITY_TRAINING
    assert priority.inputs["preemptionPolicy"] == "Never"
    assert priority.inputs["globalDefault"] is False


def test_training_is_above_pods_without_a_class_and_below_the_systems(deploy: Deploy) -> None:
    [priority] = deploy(lambda: Priorities("p")).of_type(
        "kubernetes:scheduling.k8s.io/v1:PriorityClass"
    )
    assert 0 < priority.inputs["value"] < 1_000_000_000  # the largest that users may choose
