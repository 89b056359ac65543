"""`python -m infra.local`: start, look into and remove the local environment."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from infra.config import ConfigError, StackConfig
from infra.local import environment, toolchain
from infra.local.layout import Layout
from infra.local.machine import LocalError, require_root
from infra.local.toolchain import Toolchain
from infra.progress import Progress

_CHECKOUT: Final = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; 0 when it did what it says, 2 with one sentence when it could not."""
    options = _parser().parse_args(arguments)
    try:
        stack = StackConfig.from_file(_stack_file(options.stack), sizes=dict(options.size))
        if stack.environment != "local":
            msg = (
                f"stack {options.stack} is not local but {stack.environment}; "
                "use a stack whose environment is local."
            )
            raise ConfigError(msg)
        options.run(stack, options)
    except (ConfigError, LocalError) as error:
        print(f"crossvendor: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # a full disk shows anywhere
        print(f"crossvendor: {error.filename or 'system'}: {error.strerror}.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("crossvendor: interrupted; `make down` removes what was started.", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.local", description=__doc__)
    parser.add_argument(
        "--stack", default="local", help="stack, or path of a stack file (default: local)"
    )
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        type=_size,
        metavar="POOL=N",
        help="nodes of a pool, instead of the stack file's number; may be repeated",
    )
    parser.add_argument(
        "--build",
        type=Path,
        default=_CHECKOUT / "build",
        help="folder for the kubeconfig, the tools and the timings (default: build)",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for function, text in (
        (_up, "start the environment, or reuse the running one"),
        (_down, "remove it completely; toolchain and images stay cached"),
        (_tools, "build the tools only; needs no root"),
        (_status, "what runs, as JSON"),
        (_logs, "where the logs are, and the last lines of each"),
        (_shell, "a shell with KUBECONFIG and the tools on the PATH"),
    ):
        command = commands.add_parser(function.__name__[1:], help=text, description=text)
        command.set_defaults(run=function)
    return parser


def _stack_file(stack: str) -> Path:
    return Path(stack) if stack.endswith(".yaml") else _CHECKOUT / f"Pulumi.{stack}.yaml"


def _size(text: str) -> tuple[str, int]:
    pool, _, number = text.partition("=")
    if not pool or not number.isdigit():
        msg = f"{text!r} is not POOL=N with N nodes, for example nvidia=2"
        raise argparse.ArgumentTypeError(msg)
    return pool, int(number)


def cache_folder() -> Path:
    """Where toolchain, images and state are kept: outside of every checkout."""
    chosen = os.environ.get("CROSSVENDOR_CACHE")
    if chosen:
        return Path(chosen).resolve()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "crossvendor").resolve()


def _up(stack: StackConfig, options: argparse.Namespace) -> None:
    require_root()
    options.build.mkdir(exist_ok=True)
    timings = options.build / "timings.jsonl"
    timings.unlink(missing_ok=True)
    running = environment.up(stack, cache=cache_folder(), progress=Progress(timings))
    _link_tools(running.toolchain, options.build)
    _link(options.build / "kubeconfig", running.layout.kubeconfig)


def _tools(_: StackConfig, options: argparse.Namespace) -> None:
    _link_tools(toolchain.build(cache_folder(), Progress()), options.build)


def _link_tools(tools: Toolchain, build: Path) -> None:
    """Put what a person and the next commands use into the build folder."""
    _link(build / "bin", tools.binaries)
    _link(build / "charts" / "volcano", tools.volcano_chart)
    _link(build / "crds", tools.volcano_crds)


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _down(stack: StackConfig, options: argparse.Namespace) -> None:
    require_root()
    environment.down(stack.local.name, cache=cache_folder())
    (options.build / "kubeconfig").unlink(missing_ok=True)


def _status(stack: StackConfig, _: argparse.Namespace) -> None:
    layout = Layout.of(stack, cache=cache_folder())
    print(json.dumps(environment.status(layout), indent=2))


def _logs(stack: StackConfig, _: argparse.Namespace) -> None:
    layout = Layout.of(stack, cache=cache_folder())
    files = sorted([*layout.logs.glob("*.log"), *(layout.state / "kwok").rglob("logs/*.log")])
    if not files:
        msg = f"no logs in {layout.logs}; the environment is not up, start it with `make up`."
        raise LocalError(msg)
    for file in files:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
        print(f"== {file}", *lines, sep="\n")


def _shell(stack: StackConfig, options: argparse.Namespace) -> None:
    layout = Layout.of(stack, cache=cache_folder())
    if not layout.kubeconfig.exists():
        msg = "the environment is not up; start it with `make up`."
        raise LocalError(msg)
    path = f"{options.build / 'bin'}:{os.environ['PATH']}"
    shell = os.environ.get("SHELL") or shutil.which("bash") or "/bin/sh"
    subprocess.run(
        [shell], env={**os.environ, "KUBECONFIG": str(layout.kubeconfig), "PATH": path}, check=False
    )
