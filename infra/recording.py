"""Runs a Pulumi program without an engine and returns the resources that it registered.

Nothing is looked up or made: a program that asks a provider for something is refused.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast

import pulumi
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from pulumi.runtime import mocks, settings
from pulumi.runtime.stack import Stack, run_pulumi_func

from infra.names import PROJECT


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One registered resource."""

    type: str
    name: str
    urn: str
    inputs: dict[str, Any]
    """In the provider's spelling, camelCase; whole numbers are int."""
    provider: str
    """Reference of the explicit provider; empty for the default one."""
    depends_on: frozenset[str]
    """URNs of what must exist before it."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Everything that a program registered."""

    resources: tuple[Resource, ...]
    """Each after what it depends on; otherwise in the order in which the program made them."""
    outputs: dict[str, Any]

    def of_type(self, type_token: str) -> list[Resource]:
        """The resources of one type."""
        return [resource for resource in self.resources if resource.type == type_token]


_COMPUTED: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "aws:eks/cluster:Cluster": {
            "endpoint": "https://0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com",
            "certificateAuthority": {"data": "Y2VydGlmaWNhdGU="},
        },
    }
)
"""What only the cloud knows, in the form that it has there, where a program works with it."""


class _NoProvider(mocks.Mocks):
    """Outputs are the inputs, an ARN, and _COMPUTED; there is nothing to look anything up in."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        # With it, a recording shows what is wired to what.
        computed = _COMPUTED.get(args.typ, {})
        return f"{args.name}-id", {"arn": f"{args.name}-arn", **args.inputs, **computed}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]] | None]:
        msg = f"{args.token} was called; without an engine a program cannot look anything up."
        raise pulumi.RunError(msg)


class _Monitor(mocks.MockMonitor):
    """Keeps the requests: only they say what a resource depends on."""

    def __init__(self) -> None:
        super().__init__(_NoProvider())
        self.registered: list[Resource] = []

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 (the protocol's name)
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        resource = Resource(
            type=request.type,
            name=request.name,
            urn=response.urn,
            # Pulumi's own reading of the message drops every None, and a chart's default with it.
            inputs=_whole_numbers(MessageToDict(request.object)),
            provider=request.provider,
            depends_on=frozenset([*request.dependencies, request.parent]),
        )
        if resource.type != "pulumi:pulumi:Stack":
            self.registered.append(resource)
        return response


def record(
    program: Callable[[], object], *, stack: str, config: Mapping[str, str] | None = None
) -> Recording:
    """Runs `program` as the stack's program and waits until everything is registered.

    `config` has the project's keys without prefix. What the program raises is raised here; the
    process' own Pulumi settings are as before afterwards.
    """
    # Settings, root resource and configuration are context variables: a copy keeps them apart.
    return contextvars.copy_context().run(_record, program, stack, config or {})


def _record(program: Callable[[], object], stack: str, config: Mapping[str, str]) -> Recording:
    settings.reset_options()
    pulumi.runtime.set_all_config({f"{PROJECT}:{key}": text for key, text in config.items()})
    monitor = _Monitor()
    # Registration waits for inputs, so the order in which the program wrote is noted apart.
    written: list[tuple[str, str]] = []

    def run() -> None:
        pulumi.runtime.register_stack_transformation(
            lambda args: written.append((args.type_, args.name))
        )
        program()

    async def main() -> dict[str, Any]:
        mocks.set_mocks(monitor.mocks, project=PROJECT, stack=stack, preview=False, monitor=monitor)
        await run_pulumi_func(run)
        root = cast(Stack, settings.get_root_resource())  # set_mocks made it
        return await pulumi.Output.all(**root.outputs).future() or {}

    outputs = _run_in_own_loop(main())
    places = {label: place for place, label in enumerate(written)}
    resources = sorted(monitor.registered, key=lambda made: places[made.type, made.name])
    urns = [resource.urn for resource in resources]
    for urn in urns:
        if urns.count(urn) > 1:
            msg = f"{urn} is registered twice; give one of the two another name."
            raise pulumi.RunError(msg)
    return Recording(resources=_dependencies_first(resources), outputs=_whole_numbers(outputs))


def _run_in_own_loop(main: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Runs `main`; what is left over after an error ends quietly with the loop."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)
    # The mock monitor gives every thread that it runs in an event loop and closes none.
    thread_loop = asyncio.new_event_loop()
    executor = ThreadPoolExecutor(1, initializer=asyncio.set_event_loop, initargs=(thread_loop,))
    loop.set_default_executor(executor)
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        executor.shutdown()
        asyncio.set_event_loop(None)
        thread_loop.close()
        loop.close()


def _dependencies_first(resources: list[Resource]) -> tuple[Resource, ...]:
    """Each resource after what it depends on, otherwise in the given order."""
    waiting = {resource.urn: resource for resource in resources}
    ordered: list[Resource] = []
    while waiting:
        # The program awaited its dependencies, so there is no circle and `next` finds one.
        urn = next(urn for urn, made in waiting.items() if not made.depends_on & waiting.keys())
        ordered.append(waiting.pop(urn))
    return tuple(ordered)


def _whole_numbers(value: Any) -> Any:
    """Pulumi's wire format knows doubles only; a double that is whole was written as an int."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    return value
