import pytest

from infra.accelerators import ACCELERATORS, Vendor
from infra.charts import Chart
from infra.config import NodePool
from infra.names import QUEUE_TRAINING
from infra.platform.queues import Queues, training_queue
from infra.platform.volcano import Volcano
from tests.builders import a_gpu_pool, a_stack
from tests.conftest import Deploy


@pytest.mark.parametrize("vendor", Vendor)
def test_the_queue_holds_at_most_the_gpus_of_the_pools(vendor: Vendor) -> None:
    pools = {"s": NodePool(instance_type="m6i.large"), "g": a_gpu_pool(vendor, max_size=3)}
    capability = training_queue(a_stack(node_pools=pools))["capability"]
    assert {v: capability[ACCELERATORS[v].resource] for v in Vendor} == {
        v: "3" if v is vendor else "0" for v in Vendor
    }


def test_nothing_is_taken_back_from_a_running_job() -> None:
    assert training_queue(a_stack())["reclaimable"] is False


def test_the_queue_comes_after_the_release_that_brings_its_kind(deploy: Deploy) -> None:
    def program() -> None:
        volcano = Volcano("v", Chart(name="./chart", version="1.2.3"), namespace="ns")
        Queues("q", a_stack(), volcano=volcano)

    made = deploy(program)
    [release] = made.of_type("kubernetes:helm.sh/v3:Release")
    [queue] = made.of_type("kubernetes:scheduling.volcano.sh/v1beta1:Queue")
    assert release.urn in queue.depends_on
    assert queue.inputs["metadata"]["name"] == QUEUE_TRAINING
    assert queue.inputs["spec"] == training_queue(a_stack())
