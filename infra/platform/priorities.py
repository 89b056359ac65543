"""Priority classes: training comes after the system's pods and pushes nothing aside."""

from typing import Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.component import Component
from infra.names import PRIORITY_TRAINING

TRAINING: Final = 1000
"""Above pods without a class (0), far below the system's (2 000 000 000)."""


class Priorities(Component):
    """The priority class of training jobs."""

    training: pulumi.Output[str]

    def __init__(self, name: str, *, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("platform:Priorities", name, opts)
        priority = kubernetes.scheduling.v1.PriorityClass(
            f"{name}-training",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=PRIORITY_TRAINING),
            value=TRAINING,
            preemption_policy="Never",
            global_default=False,
            description="Training jobs; they wait for room instead of evicting others.",
            opts=self._opts(),
        )
        self.training = priority.metadata.name
        self.register_outputs({"training": self.training})
