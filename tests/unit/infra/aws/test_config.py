import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.aws.config import AwsConfig
from infra.aws.zones import ZONES_WITH_BOTH
from infra.config import ConfigError, StackConfig
from infra.instances import INSTANCE_TYPES
from tests.builders import CHECKOUT, a_stack, a_stack_file, an_aws_config, an_aws_stack

STACKS = ("dev", "staging", "prod")
VALUES: dict[str, Any] = yaml.safe_load(an_aws_config().model_dump_json(exclude_unset=True))
ARN = "arn:aws:iam::123456789012:role/deployer"
POOLS: dict[str, dict[str, Any]] = {
    "system": {"instance_type": "m6i.large"},
    "nvidia": {"instance_type": "g4dn.xlarge"},
}


def refused(folder: Path, *, pools: dict[str, Any] | None = None, **changes: Any) -> str:
    """The sentence about a stack whose `aws` part is changed; None leaves a key out."""
    values = {key: value for key, value in {**VALUES, **changes}.items() if value is not None}
    file = a_stack_file(folder, environment="aws", node_pools=pools or POOLS, aws=values)
    with pytest.raises(ConfigError) as caught:
        StackConfig.from_file(file)
    sentence = str(caught.value)
    assert sentence.startswith(("Pulumi.test.yaml, crossvendor:", "Pulumi.test.yaml: "))
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("stack", STACKS)
def test_a_shipped_stack_is_valid(stack: str) -> None:
    config = StackConfig.from_file(CHECKOUT / f"Pulumi.{stack}.yaml")
    assert config.aws is not None
    assert config.aws.budget is not None
    assert config.full_name == f"crossvendor-{stack}"


def shipped() -> dict[str, tuple[StackConfig, AwsConfig]]:
    """Stack -> its configuration, and the part about the cloud."""
    found = {}
    for stack in STACKS:
        config = StackConfig.from_file(CHECKOUT / f"Pulumi.{stack}.yaml")
        assert config.aws is not None
        found[stack] = (config, config.aws)
    return found


def test_only_what_people_depend_on_is_protected() -> None:
    protected = {stack: cloud.is_protected for stack, (_, cloud) in shipped().items()}
    assert protected == {"dev": False, "staging": False, "prod": True}


def test_only_development_has_a_public_endpoint() -> None:
    public = {stack for stack, (_, cloud) in shipped().items() if cloud.public_access_cidrs}
    assert public == {"dev"}


def test_only_development_buys_spot() -> None:
    for stack, (config, _) in shipped().items():
        sold = {pool.capacity for pool in config.node_pools.values() if pool.vendor}
        assert sold == ({"spot"} if stack == "dev" else {"on_demand"})


@pytest.mark.parametrize("stack", STACKS)
def test_gpus_cost_nothing_until_a_job_asks(stack: str) -> None:
    config, _ = shipped()[stack]
    assert {pool.size for pool in config.node_pools.values() if pool.vendor} == {0}


@pytest.mark.parametrize("stack", STACKS)
def test_volcanos_webhooks_always_have_two_nodes(stack: str) -> None:
    # With none, no pod could be made any more (github.com/volcano-sh/volcano/issues/4044).
    config, _ = shipped()[stack]
    assert all(pool.min_size >= 2 for pool in config.node_pools.values() if not pool.vendor)


def test_every_stack_is_in_an_account_of_its_own() -> None:
    assert len({cloud.account_id for _, cloud in shipped().values()}) == len(STACKS)


@pytest.mark.parametrize("region", ZONES_WITH_BOTH)
def test_a_region_that_offers_both_vendors_can_be_chosen(region: str) -> None:
    zones = ZONES_WITH_BOTH[region]
    config = an_aws_config(region=region, zone_ids=zones[:2], gpu_zone_id=zones[0])
    assert config.gpu_zone_id.startswith(zones[0].partition("-")[0])


