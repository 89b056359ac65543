import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from infra.config import StackConfig
from infra.environments import Environment
from infra.names import NAMESPACE_GPU, NAMESPACE_TRAINING, NAMESPACE_VOLCANO
from infra.platform.platform import Platform
from infra.recording import Recording
from tests.builders import a_stack
from tests.conftest import Deploy


def deployed(deploy: Deploy, config: StackConfig) -> Recording:
    def program() -> None:
        cluster = kubernetes.Provider("cluster")
        platform = Platform("p", config, opts=pulumi.ResourceOptions(providers=[cluster]))
        pulumi.export("namespace", platform.namespace)

    return deploy(program)


@pytest.mark.parametrize("environment", Environment)
def test_everything_goes_through_the_given_cluster(
    deploy: Deploy, environment: Environment
) -> None:
    made = deployed(deploy, a_stack(environment=environment))
    [cluster] = made.of_type("pulumi:providers:kubernetes")
    objects = [made for made in made.resources if made.type.startswith("kubernetes:")]
    assert len(objects) > 10
    assert all(resource.provider.startswith(cluster.urn) for resource in objects)


def test_what_is_in_a_namespace_comes_after_it(deploy: Deploy) -> None:
    made = deployed(deploy, a_stack(environment=Environment.EXISTING))
    places: dict[str, int] = {}
    for place, resource in enumerate(made.resources):
        metadata = resource.inputs.get("metadata", resource.inputs)
        if resource.type == "kubernetes:core/v1:Namespace":
            places[metadata["name"]] = place
        elif "namespace" in metadata:
            assert places[metadata["namespace"]] < place
    assert places.keys() == {NAMESPACE_TRAINING, NAMESPACE_VOLCANO, NAMESPACE_GPU}


def test_the_environments_differ_in_charts_device_plugins_and_dns_only(deploy: Deploy) -> None:
    by_urn = [
        {
            resource.urn: resource.inputs
            for resource in deployed(deploy, a_stack(environment=environment)).resources
        }
        for environment in (Environment.LOCAL, Environment.EXISTING)
    ]
    local, existing = by_urn
    different = {
        urn.rpartition("::")[2]
        for urn in local.keys() | existing.keys()
        if local.get(urn) != existing.get(urn)
    }
    assert different == {
        "volcano-release",
        "network-policies-dns",
        "device-plugins-nvidia",
        "device-plugins-amd",
    }


def test_jobs_learn_their_namespace_from_the_platform(deploy: Deploy) -> None:
    assert deployed(deploy, a_stack()).outputs == {"namespace": NAMESPACE_TRAINING}
