import base64
import email
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.accelerators import ACCELERATORS, Taint, Vendor
from infra.aws.config import MAX_PODS
from infra.aws.user_data import MAX_BYTES, bootstrap_script, encoded, node_config
from infra.node_pools import node_labels, node_taints
from tests.builders import a_gpu_pool
from tests.conftest import Golden

OWN_IMAGES = [vendor for vendor in Vendor if ACCELERATORS[vendor].ami_type is None]

GIVEN: dict[str, Any] = {
    "cluster_name": "crossvendor-test",
    "endpoint": "https://0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com",
    "certificate_authority": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==",
    "device_file": "/dev/gpu",
    "labels": {"example.com/a": "b", "c": ""},
    "taints": [Taint(key="example.com/gpu", value="present")],
}


def script_for(vendor: Vendor) -> str:
    pool = a_gpu_pool(vendor)
    return bootstrap_script(
        **{
            **GIVEN,
            "device_file": ACCELERATORS[vendor].device_file,
            "labels": node_labels(vendor.value, pool),
            "taints": node_taints(pool),
        }
    )


def arguments(script: str, tmp_path: Path, device: str) -> list[str]:
    """What the script gives to bootstrap.sh on a machine that has `device`."""
    bootstrap = tmp_path / "bootstrap.sh"
    bootstrap.write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    bootstrap.chmod(0o755)
    here = script.replace("/etc/eks/bootstrap.sh", str(bootstrap)).replace("/dev/gpu", device)
    done = subprocess.run(["bash", "-c", here], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_node_config_is_the_reviewed_one(golden: Golden) -> None:
    golden("user-data-al2023.txt", node_config())


def test_the_node_config_is_a_part_that_nodeadm_reads() -> None:
    [whole, part] = email.message_from_string(node_config()).walk()
    assert whole.is_multipart()
    assert part.get_content_type() == "application/node.eks.aws"
    config = yaml.safe_load(str(part.get_payload()))
    assert (config["apiVersion"], config["kind"]) == ("node.eks.aws/v1alpha1", "NodeConfig")
    assert config["spec"] == {"kubelet": {"config": {"maxPods": MAX_PODS}}}


@pytest.mark.parametrize("vendor", OWN_IMAGES)
def test_the_script_is_the_reviewed_one(vendor: Vendor, golden: Golden) -> None:
    golden(f"user-data-ubuntu-{vendor}.sh", script_for(vendor))


@pytest.mark.parametrize("vendor", OWN_IMAGES)
def test_the_script_passes_shellcheck(vendor: Vendor) -> None:
    done = subprocess.run(
        ["shellcheck", "-"], input=script_for(vendor), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_bootstrap_gets_the_cluster_first_and_each_option_with_its_value(tmp_path: Path) -> None:
    words = arguments(bootstrap_script(**GIVEN), tmp_path, "/dev/null")
    assert words[0] == GIVEN["cluster_name"]
    assert dict(zip(words[1::2], words[2::2], strict=True)) == {
        "--apiserver-endpoint": GIVEN["endpoint"],
        "--b64-cluster-ca": GIVEN["certificate_authority"],
        "--dns-cluster-ip": "172.20.0.10",
        "--use-max-pods": "false",
        "--kubelet-extra-args": (
            f"--max-pods={MAX_PODS} --node-labels=example.com/a=b,c= "
            "--register-with-taints=example.com/gpu=present:NoSchedule"
        ),
    }


def test_without_labels_and_taints_the_kubelet_gets_no_empty_flag(tmp_path: Path) -> None:
    script = bootstrap_script(**{**GIVEN, "labels": {}, "taints": []})
    assert arguments(script, tmp_path, "/dev/null")[-1] == f"--max-pods={MAX_PODS}"


def test_a_machine_without_its_gpu_does_not_join(tmp_path: Path) -> None:
    script = bootstrap_script(**GIVEN).replace("timeout 120", "timeout 0.1")
    with pytest.raises(subprocess.CalledProcessError) as failure:
        arguments(script, tmp_path, str(tmp_path / "missing"))
    assert failure.value.returncode == 1
    assert failure.value.stdout == ""
    assert "without its GPU this is no node" in failure.value.stderr


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"cluster_name": "a; reboot"}, "user data: cluster name 'a; reboot' cannot be"),
        ({"cluster_name": "a\n"}, r"cluster name 'a\n' cannot be"),
        ({"cluster_name": "--a"}, "cluster name '--a' cannot be"),
        ({"endpoint": "https://a$(id)"}, "endpoint 'https://a$(id)' cannot be"),
        ({"endpoint": "http://a"}, "use https:// and a host, as EKS gives it."),
        ({"certificate_authority": ""}, "certificate authority '' cannot be"),
        ({"certificate_authority": "YQ==;"}, "use base64, as EKS gives it."),
        ({"certificate_authority": "YWJj="}, "certificate authority 'YWJj=' cannot be"),
        ({"device_file": "/dev/a b"}, "use a path below /dev."),
        ({"labels": {"a'b": "c"}}, 'label "a\'b" cannot be'),
        ({"labels": {"a": "b c"}}, "label a 'b c' cannot be"),
        ({"labels": {"a": "b,c=d"}}, "label a 'b,c=d' cannot be"),
        ({"taints": [Taint(key="a b", value="c")]}, "taint 'a b' cannot be"),
        ({"taints": [Taint(key="a", value="b:c")]}, "taint a 'b:c' cannot be"),
        ({"taints": [Taint(key="a", value="b", effect="Never")]}, "taint a 'Never' cannot be"),
    ],
)
def test_what_would_break_the_script_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be put into a script; use .*\.$") as refusal:
        bootstrap_script(**{**GIVEN, **changes})
    assert sentence in str(refusal.value)


def test_a_launch_template_takes_base64() -> None:
    assert base64.b64decode(encoded(node_config())).decode() == node_config()


def test_what_ec2_would_refuse_for_its_size_is_refused() -> None:
    encoded("x" * MAX_BYTES)
    with pytest.raises(ValueError, match="user data: it has 16385 bytes; EC2 takes at most 16384"):
        encoded("x" * (MAX_BYTES + 1))
