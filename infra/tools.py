"""kubectl and Helm, run as commands against one cluster."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from infra.manifests import Release, RenderError
from infra.versions import KUBERNETES

ROOT: Final = Path(__file__).resolve().parents[1]
"""Where charts' folders and the program are relative to."""


class CommandFailedError(RenderError):
    """A command that ended with an error; `stderr` is all that it said."""

    def __init__(self, what: str, stderr: str) -> None:
        self.stderr = stderr
        lines = [line.strip() for line in stderr.splitlines() if line.strip()]
        # Go programs put warnings and repetitions first and what counts last.
        reason = (lines or ["it said nothing"])[-1].removeprefix("Error: ").removeprefix("error: ")
        super().__init__(f"{what}: {reason[:400].rstrip('.')}.")


def run(
    command: Sequence[str],
    *,
    what: str,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """A command's standard output; its failure is one sentence that begins with `what`."""
    try:
        done = subprocess.run(
            command,
            input=stdin,
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        msg = f"{what}: cannot run {command[0]}: {error.strerror}; install it or name its path."
        raise RenderError(msg) from error
    if done.returncode != 0:
        raise CommandFailedError(what, done.stderr or done.stdout)
    return done.stdout


def chart_arguments(release: Release) -> list[str]:
    """Where Helm finds a release's chart."""
    if release.repository is not None:
        return [release.chart, "--repo", release.repository, "--version", str(release.version)]
    folder = ROOT / release.chart
    if not (folder / "Chart.yaml").exists():
        msg = (
            f"{release.name}: there is no chart at {release.chart}; "
            "start the local environment with `make up`, it puts the chart there."
        )
        raise RenderError(msg)
    return [str(folder.resolve())]


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The two binaries and the cluster that they act on."""

    kubectl_binary: str = "kubectl"
    helm_binary: str = "helm"
    kubeconfig: Path | None = None
    """None for the one that kubectl takes by itself."""

    @property
    def environment(self) -> dict[str, str]:
        """This process' environment, with the kubeconfig."""
        if self.kubeconfig is None:
            return dict(os.environ)
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Kubectl's standard output. Raises CommandFailedError."""
        what = f"kubectl {arguments[0]}"
        command = [self.kubectl_binary, *arguments]
        return run(command, what=what, stdin=stdin, environment=self.environment)

    def helm(self, *arguments: str, stdin: str | None = None) -> str:
        """Helm's standard output. Raises CommandFailedError."""
        what = f"helm {arguments[0]} {arguments[1]}"
        command = [self.helm_binary, *arguments]
        return run(command, what=what, stdin=stdin, environment=self.environment)

    def template(self, release: Release) -> str:
        """What a release would put into a cluster, its hooks included; asks no cluster."""
        return self.helm(
            "template",
            release.name,
            *chart_arguments(release),
            f"--namespace={release.namespace}",
            f"--kube-version={KUBERNETES}",
            "--include-crds",
            "--values=-",
            stdin=yaml.safe_dump(release.values),
        )
