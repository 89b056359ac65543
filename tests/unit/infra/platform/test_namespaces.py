import pulumi
import pytest

from infra.names import NAMESPACE_GPU, NAMESPACE_TRAINING, NAMESPACE_VOLCANO
from infra.platform.namespaces import Namespaces, pod_security_labels
from infra.versions import KUBERNETES_MINOR
from tests.conftest import Deploy

LEVELS = {
    NAMESPACE_TRAINING: "restricted",
    NAMESPACE_VOLCANO: "restricted",
    NAMESPACE_GPU: "privileged",
}


@pytest.mark.parametrize("namespace", LEVELS)
def test_a_namespace_enforces_audits_and_warns_at_its_level(deploy: Deploy, namespace: str) -> None:
    made = {
        resource.inputs["metadata"]["name"]: resource.inputs["metadata"]["labels"]
        for resource in deploy(lambda: Namespaces("n")).of_type("kubernetes:core/v1:Namespace")
    }
    assert made.keys() == LEVELS.keys()
    for mode in ("enforce", "audit", "warn"):
        key = f"pod-security.kubernetes.io/{mode}"
        assert made[namespace][key] == LEVELS[namespace]
        assert made[namespace][f"{key}-version"] == f"v{KUBERNETES_MINOR}"


def test_there_are_labels_of_pod_security_only() -> None:
    assert len(pod_security_labels("baseline")) == 6


def test_the_components_outputs_are_the_names(deploy: Deploy) -> None:
    def program() -> None:
        made = Namespaces("n")
        pulumi.export("all", [made.training, made.volcano, made.gpu])

    assert deploy(program).outputs["all"] == [
        NAMESPACE_TRAINING,
        NAMESPACE_VOLCANO,
        NAMESPACE_GPU,
    ]
