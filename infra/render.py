"""The program without an engine: what a stack puts into Kubernetes, shown or applied.

`python -m infra.render manifests` writes YAML, `apply` applies it with kubectl and Helm, `deploy`
takes Pulumi where its CLI is installed and `apply` elsewhere. All run the same `__main__.py`.
"""

import argparse
import runpy
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from infra.apply import apply
from infra.config import ConfigError, StackConfig, read_stack_file, stack_name
from infra.manifests import RenderError, manifests, steps
from infra.names import PROJECT
from infra.progress import Progress
from infra.recording import Recording, record
from infra.tools import ROOT, Tools, run

PULUMI_STATE: Final = ROOT / "build" / "pulumi"


def stack_file(stack: str) -> Path:
    """The file of a stack."""
    return ROOT / f"Pulumi.{stack}.yaml"


def run_program(file: Path, *, sizes: Mapping[str, int] | None = None) -> Recording:
    """What `__main__.py` registers with a stack file's configuration. Raises ConfigError."""
    return record(
        lambda: runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__"),
        stack=stack_name(file),
        config=read_stack_file(file, sizes=sizes),
    )


def deploy(
    file: Path,
    tools: Tools,
    *,
    sizes: Mapping[str, int] | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """`pulumi up` where its CLI is on the PATH, else the same program without it."""
    pulumi = shutil.which("pulumi")
    if pulumi is None:
        apply_stack(file, tools, sizes=sizes, say=say)
    else:
        _pulumi_up(pulumi, file, tools, say=say)


def apply_stack(
    file: Path,
    tools: Tools,
    *,
    sizes: Mapping[str, int] | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Runs the program and brings the cluster to what it recorded."""
    recording = run_program(file, sizes=sizes)
    for resource in recording.resources:
        if not resource.type.startswith(("kubernetes:", "pulumi:", f"{PROJECT}:")):
            msg = (
                f"stack {stack_name(file)} makes {resource.type}, which only Pulumi can; "
                f"run `pulumi up -s {stack_name(file)}`."
            )
            raise RenderError(msg)
    apply(steps(recording), tools, say=say)


def _pulumi_up(pulumi: str, file: Path, tools: Tools, *, say: Callable[[str], None]) -> None:
    """State in build/, so that `pulumi login` and the person's own stacks stay as they are."""
    PULUMI_STATE.mkdir(parents=True, exist_ok=True)
    environment = {
        "PULUMI_CONFIG_PASSPHRASE": "",  # the state holds no secret
        **tools.environment,
        "PULUMI_BACKEND_URL": PULUMI_STATE.as_uri(),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    stack = stack_name(file)
    select = [pulumi, "stack", "select", "--create", stack, "--non-interactive"]
    run(select, what="pulumi stack select", environment=environment)
    # Refresh: the state may be of a cluster that was removed since.
    up = [pulumi, "up", "--stack", stack, "--yes", "--refresh", "--skip-preview"]
    say(f"platform: pulumi up --stack {stack}")
    run([*up, "--non-interactive"], what="pulumi up", environment=environment)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        options.act(options)
    except (ConfigError, RenderError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.render", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, act: Callable[[argparse.Namespace], None], says: str) -> Any:
        made = commands.add_parser(name, help=says, description=says)
        made.set_defaults(act=act)
        made.add_argument("--stack", default="local", help="of Pulumi.<stack>.yaml")
        made.add_argument("--helm", default="helm", help="the Helm binary")
        made.add_argument(
            "--size",
            dest="sizes",
            action="append",
            default=[],
            type=_size,
            metavar="POOL=N",
            help="replaces a node pool's size",
        )
        return made

    show = command("manifests", _show, "write what the stack puts into Kubernetes as YAML")
    show.add_argument("--output", type=Path, help="file to write instead of the standard output")
    for name, act, says in (
        ("apply", apply_stack, "apply the stack's manifests and releases"),
        ("deploy", deploy, "run `pulumi up` where the CLI is installed, else apply"),
    ):
        made = command(name, _act_on_cluster, says)
        made.set_defaults(act_on_cluster=act)
        made.add_argument("--kubeconfig", type=Path, help="default: the one kubectl takes")
        made.add_argument("--kubectl", default="kubectl", help="the kubectl binary")
        made.add_argument("--timings", type=Path, help="file to add the time taken to")
    return parser


def _size(text: str) -> tuple[str, int]:
    pool, separator, nodes = text.partition("=")
    if not separator or not nodes.isdecimal():
        msg = f"{text!r} is not POOL=N, for example nvidia=2"
        raise argparse.ArgumentTypeError(msg)
    return pool, int(nodes)


def _show(options: argparse.Namespace) -> None:
    recording = run_program(stack_file(options.stack), sizes=dict(options.sizes))
    text = manifests(steps(recording), Tools(helm_binary=options.helm).template)
    if options.output is None:
        print(text, end="")
        return
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text, encoding="utf-8")


def _act_on_cluster(options: argparse.Namespace) -> None:
    file = stack_file(options.stack)
    tools = Tools(
        kubectl_binary=options.kubectl,
        helm_binary=options.helm,
        kubeconfig=_kubeconfig(options.kubeconfig, StackConfig.from_file(file).kubeconfig),
    )
    start = time.monotonic()
    options.act_on_cluster(file, tools, sizes=dict(options.sizes))
    Progress(options.timings).record("platform", time.monotonic() - start)


def _kubeconfig(argument: Path | None, configured: str | None) -> Path | None:
    """The one that was named, and only one may be."""
    if argument is not None and configured is not None:
        msg = (
            f"--kubeconfig {argument}: the stack file names {configured} already; "
            "leave one of the two out."
        )
        raise RenderError(msg)
    # Pulumi's provider reads a stack file's path from the program's folder, so this does too.
    path = ROOT / configured if configured is not None else argument
    if path is not None and not path.is_file():
        msg = f"kubeconfig {path} does not exist; name the file of the cluster to deploy to."
        raise RenderError(msg)
    return path.absolute() if path is not None else None


if __name__ == "__main__":
    sys.exit(main())