def test_a_region_that_the_table_lacks_can_be_chosen() -> None:
    zones = ["sae1-az1", "sae1-az3"]
    assert an_aws_config(region="sa-east-1", zone_ids=zones, gpu_zone_id="sae1-az3")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"account_id": None}, r"aws\.account_id: is missing; add it"),
        ({"account_id": 123456789012}, r"aws\.account_id: .*string"),
        ({"account_id": "12345678901"}, r"aws\.account_id: .*pattern.*got '12345678901'"),
        ({"account_id": "1234-5678-9012"}, r"aws\.account_id: .*pattern"),
        ({"region": None}, r"aws\.region: is missing"),
        ({"region": "us-east"}, r"aws\.region: .*pattern.*got 'us-east'"),
        ({"region": "US-EAST-1"}, r"aws\.region: .*pattern"),
        ({"zone_ids": None}, r"aws\.zone_ids: is missing"),
        ({"zone_ids": ["use1-az1"]}, r"aws\.zone_ids: .*at least 2 items"),
        ({"zone_ids": ["us-east-1a", "us-east-1b"]}, r"aws\.zone_ids\.0: .*got 'us-east-1a'"),
        ({"zone_ids": [f"use1-az{n}" for n in (1, 2, 4, 5, 6)]}, r"aws\.zone_ids: .*at most 4"),
        ({"zone_ids": ["use1-az1", "use1-az1"]}, r"has one twice; name different zones"),
        ({"zone_ids": ["use1-az1", "use1-az3"]}, r"has use1-az3, where EKS puts no control plane"),
        ({"zone_ids": ["use1-az1", "usw2-az1"]}, r"are not all of us-east-1"),
        (
            {"zone_ids": ["usw2-az1", "usw2-az2"], "gpu_zone_id": "usw2-az1"},
            r"gpu_zone_id 'usw2-az1' does not offer .*; in us-east-1 use one of use1-az1, use1-az2",
        ),
        ({"gpu_zone_id": None}, r"aws\.gpu_zone_id: is missing"),
        ({"gpu_zone_id": "use1-az4"}, r"'use1-az4' is not in zone_ids; use one of use1-az1, use1"),
        (
            {"zone_ids": ["use1-az5", "use1-az1"], "gpu_zone_id": "use1-az5"},
            r"'use1-az5' does not offer the GPUs of both vendors; in us-east-1 use one of",
        ),
        ({"vpc_cidr": "10.64.0.0"}, r"vpc_cidr 10\.64\.0\.0/32 is not a /16 or /17"),
        ({"vpc_cidr": "10.64.0.0/8"}, r"aws\.vpc_cidr: .*network"),
        ({"vpc_cidr": "10.64.0.0/20"}, r"vpc_cidr 10\.64\.0\.0/20 is not a /16 or /17"),
        ({"vpc_cidr": "8.8.0.0/16"}, r"vpc_cidr 8\.8\.0\.0/16 is not private"),
        ({"vpc_cidr": "172.20.0.0/16"}, r"172\.20\.0\.0/16 overlaps the services'"),
        ({"vpc_cidr": "172.17.0.0/16"}, r"overlaps 172\.17\.0\.0/16"),
        ({"administrators": None}, r"aws\.administrators: is missing"),
        ({"administrators": []}, r"aws\.administrators: .*at least 1 item"),
        ({"administrators": ["deployer"]}, r"aws\.administrators\.0: .*pattern.*got 'deployer'"),
        (
            {"administrators": ["arn:aws:sts::123456789012:assumed-role/x/y"]},
            r"administrators\.0: .*pattern",
        ),
        ({"administrators": ["arn:aws:iam::123456789012:root"]}, r"administrators\.0: .*pattern"),
        (
            {"administrators": ["arn:aws:iam::999999999999:role/x"]},
            r"arn:aws:iam::999999999999:role/x, which is not of account 123456789012",
        ),
        ({"administrators": [ARN, ARN]}, r"names somebody twice"),
        ({"public_access_cidrs": ["0.0.0.0/0"]}, r"0\.0\.0\.0/0, which is everybody"),
        ({"public_access_cidrs": ["192.168.1.0/24"]}, r"192\.168\.1\.0/24, which is not a public"),
        ({"public_access_cidrs": ["100.64.1.0/24"]}, r"which is not a public address"),
        ({"public_access_cidrs": ["198.51.100.7/24"]}, r"public_access_cidrs\.0: .*network"),
        ({"public_access_cidrs": "198.51.100.0/24"}, r"public_access_cidrs: .*list"),
        ({"nat": "yes"}, r"aws\.nat: .*boolean, got 'yes'"),
        ({"nat": 1}, r"aws\.nat: .*boolean, got 1"),
        ({"nat": False}, r"nat is false and interface_endpoints is false, so no node could join"),
        ({"is_protected": "true"}, r"aws\.is_protected: .*boolean, got 'true'"),
        ({"amd_image_id": "ubuntu"}, r"aws\.amd_image_id: .*pattern.*got 'ubuntu'"),
        ({"amd_image_id": "ami-123"}, r"aws\.amd_image_id: .*pattern"),
        ({"budget": {}}, r"aws\.budget\.usd_per_month: is missing"),
        ({"budget": {"usd_per_month": 0, "emails": ["a@b.c"]}}, r"usd_per_month: .*equal to 1"),
        ({"budget": {"usd_per_month": "9", "emails": ["a@b.c"]}}, r"usd_per_month: .*integer"),
        ({"budget": {"usd_per_month": 9, "emails": []}}, r"budget\.emails: .*at least 1 item"),
        ({"budget": {"usd_per_month": 9, "emails": ["me"]}}, r"emails\.0: .*pattern.*got 'me'"),
        (
            {"budget": {"usd_per_month": 9, "emails": ["a@b.c"], "stop_at_percent": 50}},
            r"stop_at_percent: .*equal to 100, got 50",
        ),
        ({"zones": 3}, r"aws\.zones: unknown key; valid keys are account_id, administrators"),
        (
            {"budget": {"usd_per_month": 9, "emails": ["a@b.c"], "limit": 1}},
            r"aws\.budget\.limit: unknown key; valid keys are emails, stop_at_percent",
        ),
    ],
)
def test_a_bad_choice_about_the_cloud_is_one_sentence(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    assert re.search(expected, refused(tmp_path, **changes))


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ({"capacity": "cheap"}, r"capacity: .*'on_demand' or 'spot', got 'cheap'"),
        ({"other_instance_types": ["g4dn.huge"]}, r"other_instance_types 'g4dn\.huge' is not in"),
        ({"other_instance_types": ["g4dn.xlarge"]}, r"'g4dn\.xlarge' twice or as instance_type"),
        (
            {"other_instance_types": ["g4dn.2xlarge", "g4dn.2xlarge"]},
            r"'g4dn\.2xlarge' twice or as instance_type",
        ),
        ({"other_instance_types": ["g4ad.xlarge"]}, r"'g4ad\.xlarge', whose GPUs are not those of"),
        ({"other_instance_types": ["g4dn.12xlarge"]}, r"whose GPUs are not those of g4dn\.xlarge"),
        ({"other_instance_types": ["m6i.large"]}, r"'m6i\.large', whose GPUs are not those of"),
        (
            {"instance_type": "g4dn.2xlarge", "other_instance_types": ["g4dn.xlarge"]},
            r"'g4dn\.xlarge', which is smaller than g4dn\.2xlarge",
        ),
        ({"disk_gib": 20}, r"disk_gib: .*equal to 50, got 20"),
        ({"disk_gib": "150"}, r"disk_gib: .*integer, got '150'"),
        ({"cpu_limit": 2.0}, r"nvidia\.cpu_limit means something in the local environment only"),
    ],
)
def test_a_bad_node_pool_is_one_sentence(
    tmp_path: Path, pool: dict[str, Any], expected: str
) -> None:
    pools = {**POOLS, "nvidia": {**POOLS["nvidia"], **pool}}
    assert re.search(expected, refused(tmp_path, pools=pools))


