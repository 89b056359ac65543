"""How charts are installed: as real Helm releases, because Volcano's makes its secret in a hook."""

from collections.abc import Mapping
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.charts import Chart

TIMEOUT_SECONDS: Final = 300


def release_args(
    chart: Chart,
    *,
    name: str,
    namespace: pulumi.Input[str],
    values: Mapping[str, Any],
    waits: bool = True,
) -> kubernetes.helm.v3.ReleaseArgs:
    """A release called `name`; None in `values` removes a chart's default."""
    # A chart in a folder has the version that it has.
    source: dict[str, Any] = (
        {}
        if chart.repository is None
        else {
            "version": chart.version,
            "repository_opts": kubernetes.helm.v3.RepositoryOptsArgs(repo=chart.repository),
        }
    )
    return kubernetes.helm.v3.ReleaseArgs(
        chart=chart.name,
        name=name,
        namespace=namespace,
        values=values,
        allow_null_values=True,
        timeout=TIMEOUT_SECONDS,
        skip_await=not waits,
        **source,
    )
