"""Volcano's own schema of a job, from its Go modules, with the API server's strictness.

Offline: looks only into Go's module cache, unless a download is asked for.
"""

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

MODULE = "volcano.sh/volcano"
CRD = Path("config/crd/volcano/bases/batch.volcano.sh_jobs.yaml")

# The API server checks an object's own metadata by itself; the schema says only "object".
METADATA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "generateName": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def cached_crd(version: str) -> Path | None:
    """The file that defines a job in one of Volcano's releases; None if it is not on this disk."""
    folders = [os.environ.get("GOMODCACHE"), str(Path.home() / "go" / "pkg" / "mod")]
    for folder in folders:
        path = Path(folder) / f"{MODULE}@v{version}" / CRD if folder else None
        if path is not None and path.is_file():
            return path
    return None


def downloaded_crd(version: str) -> Path:
    """The same; Go fetches the module, by its checksum, if it is not on this disk."""
    cached = cached_crd(version)
    if cached is not None:
        return cached
    go = shutil.which("go")
    assert go is not None, "needs Go on the PATH; the local environment's toolchain brings one"
    command = [go, "mod", "download", "-json", f"{MODULE}@v{version}"]
    output = subprocess.run(command, cwd="/", check=True, capture_output=True, text=True).stdout
    return Path(json.loads(output)["Dir"]) / CRD


@cache
def validator(path: Path) -> Draft202012Validator:
    """Checks whole jobs against a CRD; unknown fields are errors, as with `--validate=strict`."""
    crd = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    [version] = [version for version in crd["spec"]["versions"] if version["name"] == "v1alpha1"]
    schema = version["schema"]["openAPIV3Schema"]
    schema["properties"]["metadata"] = METADATA
    return Draft202012Validator(_closed(schema))


def problems(manifest: dict[str, Any], path: Path) -> list[str]:
    """What a CRD does not allow in a job, as `field: reason`."""
    errors = validator(path).iter_errors(manifest)
    return sorted(f"{error.json_path}: {error.message}" for error in errors)


def _closed(schema: Any) -> Any:
    """A schema whose objects have no fields but the named ones, unless it preserves the others."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    is_object = schema.get("type") == "object" and isinstance(schema.get("properties"), dict)
    if is_object and not schema.get("x-kubernetes-preserve-unknown-fields", False):
        closed.setdefault("additionalProperties", False)
    return closed
