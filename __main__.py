"""The stack, top to bottom: a cluster, and the platform on it.

Read infra/config.py for what a stack may choose and infra/accelerators.py for what a vendor is.
"""

import pulumi
import pulumi_kubernetes as kubernetes

from infra.config import StackConfig
from infra.platform.platform import Platform

config = StackConfig.load()

after: list[pulumi.Resource] = []
if config.aws is None:
    cluster = kubernetes.Provider("cluster", kubeconfig=config.kubeconfig)
else:
    # Only here: AWS's package takes a second to load, and other stacks have no use for it.
    from infra.aws.cloud import Cloud

    cloud = Cloud("cloud", config)
    cluster, after = cloud.cluster, cloud.ready
    pulumi.export("kubeconfig", cloud.kubeconfig)
    pulumi.export("repositories", cloud.repository_urls)
    pulumi.export("bucket", cloud.bucket)

on_cluster = pulumi.ResourceOptions(providers=[cluster], depends_on=after)
platform = Platform("platform", config, opts=on_cluster)

pulumi.export("namespace", platform.namespace)
