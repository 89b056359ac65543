"""What a recorded program puts into Kubernetes: manifests and releases, in order, and as YAML."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import yaml

from infra.names import LABEL_MANAGED_BY, PROJECT
from infra.recording import Recording


class RenderError(Exception):
    """What stands in the way, in one sentence with the remedy."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One object to apply as it is."""

    body: dict[str, Any]
    is_patch: bool
    """Whether it completes an object that somebody else makes, and removes."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """One Helm release to install or upgrade."""

    name: str
    namespace: str
    chart: str
    """A chart's name in `repository`, or a folder relative to the repository's root."""
    version: str | None
    repository: str | None
    values: dict[str, Any]
    timeout_seconds: int
    waits: bool
    """Whether it is done only when its pods are ready."""


Step = Manifest | Release


def steps(recording: Recording) -> list[Step]:
    """What of a recording goes into Kubernetes, in order."""
    found: list[Step] = []
    for resource in recording.resources:
        if resource.type == "kubernetes:helm.sh/v3:Release":
            found.append(_release(resource.inputs))
        elif resource.type.startswith("kubernetes:"):
            is_patch = resource.type.endswith("Patch")
            found.append(Manifest(body=_body(resource.inputs, is_patch), is_patch=is_patch))
    return found


def _release(inputs: dict[str, Any]) -> Release:
    return Release(
        name=inputs["name"],
        namespace=inputs["namespace"],
        chart=inputs["chart"],
        version=inputs.get("version"),
        repository=inputs.get("repositoryOpts", {}).get("repo"),
        values=inputs["values"],
        timeout_seconds=inputs["timeout"],
        waits=not inputs["skipAwait"],
    )


def _body(inputs: dict[str, Any], is_patch: bool) -> dict[str, Any]:
    """An object in the order in which people write it, marked as ours unless it is not."""
    metadata = dict(inputs["metadata"])
    if "name" not in metadata:
        msg = f"a {inputs['kind']} has no metadata.name; name it, only an engine can make names up."
        raise RenderError(msg)
    if not is_patch:
        metadata["labels"] = {**metadata.get("labels", {}), LABEL_MANAGED_BY: PROJECT}
    first = {"apiVersion": inputs["apiVersion"], "kind": inputs["kind"], "metadata": metadata}
    return {**first, **{key: inputs[key] for key in sorted(inputs.keys() - first.keys())}}


def manifests(todo: Sequence[Step], expand: Callable[[Release], str]) -> str:
    """YAML of all steps; `expand` gives a release's own."""
    texts = []
    for step in todo:
        match step:
            case Manifest():
                texts.append(to_yaml(step.body))
            case Release():
                source = f" {step.version} of {step.repository}" if step.repository else ""
                title = f"# Helm release {step.name}: {step.chart}{source}\n"
                texts.append(title + expand(step).strip().removeprefix("---\n") + "\n")
    return "---\n" + "---\n".join(texts)


def release_inputs(release: Release) -> str:
    """A release as what it is made from; stands for its content where there is no Helm."""
    return to_yaml({key: value for key, value in asdict(release).items() if value is not None})


def to_yaml(value: object) -> str:
    """YAML for people: keys as they come at the top, sorted below, long text as blocks."""
    return yaml.dump(_sorted_below(value), Dumper=_Dumper, sort_keys=False, width=100)


def _sorted_below(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {key: _sorted(item) for key, item in value.items()}


def _sorted(value: object) -> object:
    """Pulumi's wire format has no order of keys: names come first, the rest by the alphabet."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (key != "name", key != "namespace", key))
        return {key: _sorted(value[key]) for key in keys}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


class _Dumper(yaml.SafeDumper):
    """Indents lists in mappings, writes text of several lines as a block, repeats equal parts."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