def test_a_pool_that_needs_its_own_image_asks_for_it(tmp_path: Path) -> None:
    pools = {**POOLS, "amd": {"instance_type": "g4ad.xlarge"}}
    sentence = refused(tmp_path, pools=pools, amd_image_id=None)
    assert "node_pools.amd needs aws.amd_image_id" in sentence


def test_a_stack_without_such_a_pool_needs_no_image() -> None:
    pools = {"system": {"instance_type": "m6i.large"}}
    config = an_aws_config(amd_image_id=None)
    assert an_aws_stack(aws=config, node_pools=pools).aws == config


@pytest.mark.parametrize("environment", ["local", "existing"])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"aws": VALUES}, "aws means something in the environment `aws` only; remove it"),
        (
            {"node_pools": {"system": {"instance_type": "m6i.large", "capacity": "spot"}}},
            "node_pools.system.capacity means something in the environment `aws` only",
        ),
        (
            {"node_pools": {"system": {"instance_type": "m6i.large", "disk_gib": 150}}},
            "node_pools.system.disk_gib means something in the environment `aws` only",
        ),
    ],
)
def test_what_only_the_cloud_knows_is_refused_elsewhere(
    tmp_path: Path, environment: str, changes: dict[str, Any], expected: str
) -> None:
    file = a_stack_file(tmp_path, environment=environment, **changes)
    with pytest.raises(ConfigError, match=re.escape(expected)):
        StackConfig.from_file(file)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"aws": None}, "aws is missing; see Pulumi.example.yaml for its keys"),
        ({"kubeconfig": "file"}, "kubeconfig names a cluster, but this stack makes its own"),
        ({"local": {}}, "local means something in the local environment only; remove it"),
        ({"node_pools": {"nvidia": POOLS["nvidia"]}}, "node_pools has no pool without GPUs"),
    ],
)
def test_what_does_not_fit_the_cloud_is_refused(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    file = a_stack_file(tmp_path, **{"environment": "aws", "aws": VALUES, **changes})
    with pytest.raises(ConfigError, match=re.escape(expected)):
        StackConfig.from_file(file)


@pytest.mark.parametrize("name", ["Prod", "a", "with_underscore", "seventeen-letters", "-x", "x-"])
def test_a_stack_name_that_aws_would_refuse_is_refused(name: str) -> None:
    values = {"environment": "aws", "node_pools": POOLS, "aws": VALUES}
    with pytest.raises(ConfigError, match="at most 16 lower-case letters, digits and hyphens"):
        StackConfig.parse(name, values)


def test_every_gpu_type_may_stand_for_its_smaller_sibling() -> None:
    for name, row in INSTANCE_TYPES.items():
        if row.vendor is not None and row.num_gpus == 1 and not name.endswith(".xlarge"):
            smallest = f"{row.family}.xlarge"
            pools = {**POOLS, "gpu": {"instance_type": smallest, "other_instance_types": [name]}}
            assert an_aws_stack(node_pools=pools).node_pools["gpu"].other_instance_types == [name]


def test_only_a_stack_of_the_cloud_has_one() -> None:
    assert an_aws_stack().cloud == an_aws_config()
    with pytest.raises(ConfigError, match="stack test has no `aws`: its environment is local"):
        _ = a_stack().cloud
