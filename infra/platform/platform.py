"""The platform as a whole, in the order in which its parts come to exist."""

import pulumi

from infra.component import Component
from infra.config import StackConfig
from infra.platform.device_plugins import DevicePlugins
from infra.platform.namespaces import Namespaces
from infra.platform.network_policies import NetworkPolicies
from infra.platform.priorities import Priorities
from infra.platform.queues import Queues
from infra.platform.quotas import Quotas
from infra.platform.service_accounts import ServiceAccounts
from infra.platform.volcano import Volcano


class Platform(Component):
    """Everything that a cluster needs before the first job."""

    namespace: pulumi.Output[str]
    """Where jobs run."""

    def __init__(
        self, name: str, config: StackConfig, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("platform:Platform", name, opts)
        opts = self._opts()
        namespaces = Namespaces("namespaces", opts=opts)
        self.namespace = namespaces.training
        Quotas("quotas", config, namespace=self.namespace, opts=opts)
        ServiceAccounts("service-accounts", namespace=self.namespace, opts=opts)
        Priorities("priorities", opts=opts)
        NetworkPolicies(
            "network-policies",
            namespace=self.namespace,
            dns_address=config.dns_address,
            opts=opts,
        )
        DevicePlugins(
            "device-plugins", config.vendors_with_plugin, namespace=namespaces.gpu, opts=opts
        )
        volcano = Volcano("volcano", config.facts.volcano, namespace=namespaces.volcano, opts=opts)
        Queues("queues", config, volcano=volcano, opts=opts)
        self.register_outputs({"namespace": self.namespace})
