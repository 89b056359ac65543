"""What the ranks of test_libucc.py do: `python3 -m tests.distributed.bodies NAME`.

Each function runs on every rank, with the group made by `main`; an exception fails the test.
"""

import importlib
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from tests.distributed.ranks import PACKAGE

libucc = importlib.import_module(f"{PACKAGE}.libucc")
launch_module = importlib.import_module(f"{PACKAGE}.launch")
groups = importlib.import_module(f"{PACKAGE}.groups")
buffers = importlib.import_module(f"{PACKAGE}.buffers")
expected = importlib.import_module(f"{PACKAGE}.expected")

SECONDS = float(os.environ.get("TEST_TIMEOUT", "30"))
TIMEOUT = timedelta(seconds=SECONDS)
Kind = type[BaseException] | tuple[type[BaseException], ...]
Reduction = Callable[[torch.Tensor], torch.Tensor]
BODIES: dict[str, Callable[[Any, int, int], None]] = {}


def body(function: Callable[[Any, int, int], None]) -> Callable[[Any, int, int], None]:
    """Makes a function known by its name; it gets the store, the rank and the world size."""
    BODIES[function.__name__] = function
    return function


def raised(kind: Kind, call: Callable[[], Any]) -> str:
    """The first line of the exception that the call must raise."""
    try:
        call()
    except kind as error:
        return str(error).splitlines()[0]
    raise AssertionError(f"nothing raised, expected {kind}")


def same(tensor: torch.Tensor, other: torch.Tensor) -> None:
    """Fails unless both are equal in type, shape and every element."""
    assert tensor.dtype == other.dtype, (tensor.dtype, other.dtype)
    assert torch.equal(tensor, other), (tensor, other)


@body
def every_operation_of_every_type_is_right(_store: Any, rank: int, size: int) -> None:
    reduce: dict[Any, Reduction] = {
        dist.ReduceOp.SUM: lambda all_: all_.sum(0),
        dist.ReduceOp.PRODUCT: lambda all_: all_.prod(0),
        dist.ReduceOp.MIN: lambda all_: all_.amin(0),
        dist.ReduceOp.MAX: lambda all_: all_.amax(0),
    }
    integers = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
    floats = [torch.float32, torch.float64, torch.bfloat16]
    bits: dict[Any, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
        dist.ReduceOp.BAND: lambda a, b: a & b,
        dist.ReduceOp.BOR: lambda a, b: a | b,
        dist.ReduceOp.BXOR: lambda a, b: a ^ b,
    }
    for length in (1, 7, 5001):
        parts = [(torch.arange(length) * 5 + 3 * r) % 5 for r in range(size)]
        for dtype in [*integers, *floats]:
            for operation, formula in reduce.items():
                tensor = parts[rank].clone().to(dtype)
                dist.all_reduce(tensor, operation)
                same(tensor, formula(torch.stack(parts)).to(dtype))
        for dtype in integers:
            for operation, pair in bits.items():
                tensor = parts[rank].clone().to(dtype)
                dist.all_reduce(tensor, operation)
                right = parts[0]
                for part in parts[1:]:
                    right = pair(right, part)
                same(tensor, right.to(dtype))
        for dtype in floats:
            tensor = (parts[rank] * size).to(dtype)
            dist.all_reduce(tensor, dist.ReduceOp.AVG)
            right = torch.stack(parts).sum(0).to(dtype)
            assert torch.allclose(tensor.double(), right.double(), rtol=2**-7, atol=0)
        for dtype in (torch.complex64, torch.complex128):
            tensor = torch.complex(parts[rank].double(), -parts[rank].double()).to(dtype)
            dist.all_reduce(tensor)
            total = torch.stack(parts).sum(0).double()
            same(tensor, torch.complex(total, -total).to(dtype))


