import pulumi

from infra.clusters import cluster_of
from infra.config import StackConfig
from infra.recording import Recording
from tests.builders import a_stack, an_aws_stack
from tests.conftest import Deploy


def made_for(deploy: Deploy, config: StackConfig) -> Recording:
    def program() -> None:
        cluster = cluster_of(config)
        pulumi.export("ready", [each.urn for each in cluster.ready])
        pulumi.export("outputs", cluster.outputs)

    return deploy(program)


def test_a_cluster_that_is_there_is_reached_and_nothing_else(deploy: Deploy) -> None:
    made = made_for(deploy, a_stack(kubeconfig="build/kubeconfig"))
    [provider] = made.resources
    assert provider.type == "pulumi:providers:kubernetes"
    assert provider.inputs["kubeconfig"] == "build/kubeconfig"
    assert made.outputs == {"ready": [], "outputs": {}}


def test_a_cluster_in_the_cloud_is_made_and_told_about(deploy: Deploy) -> None:
    made = made_for(deploy, an_aws_stack())
    assert made.of_type("aws:eks/cluster:Cluster")
    assert made.outputs["ready"]
    assert made.outputs["outputs"].keys() == {"kubeconfig", "repositories", "bucket"}
