import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.accelerators import Vendor
from infra.aws.config import AwsConfig, BudgetConfig
from infra.config import (
    ConfigError,
    LocalConfig,
    NodePool,
    StackConfig,
    read_stack_file,
    stack_name,
)
from infra.environments import Environment
from infra.local.layout import Layout
from infra.recording import record
from tests.builders import CHECKOUT, a_gpu_pool, a_stack, a_stack_file

PLAIN = {"instance_type": "m6i.large"}


def loaded(file: Path) -> StackConfig:
    """The same file through the engine's door."""
    found: list[StackConfig] = []
    record(
        lambda: found.append(StackConfig.load()),
        stack=stack_name(file),
        config=read_stack_file(file),
    )
    return found[0]


def refused(file: Path, **options: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        StackConfig.from_file(file, **options)
    return checked(str(raised.value))


def checked(sentence: str) -> str:
    assert "\n" not in sentence
    assert sentence.isascii()
    assert sentence.endswith(".")
    return sentence


@pytest.mark.parametrize("file", sorted(CHECKOUT.glob("Pulumi.*.yaml")), ids=lambda file: file.name)
def test_every_stack_file_in_the_repository_is_valid_and_both_doors_agree(file: Path) -> None:
    assert StackConfig.from_file(file) == loaded(file)


def test_the_stack_is_named_by_its_file() -> None:
    assert StackConfig.from_file(CHECKOUT / "Pulumi.local.yaml").stack == "local"


def test_the_example_has_every_key() -> None:
    text = (CHECKOUT / "Pulumi.example.yaml").read_text(encoding="utf-8")
    # What another environment knows is commented out.
    shown = set(re.findall(r"^[ #]*(?:crossvendor:)?([a-z_]+):", text, re.MULTILINE))
    for model in (StackConfig, NodePool, LocalConfig, AwsConfig, BudgetConfig):
        assert shown >= model.model_fields.keys() - {"stack"}, model.__name__


def test_the_project_file_describes_every_key() -> None:
    document = yaml.safe_load((CHECKOUT / "Pulumi.yaml").read_text(encoding="utf-8"))
    described = {key.removeprefix("crossvendor:") for key in document["config"]}
    assert described == StackConfig.model_fields.keys() - {"stack"}


@pytest.mark.parametrize(
    ("changes", "where", "choices"),
    [
        ({"node_pool": {}}, "crossvendor:node_pool: unknown key", "node_pools"),
        ({"stack": "x"}, "crossvendor:stack: unknown key", "environment"),
        (
            {"node_pools": {"system": {**PLAIN, "sise": 1}}},
            "crossvendor:node_pools.system.sise: unknown key",
            "instance_type",
        ),
        ({"local": {"cidr": "10.0.0.0/8"}}, "crossvendor:local.cidr: unknown key", "node_cidr"),
    ],
)
def test_an_unknown_key_is_refused_with_the_valid_ones(
    tmp_path: Path, changes: dict[str, Any], where: str, choices: str
) -> None:
    sentence = refused(a_stack_file(tmp_path, **changes))
    assert sentence.startswith(f"Pulumi.test.yaml, {where}; valid keys are ")
    assert choices in sentence


def test_an_unknown_key_is_refused_by_the_engines_door_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="crossvendor:typo: unknown key"):
        loaded(a_stack_file(tmp_path, typo="1"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"environment": "gcp"},
            r"environment: input should be 'local', 'aws' or 'existing', got 'gcp'",
        ),
        ({"environment": None}, r"environment: is missing"),
        ({"node_pools": None}, r"node_pools: is missing"),
        ({"node_pools": []}, r"node_pools: input should be a valid dictionary"),
        ({"node_pools": {"system": 3}}, r"node_pools\.system: input should be .* got 3"),
        ({"node_pools": {"Sys": PLAIN}}, r"node_pools\.Sys.*pattern"),
        ({"node_pools": {"system": {}}}, r"node_pools\.system\.instance_type: is missing"),
        ({"node_pools": {"system": {**PLAIN, "size": "2"}}}, r"size: .*integer, got '2'"),
        ({"node_pools": {"system": {**PLAIN, "size": True}}}, r"size: .*integer, got True"),
        ({"node_pools": {"system": {**PLAIN, "size": 1.5}}}, r"size: .*integer, got 1\.5"),
        ({"node_pools": {"system": {**PLAIN, "size": -1}}}, r"size: .*greater than or equal to 0"),
        ({"node_pools": {"system": {**PLAIN, "max_size": 51}}}, r"max_size: .*equal to 50, got 51"),
        ({"node_pools": {"system": {**PLAIN, "cpu_limit": 0}}}, r"cpu_limit: .*greater than 0"),
        (
            {"node_pools": {"system": {**PLAIN, "cpu_limit": float("nan")}}},
            r"cpu_limit: .*finite number, got nan",
        ),
        ({"node_pools": {"system": {**PLAIN, "link_mbits": True}}}, r"link_mbits"),
        ({"kubeconfig": ""}, r"kubeconfig: .*at least 1 character"),
        ({"device_plugins": "perhaps"}, r"device_plugins: .*boolean.*got 'perhaps'"),
        ({"local": {"node_cidr": "10.0.0.1/24"}}, r"local\.node_cidr: .*network"),
        ({"local": {"name": "Big!"}}, r"local\.name: .*pattern"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_the_value(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    assert re.search(expected, refused(a_stack_file(tmp_path, **changes)))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"node_pools": {"system": {"instance_type": "p5.xlarge"}}}, "'p5.xlarge' is not in"),
        ({"node_pools": {"nvidia": {"instance_type": "g4dn.xlarge"}}}, "no pool without GPUs"),
        ({"node_pools": {"system": {**PLAIN, "size": 5}}}, "size 5 is not between min_size 0 and"),
        ({"node_pools": {"system": {**PLAIN, "link_mbits": 0}}}, "link_mbits 0 is out of range"),
        (
            {"node_pools": {"a": {**PLAIN, "size": 40, "max_size": 40}, "b": {**PLAIN, "size": 21,
             "max_size": 21}}},
            "asks for 61 local nodes",
        ),
        ({"local": {"node_cidr": "10.200.0.0/25"}}, "node_cidr 10.200.0.0/25 is too small"),
        (
            {"local": {"pod_cidr": "10.200.0.0/16"}},
            "node_cidr 10.200.0.0/24 overlaps pod_cidr 10.200.0.0/16",
        ),
        ({"environment": "existing", "local": {}}, "local means something in the local"),
        (
            {"environment": "existing", "node_pools": {"system": {**PLAIN, "cpu_limit": 1}}},
            "node_pools.system.cpu_limit means something in the local",
        ),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_together_are_refused(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    assert expected in refused(a_stack_file(tmp_path, **changes))


def test_further_problems_are_counted(tmp_path: Path) -> None:
    pools = {"system": {**PLAIN, "size": -1, "min_size": -1, "max_size": 0}}
    assert refused(a_stack_file(tmp_path, node_pools=pools)).endswith(
        "got -1 (the first of 3 problems)."
    )


def test_a_size_from_the_command_line_replaces_the_files(tmp_path: Path) -> None:
    config = StackConfig.from_file(a_stack_file(tmp_path), sizes={"nvidia": 2})
    assert config.node_pools["nvidia"].size == 2
    assert config.node_pools["system"].size == 1


def test_a_size_changes_one_pool_even_when_an_anchor_stands_for_two(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.test.yaml"
    file.write_text(
        "config:\n  crossvendor:environment: local\n  crossvendor:node_pools:\n"
        "    a: &pool {instance_type: m6i.large}\n    b: *pool\n"
    )
    config = StackConfig.from_file(file, sizes={"a": 3})
    assert [pool.size for pool in config.node_pools.values()] == [3, 1]


def test_a_size_of_an_unknown_pool_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    sentence = refused(a_stack_file(tmp_path), sizes={"intel": 1})
    assert sentence == ("Pulumi.test.yaml has no node pool 'intel'; its pools are: system, nvidia.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "has no `config:` mapping"),
        ("config: 3", "has no `config:` mapping"),
        ("config: {", "is not YAML"),
        ("config: {environment: local}", "key 'environment' has no namespace"),
        ("config: {crossvendor:x: !!bool maybe}", "is not YAML"),
        ("config: {crossvendor:x: 2024-02-31}", "is not YAML"),
        ("config: {crossvendor:x: {2024-02-01: 1}}", "JSON cannot hold"),
        ("config: {crossvendor:local: &a {b: *a}}", "JSON cannot hold"),
        ("[" * 5000, "is not YAML"),
    ],
)
def test_a_file_that_is_not_a_stack_file_is_refused(
    tmp_path: Path, text: str, expected: str
) -> None:
    file = tmp_path / "Pulumi.test.yaml"
    file.write_text(text)
    assert expected in refused(file)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.test.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    assert "is not YAML" in refused(file)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "Pulumi.test.yaml")
    assert "cannot be read" in refused(tmp_path)


