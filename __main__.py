"""The stack, top to bottom: a cluster, and the platform on it.

Read infra/config.py for what a stack may choose and infra/accelerators.py for what a vendor is.
"""

import pulumi

from infra.clusters import cluster_of
from infra.config import StackConfig
from infra.platform.platform import Platform

config = StackConfig.load()

cluster = cluster_of(config)
platform = Platform(
    "platform",
    config,
    opts=pulumi.ResourceOptions(providers=[cluster.provider], depends_on=cluster.ready),
)

pulumi.export("namespace", platform.namespace)
pulumi.export("cluster", cluster.outputs)
