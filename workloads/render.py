"""Jobs as YAML: `python -m workloads.render allreduce --nvidia 2 --amd 1`, or `--all`.

`--all` writes every shipped manifest to workloads/manifests/, which is committed.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from infra.accelerators import Vendor
from infra.names import LABEL_JOB, LABEL_ROLE
from workloads.jobs import ALLREDUCE, ROLE_LAUNCHER, Carrier, Check, allreduce
from workloads.volcano import VolcanoJob

FOLDER: Final = Path(__file__).parent / "manifests"
WIDTH: Final = 80
"""Where lines are broken; the word that crosses it stays on the line."""

_READ_AS_BOOLEAN: Final = frozenset({"y", "n"})
"""Strings that YAML 1.1 parsers, Kubernetes' among them, take for booleans and PyYAML does not."""


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """A manifest that is committed."""

    title: str
    job: VolcanoJob


def _allreduce(title: str, **workers: int) -> Shipped:
    numbers = {Vendor(name): number for name, number in workers.items()}
    return Shipped(title=title, job=allreduce(workers=numbers))


SHIPPED: Final[Mapping[str, Shipped]] = MappingProxyType(
    {
        "01-allreduce": _allreduce("one worker per vendor", nvidia=1, amd=1),
        "02-allreduce-two-per-vendor": _allreduce("two workers per vendor", nvidia=2, amd=2),
        "03-allreduce-odd-team": _allreduce(
            "an odd team, for which libraries choose other algorithms", nvidia=2, amd=1
        ),
    }
)


class _Dumper(yaml.SafeDumper):
    """No aliases, lists indented below their key, every string read back as a string."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if value.lower() in _READ_AS_BOOLEAN else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(job: VolcanoJob) -> str:
    """A job's manifest."""
    return yaml.dump(job.to_dict(), Dumper=_Dumper, sort_keys=False, width=WIDTH)


def shipped_text(name: str) -> str:
    """The whole content of a shipped manifest."""
    shipped = SHIPPED[name]
    job = shipped.job
    label = f"{LABEL_JOB}={job.labels[LABEL_JOB]}"
    kubectl = f"kubectl -n {job.namespace}"
    header = [
        f"{job.labels[LABEL_JOB].capitalize()}: {shipped.title}.",
        "Rendered by `python -m workloads.render --all`; change workloads/jobs.py instead.",
        "",
        f"Apply: kubectl create -f workloads/manifests/{name}.yaml",
        f"Check: {kubectl} get vcjob -l {label}",
        f"Logs: {kubectl} logs -f --tail=-1 -l {label},{LABEL_ROLE}={ROLE_LAUNCHER}",
        f"Clean: {kubectl} delete vcjob -l {label}",
    ]
    comment = "".join(f"# {line}".rstrip() + "\n" for line in header)
    return comment + to_yaml(job)


def write_shipped(folder: Path) -> list[Path]:
    """Writes every shipped manifest; removes YAML files there that are no longer shipped."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.yaml" for name in SHIPPED]
    for path in folder.glob("*.yaml"):
        if path not in paths:
            path.unlink()
    for path in paths:
        path.write_text(shipped_text(path.stem), encoding="utf-8")
    return paths


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m workloads.render", description=__doc__)
    parser.add_argument("job", nargs="?", choices=[ALLREDUCE], help="the job to render")
    parser.add_argument(
        "--all", action="store_true", help=f"write every manifest to {FOLDER.name}/"
    )
    for vendor in Vendor:
        parser.add_argument(
            f"--{vendor}", type=int, default=1, metavar="N", help=f"{vendor} workers (default 1)"
        )
    parser.add_argument(
        "--carriers", nargs="+", type=Carrier, choices=list(Carrier), default=list(Carrier)
    )
    parser.add_argument(
        "--max-bytes", type=int, default=Check.max_bytes, metavar="N", help="largest tensor"
    )
    parser.add_argument("--quick", action="store_true", help="a few cases of each kind")
    parser.add_argument("--fault", help="let the ranks make this fault, to see the check fail")
    parser.add_argument(
        "--link-mbits", type=int, metavar="N", help="slowest link between the workers, in Mbit/s"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write there, not to stdout")
    options = parser.parse_args(arguments)
    if options.all == (options.job is not None):
        parser.error("name one job, or give --all")
    if options.all:
        for path in write_shipped(FOLDER):
            print(path)
        return 0
    try:
        job = allreduce(
            workers={vendor: getattr(options, vendor) for vendor in Vendor},
            check=Check(
                carriers=tuple(options.carriers),
                max_bytes=options.max_bytes,
                quick=options.quick,
                fault=options.fault,
            ),
            link_mbits=options.link_mbits,
        )
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.output is None:
        print(to_yaml(job), end="")
    else:
        options.output.write_text(to_yaml(job), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
