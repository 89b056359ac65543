import re

import pytest

from infra import names

NAMES = [value for key, value in vars(names).items() if key.isupper() and isinstance(value, str)]
LABELS = [name for name in NAMES if "/" in name]


@pytest.mark.parametrize("label", LABELS)
def test_a_label_key_is_one_that_kubernetes_accepts(label: str) -> None:
    prefix, name = label.split("/")
    assert re.fullmatch(r"[a-z0-9.-]{1,253}", prefix)
    assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", name)


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(LABELS) - {names.LABEL_PREFIX}))
def test_a_name_is_a_dns_label(name: str) -> None:
    assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name)
    assert len(name) <= names.MAX_DNS_LABEL


def test_our_labels_have_our_prefix() -> None:
    ours = [names.LABEL_VENDOR, names.LABEL_POOL, names.LABEL_ROLE]
    assert all(label.startswith(f"{names.LABEL_PREFIX}/") for label in ours)


def test_namespaces_differ() -> None:
    namespaces = [names.NAMESPACE_TRAINING, names.NAMESPACE_VOLCANO, names.NAMESPACE_GPU]
    assert len(set(namespaces)) == 3


def test_sshd_needs_no_privilege_for_its_port() -> None:
    assert names.SSH_PORT >= 1024