@body
def out_of_place_leaves_the_input(_store: Any, rank: int, size: int) -> None:
    team = groups._GroupTeam("libucc", dist.group.WORLD)
    for length in (1, 1001, 600_001):
        tensor = torch.full((length,), float(rank + 1))
        output = torch.empty(length)
        team.all_reduce_into(output, tensor, "sum")
        same(tensor, torch.full((length,), float(rank + 1)))
        same(output, torch.full((length,), float(size * (size + 1) // 2)))


@body
def gathers_and_broadcasts_move_every_type(_store: Any, rank: int, size: int) -> None:
    for dtype in (torch.float32, torch.float16, torch.bool, torch.int64, torch.complex64):
        for length in (1, 7, 4999):
            parts = [((torch.arange(length) + r) % 2).to(dtype) for r in range(size)]
            outputs = [torch.empty(length, dtype=dtype) for _ in range(size)]
            dist.all_gather(outputs, parts[rank])
            for output, part in zip(outputs, parts, strict=True):
                same(output, part)
            whole = torch.empty(size * length, dtype=dtype)
            dist.all_gather_into_tensor(whole, parts[rank])
            same(whole, torch.cat(parts))
            whole.zero_()
            own = whole[rank * length : (rank + 1) * length]
            own.copy_(parts[rank])
            dist.all_gather_into_tensor(whole, own)
            same(whole, torch.cat(parts))
            for root in range(size):
                tensor = parts[rank].clone()
                dist.broadcast(tensor, src=root)
                same(tensor, parts[root])
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]


@body
def empty_tensors_are_carried(_store: Any, rank: int, size: int) -> None:
    dist.all_reduce(torch.empty(0))
    dist.broadcast(torch.empty(0), src=0)
    dist.all_gather_into_tensor(torch.empty(0), torch.empty(0))
    outputs = [torch.empty(0) for _ in range(size)]
    dist.all_gather(outputs, torch.empty(0))
    dist.barrier()


@body
def teams_of_any_ranks_in_any_order_work(store: Any, rank: int, size: int) -> None:
    def gathered(ranks: list[int]) -> None:
        if rank not in ranks:
            return
        index = ranks.index(rank)
        backend = libucc.create(
            dist.PrefixStore(str(ranks), store), index, len(ranks), TIMEOUT, str(ranks)
        )
        whole = torch.empty(len(ranks), dtype=torch.int64)
        backend._allgather_base(whole, torch.tensor([rank])).wait()
        assert whole.tolist() == ranks
        tensor = torch.tensor([rank])
        backend.allreduce([tensor]).wait()
        assert tensor.item() == sum(ranks)

    for ranks in ([2, 1, 0], [1, 0], [0, 2], [1], [2, 0, 1], [0, 1, 2]):
        gathered(ranks)
    group = dist.new_group([0, 2])
    if rank in (0, 2):
        tensor = torch.tensor([rank + 1])
        dist.all_reduce(tensor, group=group)
        assert tensor.item() == 4


@body
def many_collectives_are_in_flight_at_once(_store: Any, rank: int, size: int) -> None:
    other = dist.new_group(list(range(size)))
    tensors = [torch.full((1 + 997 * n,), float(n + rank)) for n in range(40)]
    works = [
        dist.all_reduce(tensor, group=other if n % 3 else None, async_op=True)
        for n, tensor in enumerate(tensors)
    ]
    for work in reversed(works):
        work.wait()
    for n, tensor in enumerate(tensors):
        assert (tensor == sum(n + r for r in range(size))).all()


@body
def futures_run_python_callbacks(_store: Any, rank: int, size: int) -> None:
    tensor = torch.ones(1000)
    doubled = (
        dist.all_reduce(tensor, async_op=True)
        .get_future()
        .then(lambda future: future.value()[0] * 2)
    )
    same(doubled.wait(), torch.full((1000,), 2.0 * size))
    work = dist.all_reduce(torch.ones(1), async_op=True)
    work.wait()
    work.get_future().wait()  # one that is asked for afterwards


@body
def collectives_go_on_while_python_computes(_store: Any, rank: int, size: int) -> None:
    dist.barrier()
    sys.setswitchinterval(100)  # nobody else gets the GIL
    work = dist.all_reduce(torch.ones(1_000_000), async_op=True)
    end = time.monotonic() + 5
    while time.monotonic() < end and not work.is_completed():
        sum(range(1000))
    sys.setswitchinterval(0.005)
    assert work.is_completed()


@body
def a_team_can_be_made_while_a_collective_waits(_store: Any, rank: int, size: int) -> None:
    work = dist.all_reduce(torch.ones(3_000_000), async_op=True)
    if rank == 1:
        work.wait()  # needs rank 0, which is already making the next team
    group = dist.new_group(list(range(size)))
    work.wait()
    dist.all_reduce(torch.ones(1), group=group)


@body
def ddp_gives_the_gradients_of_gloo(_store: Any, rank: int, size: int) -> None:
    gloo = dist.new_group(list(range(size)), backend="gloo")

    def gradients(group: Any) -> list[torch.Tensor]:
        torch.manual_seed(1)  # the same model and data for both carriers
        model = torch.nn.Sequential(
            torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
        )
        parallel = torch.nn.parallel.DistributedDataParallel(
            model, process_group=group, bucket_cap_mb=0.01
        )
        data = torch.randn(size, 16, 64)[rank]
        for _ in range(3):
            parallel.zero_grad()
            parallel(data).pow(2).mean().backward()
        return [parameter.grad for parameter in model.parameters()]

    over_ucc, over_gloo = gradients(None), gradients(gloo)
    for mine, reference in zip(over_ucc, over_gloo, strict=True):
        assert torch.allclose(mine, reference, rtol=1e-5, atol=1e-7)
        everybodys = [torch.empty_like(mine) for _ in range(size)]
        dist.all_gather(everybodys, mine)
        for other in everybodys:
            same(other, mine)


@body
def what_cannot_be_carried_is_refused(_store: Any, rank: int, size: int) -> None:
    assert "no float16 in host memory" in raised(
        TypeError, lambda: dist.all_reduce(torch.ones(3, dtype=torch.float16))
    )
    assert "avg of int64 is not defined" in raised(
        TypeError, lambda: dist.all_reduce(torch.ones(3).long(), dist.ReduceOp.AVG)
    )
    assert "no reductions of Bool" in raised(
        TypeError, lambda: dist.all_reduce(torch.ones(3).bool())
    )
    assert "is not contiguous" in raised(
        ValueError, lambda: dist.all_reduce(torch.ones(4, 4).t()[:2])
    )
    assert "a tensor on meta" in raised(
        (ValueError, RuntimeError, NotImplementedError),  # torch may refuse first
        lambda: dist.group.WORLD._get_backend(torch.device("cpu")).allreduce(
            [torch.ones(3, device="meta")]
        ),
    )
    assert "must be alike" in raised(
        ValueError,
        lambda: groups._GroupTeam("libucc", dist.group.WORLD).all_reduce_into(
            torch.ones(3), torch.ones(4), "sum"
        ),
    )
    tensor = torch.ones(3)
    dist.all_reduce(tensor)  # a refusal harms nothing
    assert (tensor == size).all()


@body
def a_rank_that_stays_away_is_an_error_in_time(_store: Any, rank: int, size: int) -> None:
    dist.barrier()
    if rank == 1:
        time.sleep(3 * SECONDS)
        return
    start = time.monotonic()
    said = raised(dist.DistBackendError, lambda: dist.all_reduce(torch.ones(5)))
    assert time.monotonic() - start < SECONDS + 2
    for part in (f"rank {rank} of {size}", "allreduce(sum, float32, 5 elements)", "within 2 s"):
        assert part in said, said
    start = time.monotonic()
    later = raised(dist.DistBackendError, lambda: dist.all_reduce(torch.ones(5)))
    assert "after an earlier failure" in later, later
    assert time.monotonic() - start < 1


@body
def a_killed_peer_ends_the_others(_store: Any, rank: int, size: int) -> None:
    dist.all_reduce(torch.ones(1000))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    said = raised(dist.DistBackendError, lambda: dist.all_reduce(torch.ones(5_000_000)))
    assert time.monotonic() - start < SECONDS + 2
    assert "allreduce(sum, float32, 5000000 elements)" in said


@body
def groups_can_be_destroyed_and_made_again(store: Any, rank: int, size: int) -> None:
    for generation in range(3):
        dist.destroy_process_group()
        dist.init_process_group(
            "libucc",
            store=dist.PrefixStore(f"again/{generation}", store),
            rank=rank,
            world_size=size,
            timeout=TIMEOUT,
        )
        tensor = torch.ones(10)
        dist.all_reduce(tensor)
        assert (tensor == size).all()


@body
def an_exit_without_goodbye_is_clean(_store: Any, rank: int, size: int) -> None:
    dist.all_reduce(torch.ones(10))
    dist.destroy_process_group = lambda: None  # main() would be orderly


@body
def an_idle_group_leaves_the_processor_alone(_store: Any, rank: int, size: int) -> None:
    dist.barrier()
    time.sleep(0.5)
    before = time.process_time()
    time.sleep(2)
    assert time.process_time() - before < 0.1


@body
def the_tables_of_the_check_find_what_is_wrong(_store: Any, rank: int, size: int) -> None:
    tables = buffers.Tables()
    length = 2 * expected.PERIOD + 1001  # three blocks and a bit
    for dtype in ("float32", "float64", "int64", "bfloat16", "float16", "int32"):
        for operation in ("sum", "max", "min", "avg"):
            if operation == "avg" and dtype.startswith("int"):
                continue
            pattern = expected.a_pattern(dtype, operation, size, 5)
            places = torch.arange(length)
            parts = []
            for index in range(size):
                part = torch.empty(length, dtype=getattr(torch, dtype))
                tables.fill(part, pattern, index)
                same(part, pattern.contribution(places, index).to(part.dtype))
                assert tables.wrong_in_input(part, pattern, index) is None
                parts.append(part.double() if dtype != "int64" else part)
            stack = torch.stack(parts)
            result = {
                "sum": lambda s: s.sum(0),
                "max": lambda s: s.amax(0),
                "min": lambda s: s.amin(0),
                "avg": lambda s: s.sum(0) / size,
            }[operation](stack).to(getattr(torch, dtype))
            assert tables.wrong_in_result(result, pattern, operation) is None
            for at in (0, expected.PERIOD, length - 1):
                spoilt = result.clone()
                spoilt[at] += spoilt[at] // 2 + 1
                wrong = tables.wrong_in_result(spoilt, pattern, operation)
                assert (wrong.num_elements, wrong.first_index) == (1, at)
            if result.is_floating_point():
                spoilt[:] = float("nan")
                assert tables.wrong_in_result(spoilt, pattern, operation).num_elements == length


def main(name: str) -> None:
    """Makes the group, runs the body, and leaves together."""
    torch.set_num_threads(1)
    launch = launch_module.Launch.read()
    store = groups.connect(launch, timedelta(seconds=60))
    dist.init_process_group(
        "libucc",
        store=dist.PrefixStore("world", store),
        rank=launch.rank,
        world_size=launch.world_size,
        timeout=TIMEOUT,
    )
    BODIES[name](store, launch.rank, launch.world_size)
    store.set(f"done/{launch.rank}", "")
    if launch.rank == 0 and "TEST_TIMEOUT" not in os.environ:
        store.wait([f"done/{rank}" for rank in range(launch.world_size)])
    dist.destroy_process_group()
    print(f"rank {launch.rank} ended well")


if __name__ == "__main__":
    main(sys.argv[1])
