"""What Image Builder runs to make the AMD nodes' image: images/amd-node as one YAML document.

Pure: text and numbers out. The resources around it are in amd_image.py.
"""

import hashlib
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from infra import versions
from infra.accelerators import Accelerator
from infra.manifests import to_yaml

SCRIPTS: Final = Path(__file__).resolve().parents[2] / "images/amd-node"
INSTALLED_IN: Final = "/usr/local/lib/crossvendor/amd-node"
"""Where the scripts are in the image, so that the test of a new instance finds them."""
RENDER_GID: Final = 500
"""Group of /dev/kfd in the image. Debian hands out ids from 100 up and from 999 down."""
VIDEO_GID: Final = 44
"""Group of /dev/dri/card*; the same in every Debian and Ubuntu (base-passwd)."""
MAX_DATA: Final = 16_000
"""Characters of a component that is not in S3 (CreateComponent, `data`)."""
INSTALL_TIMEOUT_SECONDS: Final = 5400
CHECK_TIMEOUT_SECONDS: Final = 300

SETTINGS: Final = "settings"
"""File of the scripts' environment, beside them."""
_END: Final = "END_OF_SCRIPT"


def gfx_target_version(architecture: str) -> int:
    """What the KFD calls a code generation target: gfx1011 is 100101. Raises ValueError.

    The last two digits are hexadecimal, minor version and stepping; the rest is the major version
    (https://llvm.org/docs/AMDGPUUsage.html#processors, kfd_device.c).
    """
    match = re.fullmatch(r"gfx([0-9]+)([0-9a-f])([0-9a-f])", architecture)
    if match is None:
        msg = f"architecture {architecture!r} is not of the KFD; use one like 'gfx1011'"
        raise ValueError(msg)
    major, minor, stepping = int(match[1]), int(match[2], 16), int(match[3], 16)
    return major * 10_000 + minor * 100 + stepping


def settings(accelerator: Accelerator) -> dict[str, str]:
    """The scripts' environment: variable -> value."""
    return {
        "DKMS_KEY": versions.AMDGPU_KEY_FINGERPRINT,
        "DKMS_KEY_URL": versions.AMDGPU_KEY_URL,
        "DKMS_PACKAGE": versions.AMDGPU_DKMS_PACKAGE,
        "DKMS_SOURCE": f"{versions.AMDGPU_REPOSITORY} {versions.AMDGPU_SUITE}",
        "GFX_TARGET_VERSION": str(gfx_target_version(accelerator.architecture)),
        "LTS_KERNEL": versions.UBUNTU_LTS_KERNEL,
        "LTS_SERIES": versions.UBUNTU_LTS_KERNEL_SERIES,
        "RENDER_GID": str(RENDER_GID),
        "VIDEO_GID": str(VIDEO_GID),
    }


def read_scripts() -> dict[str, str]:
    """File name -> text of what images/amd-node holds."""
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(SCRIPTS.glob("*.sh"))}


def component_document(accelerator: Accelerator, scripts: Mapping[str, str]) -> str:
    """The component's YAML: writes the scripts, installs, and checks in all three phases.

    `validate` runs on the instance that was built, `test` on a new one of the finished image.
    Raises ValueError where Image Builder would not take it.
    """
    write = _step(
        "WriteScripts",
        _write({SETTINGS: _assignments(settings(accelerator)), **scripts}),
        seconds=CHECK_TIMEOUT_SECONDS,
    )
    install = _step("InstallDriver", [_run("install-driver.sh")], seconds=INSTALL_TIMEOUT_SECONDS)
    record = _step("RecordImage", [_run("record-image.sh")], seconds=CHECK_TIMEOUT_SECONDS)
    check = _step("CheckDriver", [_run("check-driver.sh")], seconds=CHECK_TIMEOUT_SECONDS)
    document = to_yaml(
        {
            "name": "amd-node",
            "description": f"Kernel driver of the {accelerator.gpu} on Canonical's image for EKS",
            "schemaVersion": 1.0,
            "phases": [
                {"name": "build", "steps": [write, install, record]},
                {"name": "validate", "steps": [check]},
                {"name": "test", "steps": [check]},
            ],
        }
    )
    if len(document) > MAX_DATA:
        msg = (
            f"images/amd-node makes a component of {len(document)} characters; "
            f"Image Builder takes {MAX_DATA} without S3, so shorten the scripts"
        )
        raise ValueError(msg)
    return document


def _step(name: str, commands: list[str], *, seconds: int) -> dict[str, Any]:
    return {
        "name": name,
        "action": "ExecuteBash",
        "onFailure": "Abort",
        "timeoutSeconds": seconds,
        "inputs": {"commands": commands},
    }


def _run(script: str) -> str:
    """Runs a script with the settings; its exit status, 194 among them, becomes the step's."""
    return f"set -a\n. {INSTALLED_IN}/{SETTINGS}\nexec {INSTALLED_IN}/{script}\n"


def _assignments(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={shlex.quote(value)}\n" for key, value in values.items())


def _write(scripts: Mapping[str, str]) -> list[str]:
    commands = [f"set -euo pipefail\nmkdir -p {INSTALLED_IN}\n"]
    for name, text in scripts.items():
        # Image Builder replaces what is in double braces by its own variables.
        if "{{" in text or _END in text:
            msg = f"images/amd-node/{name} has '{{{{' or '{_END}'; write it in another way"
            raise ValueError(msg)
        path = f"{INSTALLED_IN}/{name}"
        commands.append(f"cat > {path} <<'{_END}'\n{text}{_END}\nchmod 755 {path}\n")
    return commands


def semantic_version(*content: str) -> str:
    """A version that follows the content: equal content, equal version, and no other.

    Image Builder's versions cannot be changed once made; each part may go up to 2**30 - 1.
    """
    digest = hashlib.sha256("\0".join(content).encode()).hexdigest()
    return f"1.{int(digest[:7], 16)}.{int(digest[7:14], 16)}"