def test_keys_of_other_projects_are_left_alone(tmp_path: Path) -> None:
    file = a_stack_file(tmp_path)
    with file.open("a") as more:
        more.write("  aws:region: us-east-1\n")
    assert StackConfig.from_file(file) == loaded(file)


def test_text_that_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    file = a_stack_file(tmp_path, kubeconfig="0123")
    assert StackConfig.from_file(file).kubeconfig == "0123"
    assert loaded(file).kubeconfig == "0123"


def test_the_error_is_one_that_the_engine_prints_without_a_traceback() -> None:
    assert issubclass(ConfigError, pulumi.RunError)


@pytest.mark.parametrize("vendor", Vendor)
def test_a_vendors_gpus_are_those_of_its_pools_at_their_largest(vendor: Vendor) -> None:
    config = a_stack(
        node_pools={"s": NodePool(instance_type="m6i.large"), "g": a_gpu_pool(vendor, max_size=3)}
    )
    assert config.vendors == (vendor,)
    assert {v: config.max_gpus(v) for v in Vendor} == {v: 3 if v is vendor else 0 for v in Vendor}


def test_the_largest_size_of_a_stack_is_the_sum_of_its_pools() -> None:
    config = a_stack(
        node_pools={
            "s": NodePool(instance_type="m6i.large", max_size=2),
            "g": NodePool(instance_type="g4dn.12xlarge", max_size=3),
        }
    )
    assert config.max_vcpus == 2 * 2 + 3 * 48
    assert config.max_memory_mib == (2 * 8 + 3 * 192) * 1024
    assert config.max_pods == 2 * 29 + 3 * 234


