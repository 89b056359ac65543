from typing import Any

import pulumi_kubernetes as kubernetes
import pytest
import yaml

from infra.manifests import (
    Manifest,
    Release,
    RenderError,
    manifests,
    release_inputs,
    steps,
    to_yaml,
)
from infra.names import LABEL_MANAGED_BY, PROJECT
from tests.conftest import Deploy

RELEASE = Release(
    name="r",
    namespace="ns",
    chart="c",
    version="1.0.0",
    repository="https://charts.example",
    values={"text": "two\nlines\n"},
    timeout_seconds=60,
    waits=True,
)


def a_namespace(**metadata: Any) -> None:
    meta = kubernetes.meta.v1.ObjectMetaArgs(**metadata)
    kubernetes.core.v1.Namespace("n", metadata=meta)


def test_an_object_is_marked_as_ours_and_keeps_its_own_labels(deploy: Deploy) -> None:
    [step] = steps(deploy(lambda: a_namespace(name="x", labels={"a": "b"})))
    assert isinstance(step, Manifest)
    assert step.body["metadata"] == {
        "name": "x",
        "labels": {"a": "b", LABEL_MANAGED_BY: PROJECT},
    }


def test_an_object_of_somebody_else_is_not_marked(deploy: Deploy) -> None:
    def program() -> None:
        kubernetes.core.v1.ServiceAccountPatch("x", metadata={"name": "default"})

    [step] = steps(deploy(program))
    assert step == Manifest(
        body={"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}},
        is_patch=True,
    )


def test_an_object_without_a_name_is_refused(deploy: Deploy) -> None:
    with pytest.raises(RenderError, match=r"^a Namespace has no metadata\.name; name it"):
        steps(deploy(lambda: a_namespace(labels={})))


def test_a_release_becomes_what_helm_needs_to_know(deploy: Deploy) -> None:
    def program() -> None:
        kubernetes.helm.v3.Release(
            "x",
            chart="c",
            name="r",
            namespace="ns",
            version="1.0.0",
            repository_opts=kubernetes.helm.v3.RepositoryOptsArgs(repo="https://charts.example"),
            values={"text": "two\nlines\n"},
            timeout=60,
            skip_await=False,
        )

    assert steps(deploy(program)) == [RELEASE]


def test_what_is_not_for_kubernetes_is_left_out(deploy: Deploy) -> None:
    assert steps(deploy(lambda: kubernetes.Provider("cluster"))) == []


def test_the_yaml_has_every_step_in_order_and_releases_under_their_name() -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}
    step = Manifest(body=body, is_patch=False)
    text = manifests([step, RELEASE, step], lambda release: f"---\nrelease: {release.name}\n")
    assert list(yaml.safe_load_all(text)) == [body, {"release": "r"}, body]
    assert "# Helm release r: c 1.0.0 of https://charts.example\n" in text


def test_yaml_does_not_depend_on_the_order_of_keys() -> None:
    one = {"kind": "X", "spec": {"b": 1, "name": "n", "a": [{"d": 1, "c": 2}]}}
    other = {"kind": "X", "spec": {"a": [{"c": 2, "d": 1}], "b": 1, "name": "n"}}
    assert to_yaml(one) == to_yaml(other)
    assert yaml.safe_load(to_yaml(one)) == one


def test_text_of_several_lines_is_readable() -> None:
    assert release_inputs(RELEASE).endswith("  text: |\n    two\n    lines\n" + REST)


REST = "timeout_seconds: 60\nwaits: true\n"


def test_equal_parts_are_written_out() -> None:
    part = {"a": 1}
    assert "&" not in to_yaml({"x": part, "y": part})
