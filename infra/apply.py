"""Brings a cluster to what a program recorded, without Pulumi: by kubectl and Helm.

What was made is kept in a ConfigMap, so that what the program no longer makes is removed. A release
carries a hash of its chart and values as a label, so that an unchanged one is left alone.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from infra.manifests import Manifest, Release, Step
from infra.names import ANNOTATION_WAIT_FOR, LABEL_MANAGED_BY, LABEL_PREFIX, PROJECT
from infra.tools import CommandFailedError, Tools, chart_arguments

INVENTORY: Final = f"{PROJECT}-inventory"
INVENTORY_NAMESPACE: Final = "kube-system"
LABEL_CONTENT: Final = f"{LABEL_PREFIX}/content"
"""On a release's secret: the hash of what it was installed from."""

RETRY_SECONDS: Final = 60.0
RETRY_PAUSE_SECONDS: Final = 0.5
# A chart's webhooks have no readiness probe: right after its release they may not answer yet, and
# the API server may not serve its resource kinds yet.
_NOT_YET: Final = (
    "failed calling webhook",
    "no matches for kind",
    "could not find the requested resource",
)
_RELEASE_KIND: Final = "Release"


class Made(NamedTuple):
    """One line of the inventory."""

    api_version: str
    kind: str
    namespace: str
    name: str


def apply(todo: Sequence[Step], tools: Tools, *, say: Callable[[str], None]) -> None:
    """Applies all steps in order, then removes what an earlier call made and this one did not.

    `say` gets a line per part. Raises RenderError.
    """
    for step in todo:
        if isinstance(step, Release):
            chart_arguments(step)  # a missing chart is told before anything changes
    before = _read_inventory(tools)
    after = [made for step in todo for made in _made(step)]
    gone = [made for made in before if made not in after]
    # Written first: killed half-way, the next call still knows everything.
    if before != [*after, *gone]:
        _write_inventory(tools, [*after, *gone])
    for part in _parts(todo):
        match part:
            case Release():
                _timed(say, partial(_apply_release, part, tools))
            case _:
                _timed(say, partial(_apply_manifests, part, tools))
    # Made first, removed last.
    for made in reversed(gone):
        _timed(say, partial(_remove, made, tools))
    if gone:
        _write_inventory(tools, after)


def _parts(todo: Sequence[Step]) -> list[Release | list[Manifest]]:
    """The steps in order, with manifests that follow each other in one call of kubectl."""
    parts: list[Release | list[Manifest]] = []
    for step in todo:
        match step, parts[-1:]:
            case Manifest(), [list(manifests)]:
                manifests.append(step)
            case Manifest(), _:
                parts.append([step])
            case Release(), _:
                parts.append(step)
    return parts


def content_hash(release: Release) -> str:
    """Changes when the chart, its version or a value does."""
    digest = hashlib.sha256(json.dumps(asdict(release), sort_keys=True).encode())
    if release.repository is None:
        [folder] = chart_arguments(release)
        for place, folders, files in os.walk(folder, followlinks=True):
            folders.sort()
            for file in sorted(files):
                path = Path(place, file)
                digest.update(f"\0{path.relative_to(folder)}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def _timed(say: Callable[[str], None], act: Callable[[], str]) -> None:
    start = time.monotonic()
    did = act()
    say(f"platform: {did} ({time.monotonic() - start:.1f} s)")


def _made(step: Step) -> list[Made]:
    match step:
        case Release():
            return [Made("helm.sh", _RELEASE_KIND, step.namespace, step.name)]
        case Manifest(is_patch=True):
            return []
        case Manifest(body=body):
            metadata = body["metadata"]
            namespace = metadata.get("namespace", "")
            return [Made(body["apiVersion"], body["kind"], namespace, metadata["name"])]


def _apply_manifests(part: Sequence[Manifest], tools: Tools) -> str:
    document = yaml.safe_dump_all(manifest.body for manifest in part)
    deadline = time.monotonic() + RETRY_SECONDS
    while True:
        try:
            tools.kubectl(
                "apply",
                "--server-side",
                f"--field-manager={PROJECT}",
                "--force-conflicts",
                "--filename=-",
                stdin=document,
            )
        except CommandFailedError as error:
            is_final = not any(reason in error.stderr for reason in _NOT_YET)
            if is_final or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_PAUSE_SECONDS)
        else:
            break
    for manifest in part:
        _wait(manifest, tools)
    kinds = ", ".join(dict.fromkeys(manifest.body["kind"] for manifest in part))
    return f"applied {len(part)} manifests: {kinds}"


def _wait(manifest: Manifest, tools: Tools) -> None:
    """Until the object is what its annotation says, if it has one."""
    metadata = manifest.body["metadata"]
    condition = metadata.get("annotations", {}).get(ANNOTATION_WAIT_FOR)
    if condition is not None:
        tools.kubectl(
            "wait",
            f"{_resource(manifest.body['apiVersion'], manifest.body['kind'])}/{metadata['name']}",
            f"--for={condition}",
            f"--timeout={RETRY_SECONDS:g}s",
            *_namespace_flag(metadata.get("namespace", "")),
        )