def test_a_link_is_the_instance_types_unless_the_stack_says_otherwise() -> None:
    links = {"baseline": 5_000, "unlimited": None, 700: 700}
    for chosen, expected in links.items():
        pool = NodePool.model_validate({"instance_type": "g4dn.xlarge", "link_mbits": chosen})
        assert pool.link_limit_mbits == expected


def test_device_plugins_follow_the_environment_unless_the_stack_says_otherwise() -> None:
    local, existing = Environment.LOCAL, Environment.EXISTING
    assert a_stack(environment=local).vendors_with_plugin == ()
    assert a_stack(environment=existing).vendors_with_plugin == tuple(Vendor)
    assert a_stack(environment=local, device_plugins=True).vendors_with_plugin == tuple(Vendor)
    assert a_stack(environment=existing, device_plugins=False).vendors_with_plugin == ()


def test_dns_is_beside_the_control_plane_locally_and_in_pods_elsewhere() -> None:
    local = LocalConfig.model_validate({"node_cidr": "10.9.0.0/24"})
    assert str(a_stack(local=local).dns_address) == "10.9.0.2"
    assert a_stack(environment=Environment.EXISTING).dns_address is None


def test_the_policies_and_the_local_environment_agree_on_where_dns_is(tmp_path: Path) -> None:
    config = a_stack()
    assert Layout.of(config, cache=tmp_path).control_plane_address == config.dns_address


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(alphabet=string.printable + "\u00e9\u2028", max_size=12),
    st.dates(),
    st.binary(max_size=4),
    st.sampled_from(["m6i.large", "g4dn.xlarge", "local", "existing", "unlimited", "10.0.0.0/16"]),
)
KEYS = st.one_of(
    st.sampled_from(
        [
            *StackConfig.model_fields,
            *NodePool.model_fields,
            *LocalConfig.model_fields,
            "system",
            "nvidia",
        ]
    ),
    SCALARS,
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    changes=st.dictionaries(
        st.sampled_from([*StackConfig.model_fields, "typo"]), TREES, min_size=1, max_size=3
    )
)
def test_no_stack_file_makes_anything_but_a_configuration_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any]
) -> None:
    file = a_stack_file(tmp_path_factory.mktemp("fuzz"), **changes)
    assert outcome(StackConfig.from_file, file) == outcome(loaded, file)


def outcome(door: Callable[[Path], StackConfig], file: Path) -> StackConfig | str:
    """The configuration, or the sentence."""
    try:
        return door(file)
    except ConfigError as error:
        return checked(str(error))


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=200))
def test_no_text_in_a_stack_file_makes_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    file = tmp_path_factory.mktemp("fuzz") / "Pulumi.test.yaml"
    file.write_text(f"config:\n  crossvendor:{text}", encoding="utf-8", errors="replace")
    with pytest.raises(ConfigError):
        StackConfig.from_file(file)
