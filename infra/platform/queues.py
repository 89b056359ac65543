"""Volcano's queues: what the jobs of one kind may hold at the same time."""

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from infra.accelerators import ACCELERATORS
from infra.component import Component
from infra.config import StackConfig
from infra.names import ANNOTATION_WAIT_FOR, QUEUE_TRAINING
from infra.platform.volcano import Volcano


def training_queue(config: StackConfig) -> dict[str, Any]:
    """Spec of the training queue: every vendor's GPUs at the pools' largest."""
    return {
        "weight": 1,
        "reclaimable": False,
        "capability": {
            row.resource: str(config.max_gpus(row.vendor)) for row in ACCELERATORS.values()
        },
    }


class Queues(Component):
    """The queue of training jobs."""

    def __init__(
        self,
        name: str,
        config: StackConfig,
        *,
        volcano: Volcano,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("platform:Queues", name, opts)
        kubernetes.apiextensions.CustomResource(
            f"{name}-{QUEUE_TRAINING}",
            api_version="scheduling.volcano.sh/v1beta1",
            kind="Queue",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=QUEUE_TRAINING,
                # Volcano's webhook refuses jobs until its controller has opened the queue.
                annotations={ANNOTATION_WAIT_FOR: "jsonpath={.status.state}=Open"},
            ),
            spec=training_queue(config),
            opts=self._opts(after=[volcano.release]),
        )
        self.register_outputs({})
