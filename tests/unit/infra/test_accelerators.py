import dataclasses

import pytest

from infra.accelerators import ACCELERATORS, Stack, Taint, Vendor
from infra.instances import INSTANCE_TYPES


@pytest.mark.parametrize("vendor", Vendor)
def test_every_vendor_has_a_row_of_its_own(vendor: Vendor) -> None:
    assert ACCELERATORS[vendor].vendor is vendor


@pytest.mark.parametrize("field", ["resource", "stack", "instance_family", "architecture"])
def test_no_two_vendors_share_a_fact_that_tells_them_apart(field: str) -> None:
    values = [getattr(accelerator, field) for accelerator in ACCELERATORS.values()]
    assert len(set(values)) == len(values)


def test_no_vendor_has_the_software_of_machines_without_gpus() -> None:
    assert Stack.CPU not in {accelerator.stack for accelerator in ACCELERATORS.values()}


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        ACCELERATORS[Vendor.AMD] = ACCELERATORS[Vendor.NVIDIA]  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        ACCELERATORS[Vendor.AMD].resource = "x"  # type: ignore[misc]


@pytest.mark.parametrize("vendor", Vendor)
def test_nodes_carry_the_label_of_their_vendor(vendor: Vendor) -> None:
    assert vendor.value in ACCELERATORS[vendor].node_labels.values()


@pytest.mark.parametrize("vendor", Vendor)
def test_a_taint_is_spelled_for_kubernetes_and_for_eks(vendor: Vendor) -> None:
    taint = ACCELERATORS[vendor].taint
    assert taint.for_kubernetes() == {
        "key": ACCELERATORS[vendor].resource,
        "value": "present",
        "effect": "NoSchedule",
    }
    assert taint.for_eks() == {**taint.for_kubernetes(), "effect": "NO_SCHEDULE"}


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute", "PreferNoSchedule"])
def test_eks_spells_an_effect_in_capitals_with_underscores(effect: str) -> None:
    spelled = Taint(key="k", value="v", effect=effect).for_eks()["effect"]
    assert spelled.replace("_", "").lower() == effect.lower()
    assert spelled == spelled.upper()


@pytest.mark.parametrize("vendor", Vendor)
def test_a_toleration_fits_the_taint_of_its_vendor_only(vendor: Vendor) -> None:
    toleration = ACCELERATORS[vendor].taint.toleration
    fitting = [other for other in Vendor if ACCELERATORS[other].taint.key == toleration["key"]]
    assert fitting == [vendor]
    assert toleration["operator"] == "Exists"
    assert toleration["effect"] == ACCELERATORS[vendor].taint.effect


@pytest.mark.parametrize("vendor", Vendor)
def test_an_extended_resource_is_limited_by_its_requests(vendor: Vendor) -> None:
    assert ACCELERATORS[vendor].quota_key == f"requests.{ACCELERATORS[vendor].resource}"


@pytest.mark.parametrize("vendor", Vendor)
def test_every_vendor_has_an_instance_type(vendor: Vendor) -> None:
    assert any(instance.vendor is vendor for instance in INSTANCE_TYPES.values())


@pytest.mark.parametrize("vendor", Vendor)
def test_a_node_of_our_own_image_has_a_device_to_wait_for(vendor: Vendor) -> None:
    accelerator = ACCELERATORS[vendor]
    assert (accelerator.device_file is None) == (accelerator.ami_type is not None)


@pytest.mark.parametrize("vendor", Vendor)
def test_a_device_plugin_comes_from_a_repository_in_an_exact_version(vendor: Vendor) -> None:
    chart = ACCELERATORS[vendor].device_plugin.chart
    assert chart.repository is not None
    assert chart.repository.startswith("https://")
    assert chart.version.count(".") == 2


def test_settings_of_one_vendor_do_not_contradict_the_others() -> None:
    merged: dict[str, str] = {}
    for accelerator in ACCELERATORS.values():
        for name, value in accelerator.environment.items():
            assert merged.setdefault(name, value) == value
