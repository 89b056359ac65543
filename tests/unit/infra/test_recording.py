import asyncio
import os

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from infra.recording import record
from tests.conftest import Deploy

ConfigMap = kubernetes.core.v1.ConfigMap


def a_map(name: str, **options: object) -> kubernetes.core.v1.ConfigMap:
    return ConfigMap(
        name,
        metadata=kubernetes.meta.v1.ObjectMetaArgs(name=name),
        opts=pulumi.ResourceOptions(**options),  # type: ignore[arg-type]
    )


def test_whole_numbers_stay_whole_and_others_do_not(deploy: Deploy) -> None:
    def program() -> None:
        kubernetes.apiextensions.CustomResource(
            "x", api_version="v1", kind="X", spec={"whole": 3, "list": [1, 2.5], "no": False}
        )

    [made] = deploy(program).resources
    assert repr(made.inputs["spec"]["whole"]) == "3"
    assert repr(made.inputs["spec"]["list"]) == "[1, 2.5]"
    assert made.inputs["spec"]["no"] is False


def test_a_none_below_the_top_survives(deploy: Deploy) -> None:
    def program() -> None:
        kubernetes.helm.v3.Release("x", chart="c", values={"a": {"b": None}})

    [made] = deploy(program).resources
    assert made.inputs["values"] == {"a": {"b": None}}


def test_independent_resources_come_in_the_programs_order(deploy: Deploy) -> None:
    names = [f"m{number}" for number in (5, 3, 9, 1, 7, 2, 8)]

    def program() -> None:
        for name in names:
            a_map(name)

    for _ in range(5):
        assert [made.name for made in deploy(program).resources] == names


def test_a_resource_comes_after_what_its_inputs_come_from(deploy: Deploy) -> None:
    async def late(text: str) -> str:
        await asyncio.sleep(0.05)
        return text

    def program() -> None:
        slow: pulumi.Output[str] = pulumi.Output.from_input("late").apply(late)
        first = ConfigMap("first", metadata={"name": slow})
        a_map("unrelated")
        ConfigMap("second", metadata={"name": "second", "namespace": first.metadata.name})

    made = deploy(program).resources
    assert [resource.name for resource in made] == ["first", "unrelated", "second"]
    assert made[0].urn in made[2].depends_on
    assert made[2].inputs["metadata"]["namespace"] == "late"


def test_exports_are_the_outputs(deploy: Deploy) -> None:
    def program() -> None:
        pulumi.export("name", a_map("x").metadata.name)
        pulumi.export("count", 2)

    assert deploy(program).outputs == {"name": "x", "count": 2}


def test_the_configuration_is_the_programs_and_no_one_elses(deploy: Deploy) -> None:
    seen: list[str | None] = []
    deploy(lambda: seen.append(pulumi.Config("crossvendor").get("key")), config={"key": "value"})
    deploy(lambda: seen.append(pulumi.Config("crossvendor").get("key")))
    assert seen == ["value", None]


def test_an_error_of_the_program_comes_out_as_it_is(
    deploy: Deploy, capfd: pytest.CaptureFixture[str]
) -> None:
    def program() -> None:
        a_map("x")
        raise pulumi.RunError("no such stack.")

    with pytest.raises(pulumi.RunError, match=r"^no such stack\.$"):
        deploy(program)
    assert capfd.readouterr() == ("", "")


def test_two_resources_of_one_name_are_refused(deploy: Deploy) -> None:
    def program() -> None:
        a_map("x")
        a_map("x")

    with pytest.raises(pulumi.RunError, match="::x is registered twice"):
        deploy(program)


def test_nothing_can_be_looked_up(deploy: Deploy) -> None:
    with pytest.raises(Exception, match="pkg:x:get was called; without an engine"):
        deploy(lambda: pulumi.runtime.invoke("pkg:x:get", {}))


def test_a_recording_leaves_no_file_descriptor_open(deploy: Deploy) -> None:
    deploy(lambda: a_map("x"))
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (a count, not paths)
    for _ in range(5):
        deploy(lambda: a_map("x"))
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_program_knows_its_stack() -> None:
    seen: list[str] = []
    record(lambda: seen.append(pulumi.get_stack()), stack="prod")
    assert seen == ["prod"]
