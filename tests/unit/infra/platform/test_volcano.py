from typing import Any

import pytest
import yaml

from infra.accelerators import ACCELERATORS, Vendor
from infra.charts import Chart
from infra.names import LABEL_VENDOR, NO_VENDOR
from infra.platform.volcano import Volcano, chart_values, scheduler_config
from tests.conftest import Deploy

PLUGINS = {
    plugin["name"]: plugin for tier in scheduler_config()["tiers"] for plugin in tier["plugins"]
}


def test_pods_exist_before_there_is_room_so_that_an_autoscaler_sees_them() -> None:
    assert scheduler_config()["actions"].split(", ") == ["allocate", "backfill"]


def test_jobs_start_whole_or_not_at_all() -> None:
    assert PLUGINS["gang"]["enablePreemptable"] is False


def test_queues_are_shared_by_capacity_and_not_by_proportion_too() -> None:
    assert "capacity" in PLUGINS
    assert not PLUGINS.keys() & {"proportion", "overcommit"}


@pytest.mark.parametrize("vendor", Vendor)
def test_every_vendors_gpus_are_packed_before_cpus(vendor: Vendor) -> None:
    arguments = PLUGINS["binpack"]["arguments"]
    resource = ACCELERATORS[vendor].resource
    assert resource in arguments["binpack.resources"].split(", ")
    assert arguments[f"binpack.resources.{resource}"] > arguments["binpack.cpu"]


def custom() -> dict[str, Any]:
    values: dict[str, Any] = chart_values("1.2.3")["custom"]
    return values


def test_the_chart_gets_the_schedulers_configuration_as_yaml() -> None:
    assert yaml.safe_load(custom()["scheduler_config_override"]) == scheduler_config()


def test_images_are_pinned_and_pulled_once() -> None:
    assert chart_values("1.2.3")["basic"] == {
        "image_tag_version": "v1.2.3",
        "image_pull_policy": "IfNotPresent",
    }


def test_there_is_no_leader_to_elect_among_one() -> None:
    assert custom()["leader_elect_enable"] is False


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        ({LABEL_VENDOR: NO_VENDOR}, True),
        ({}, True),
        *[({LABEL_VENDOR: vendor.value}, False) for vendor in Vendor],
    ],
)
def test_volcano_stays_off_gpu_nodes(labels: dict[str, str], fits: bool) -> None:
    required = custom()["default_affinity"]["nodeAffinity"]
    [term] = required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    [expression] = term["matchExpressions"]
    assert expression["operator"] == "NotIn"
    assert (labels.get(expression["key"]) not in expression["values"]) == fits


def test_the_webhooks_leave_kube_system_alone() -> None:
    assert custom()["webhooks_namespace_selector_expressions"] == [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
    ]


def test_volcano_drops_every_capability() -> None:
    assert custom()["default_csc"]["capabilities"] == {"add": [], "drop": ["ALL"]}


def test_the_release_is_called_volcano_in_its_namespace(deploy: Deploy) -> None:
    chart = Chart(name="./chart", version="1.2.3")
    [release] = deploy(lambda: Volcano("v", chart, namespace="ns")).of_type(
        "kubernetes:helm.sh/v3:Release"
    )
    assert (release.inputs["name"], release.inputs["namespace"]) == ("volcano", "ns")
    assert release.inputs["values"] == chart_values("1.2.3")
