from typing import Any

import pulumi_kubernetes as kubernetes

from infra.charts import Chart
from infra.platform.releases import TIMEOUT_SECONDS, release_args
from tests.conftest import Deploy

FOLDER = Chart(name="./chart", version="1.2.3")
REPOSITORY = Chart(name="chart", version="1.2.3", repository="https://charts.example")


def inputs(deploy: Deploy, chart: Chart, **options: Any) -> dict[str, Any]:
    def program() -> None:
        args = release_args(chart, name="r", namespace="ns", values={"a": {"b": None}}, **options)
        kubernetes.helm.v3.Release("x", args)

    [release] = deploy(program).of_type("kubernetes:helm.sh/v3:Release")
    return release.inputs


def test_a_chart_of_a_repository_is_pinned(deploy: Deploy) -> None:
    made = inputs(deploy, REPOSITORY)
    assert made["version"] == "1.2.3"
    assert made["repositoryOpts"] == {"repo": "https://charts.example"}


def test_a_chart_in_a_folder_says_its_version_itself(deploy: Deploy) -> None:
    made = inputs(deploy, FOLDER)
    assert made["chart"] == "./chart"
    assert "version" not in made
    assert "repositoryOpts" not in made


def test_none_in_the_values_reaches_the_chart(deploy: Deploy) -> None:
    made = inputs(deploy, FOLDER)
    assert made["values"] == {"a": {"b": None}}
    assert made["allowNullValues"] is True


def test_a_release_waits_for_its_pods_unless_told_otherwise(deploy: Deploy) -> None:
    assert inputs(deploy, FOLDER)["skipAwait"] is False
    assert inputs(deploy, FOLDER, waits=False)["skipAwait"] is True
    assert inputs(deploy, FOLDER)["timeout"] == TIMEOUT_SECONDS
