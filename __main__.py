"""The stack, top to bottom: a cluster, and the platform on it.

Read infra/config.py for what a stack may choose and infra/accelerators.py for what a vendor is.
"""

import pulumi
import pulumi_kubernetes as kubernetes

from infra.config import StackConfig
from infra.platform.platform import Platform

config = StackConfig.load()

cluster = kubernetes.Provider("cluster", kubeconfig=config.kubeconfig)
platform = Platform("platform", config, opts=pulumi.ResourceOptions(providers=[cluster]))

pulumi.export("namespace", platform.namespace)