def _resource(api_version: str, kind: str) -> str:
    """A kind as kubectl takes it without ambiguity."""
    group, _, version = api_version.rpartition("/")
    return f"{kind}.{version}.{group}"


def _namespace_flag(namespace: str) -> list[str]:
    return [f"--namespace={namespace}"] if namespace else []


def _apply_release(release: Release, tools: Tools) -> str:
    content = content_hash(release)
    revisions = _revisions(release, tools)
    if revisions and revisions[-1][1:] == ("deployed", content):
        return f"{release.name} is up to date"
    # A killed Helm leaves its revision pending, and a pending one locks the release for ever.
    pending = [secret for secret, status, _ in revisions if status.startswith("pending-")]
    if pending:
        tools.kubectl("delete", "secret", f"--namespace={release.namespace}", *pending)
    if not revisions:
        _make_kinds(release, tools)
    waiting = ["--wait"] if release.waits else []
    tools.helm(
        "upgrade",
        release.name,
        *chart_arguments(release),
        "--install",
        f"--namespace={release.namespace}",
        f"--timeout={release.timeout_seconds}s",
        f"--labels={LABEL_CONTENT}={content}",
        "--history-max=3",
        "--values=-",
        *waiting,
        stdin=yaml.safe_dump(release.values),
    )
    return f"installed {release.name}"


def _make_kinds(release: Release, tools: Tools) -> None:
    """Makes the release's kinds, for Helm to find as its own, and has them served.

    The API server breaks the first watch of a new kind off, and Volcano 1.14's controllers miss
    what happens until they look again: a job that was made then gets no pods, ever. So the first
    watch must not be theirs.
    """
    rendered = yaml.safe_load_all(tools.template(release))
    kinds = [body for body in rendered if body and body["kind"] == "CustomResourceDefinition"]
    if not kinds:
        return
    for body in kinds:
        metadata = body["metadata"]
        metadata.setdefault("labels", {})[LABEL_MANAGED_BY] = "Helm"
        metadata.setdefault("annotations", {}).update(
            {
                "meta.helm.sh/release-name": release.name,
                "meta.helm.sh/release-namespace": release.namespace,
            }
        )
    try:
        tools.kubectl("create", "--filename=-", stdin=yaml.safe_dump_all(kinds))
    except CommandFailedError as error:
        # Of a killed call, or of somebody else's release: then Helm says so.
        if "AlreadyExists" not in error.stderr:
            raise
    names = [body["metadata"]["name"] for body in kinds]
    crds = [f"customresourcedefinition/{name}" for name in names]
    tools.kubectl("wait", *crds, "--for=condition=Established", f"--timeout={RETRY_SECONDS:g}s")
    tools.kubectl("get", ",".join(names), "--all-namespaces", "--output=name")


def _revisions(release: Release, tools: Tools) -> list[tuple[str, str, str]]:
    """Secret, status and content of the release's revisions, oldest first."""
    text = tools.kubectl(
        "get",
        "secret",
        f"--namespace={release.namespace}",
        f"--selector=owner=helm,name={release.name}",
        "--output=jsonpath={range .items[*]}{.metadata}{'\\n'}{end}",
    )
    found = []
    for line in text.splitlines():
        metadata = json.loads(line)
        labels = metadata["labels"]
        revision = int(labels["version"])
        content = labels.get(LABEL_CONTENT, "")
        found.append((revision, (metadata["name"], labels["status"], content)))
    return [values for _, values in sorted(found)]


def _remove(made: Made, tools: Tools) -> str:
    api_version, kind, namespace, name = made
    if kind == _RELEASE_KIND:
        tools.helm("uninstall", name, f"--namespace={namespace}", "--ignore-not-found", "--wait")
        return f"removed release {name}"
    # Somebody else's since: its label is no longer ours, and then it stays.
    try:
        tools.kubectl(
            "delete",
            _resource(api_version, kind),
            f"--selector={LABEL_MANAGED_BY}={PROJECT}",
            f"--field-selector=metadata.name={name}",
            "--timeout=120s",
            *_namespace_flag(namespace),
        )
    except CommandFailedError as error:
        # The kind itself went with its release, and its objects with it.
        if "the server doesn't have a resource type" not in error.stderr:
            raise
    return f"removed {kind} {name}"


def _read_inventory(tools: Tools) -> list[Made]:
    text = tools.kubectl(
        "get",
        "configmap",
        INVENTORY,
        f"--namespace={INVENTORY_NAMESPACE}",
        "--ignore-not-found",
        "--output=jsonpath={.data.made}",
        "--request-timeout=30s",
    )
    return [Made(*line) for line in json.loads(text)] if text else []


def _write_inventory(tools: Tools, made: Sequence[Made]) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": INVENTORY,
            "namespace": INVENTORY_NAMESPACE,
            "labels": {LABEL_MANAGED_BY: PROJECT},
        },
        "data": {"made": json.dumps(made, indent=1)},
    }
    tools.kubectl(
        "apply",
        "--server-side",
        f"--field-manager={PROJECT}",
        "--force-conflicts",
        "--filename=-",
        stdin=json.dumps(body),
    )
