import pytest

from infra.accelerators import ACCELERATORS, Vendor
from infra.config import NodePool
from infra.platform.quotas import Quotas, hard_limits
from tests.builders import a_gpu_pool, a_stack
from tests.conftest import Deploy

SYSTEM = NodePool(instance_type="m6i.large", max_size=2)


@pytest.mark.parametrize("vendor", Vendor)
def test_a_vendors_gpus_are_limited_to_its_pools_at_their_largest(vendor: Vendor) -> None:
    config = a_stack(node_pools={"s": SYSTEM, "g": a_gpu_pool(vendor, max_size=3)})
    limits = hard_limits(config)
    assert {v: limits[ACCELERATORS[v].quota_key] for v in Vendor} == {
        v: "3" if v is vendor else "0" for v in Vendor
    }


def test_cpu_memory_and_pods_are_limited_to_the_pools_at_their_largest() -> None:
    limits = hard_limits(a_stack(node_pools={"s": SYSTEM}))
    assert limits["requests.cpu"] == "4"
    assert limits["requests.memory"] == limits["limits.memory"] == "16384Mi"
    assert limits["pods"] == "58"


def test_no_service_opens_a_door_to_the_outside() -> None:
    limits = hard_limits(a_stack())
    assert limits["services.loadbalancers"] == limits["services.nodeports"] == "0"


def test_a_container_that_says_nothing_gets_what_the_quota_counts(deploy: Deploy) -> None:
    made = deploy(lambda: Quotas("q", a_stack(), namespace="jobs"))
    [quota] = made.of_type("kubernetes:core/v1:ResourceQuota")
    [limits] = made.of_type("kubernetes:core/v1:LimitRange")
    assert quota.inputs["metadata"]["namespace"] == "jobs"
    assert limits.inputs["metadata"]["namespace"] == "jobs"
    [item] = limits.inputs["spec"]["limits"]
    assert item["type"] == "Container"
    defaults = {
        *(f"requests.{key}" for key in item["defaultRequest"]),
        *(f"limits.{key}" for key in item["default"]),
    }
    counted = {key for key in quota.inputs["spec"]["hard"] if key.endswith((".cpu", ".memory"))}
    assert defaults == counted


def test_no_cpu_limit_is_put_on_a_container_that_asks_for_none(deploy: Deploy) -> None:
    made = deploy(lambda: Quotas("q", a_stack(), namespace="jobs"))
    [limits] = made.of_type("kubernetes:core/v1:LimitRange")
    assert "cpu" not in limits.inputs["spec"]["limits"][0]["default"]
