import pulumi
import pulumi_kubernetes as kubernetes

from infra.component import Component
from tests.conftest import Deploy


class Pair(Component):
    """Two namespaces, the second after the first."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("tests:Pair", name, opts)
        first = kubernetes.core.v1.Namespace(f"{name}-b", opts=self._opts())
        kubernetes.core.v1.Namespace(f"{name}-a", opts=self._opts(after=[first]))
        self.register_outputs({})


def program() -> None:
    provider = kubernetes.Provider("cluster")
    Pair("pair", pulumi.ResourceOptions(providers=[provider]))


def test_a_component_is_typed_by_project_folder_and_class(deploy: Deploy) -> None:
    assert len(deploy(program).of_type("crossvendor:tests:Pair")) == 1


def test_children_use_the_components_provider(deploy: Deploy) -> None:
    made = deploy(program)
    [provider] = made.of_type("pulumi:providers:kubernetes")
    for namespace in made.of_type("kubernetes:core/v1:Namespace"):
        assert namespace.provider.startswith(provider.urn)


def test_a_child_comes_after_what_it_was_told_to_come_after(deploy: Deploy) -> None:
    first, second = deploy(program).of_type("kubernetes:core/v1:Namespace")
    assert (first.name, second.name) == ("pair-b", "pair-a")
    assert first.urn in second.depends_on
