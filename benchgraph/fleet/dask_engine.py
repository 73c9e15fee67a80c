"""The engine over Dask distributed: its scheduler knows the workers, and carries calls and answers.

Every call goes to a worker that the caller chose, as a task of its own that no other worker may take. The caller sends no more than run at
once, so that a lost worker concerns just these. Dask's own resources are not used: they belong to a worker, and a host may have several.

The connection lives in a thread with an event loop; a broken one is made anew with a new client, since a client forgets its tasks with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import queue
import signal
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from functools import partial
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchgraph.core.errors import UsageError
from benchgraph.core.files import is_file
from benchgraph.core.printable import shortened
from benchgraph.fleet.engine import Answered, Begun, Connected, Disconnected, Event, Failed, Forgotten, Member, Members, told_by

LOCAL = "local:"  # and how many workers
CONNECT_S = 5.0  # for the scheduler to accept a connection, and as long again for the client's registration
ANSWER_S = 30.0  # for the scheduler to say who its workers are
RETRY_S = 1.0  # between two tries to connect
POLL_S = 0.5  # between two questions who the workers are
POLL_PER_WORKER_S = 0.01  # and longer where there are many: each answer describes all of them
CLOSE_S = 5.0
STOP_S = 0.5  # for a worker process to end by itself, before it is killed
_SILENT = logging.CRITICAL + 1  # a scheduler in this process says that a client has left as a critical error


def need_distributed() -> None:
    """Raise UsageError unless the extra is installed."""
    try:
        import distributed  # noqa: F401
    except ImportError as bad:
        fix = "pip install 'benchgraph[fleet]', here and on the workers"
        raise UsageError(f"needs Dask distributed ({bad})", where="--cluster", fix=fix) from bad


def _need_address(place: str) -> None:
    """Raise UsageError for what is no address of a scheduler."""
    from distributed.comm import parse_address
    from distributed.comm.registry import backends

    if is_local(place):
        return
    if is_file_name(place):
        _need_scheduler_file(place)
        return
    scheme, _ = parse_address(place)
    if scheme not in backends:
        what = f"no address of a scheduler: Dask knows {', '.join(sorted(backends))}"
        raise UsageError(what, where=f"--cluster={place}", fix="write tcp://HOST:PORT, the name of a scheduler file, or local:N")


def _need_scheduler_file(place: str) -> None:
    """Raise UsageError unless the file says where a scheduler is."""
    try:
        found = json.loads(Path(place).read_text())
    except (OSError, ValueError) as bad:
        found, why = None, bad.strerror if isinstance(bad, OSError) else "it is not JSON"
    else:
        why = "it has no address"
    if not isinstance(found, dict) or not isinstance(found.get("address"), str):
        fix = "name one that 'dask scheduler --scheduler-file=FILE' has written, or write tcp://HOST:PORT or local:N"
        raise UsageError(f"no scheduler file: {why}", where=f"--cluster={place}", fix=fix)


class DaskEngine:
    """A client of the scheduler at an address or in a scheduler file; or of N worker processes of this machine, started for it: local:N."""

    def __init__(self, place: str) -> None:
        need_distributed()
        _need_address(place)
        self._place, self._name = place, f"benchgraph-{uuid4().hex[:8]}"  # of this run: of its tasks, and the topic of what workers tell
        self._inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._tasks = dict[int, asyncio.Task[None]]()
        self._client: Any = None
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        logging.getLogger("distributed").setLevel(_SILENT)  # what matters of it is said here, in the user's terms
        warnings.filterwarnings("ignore", module=r"distributed\.")  # advice on large arguments, and on ports that are in use
        self._thread = threading.Thread(target=self._serve, name="benchgraph-fleet", daemon=True)
        self._thread.start()

    def call(self, ticket: int, worker: str, function: Callable[..., Any], *arguments: Any) -> None:
        self._loop.call_soon_threadsafe(self._begin, ticket, worker, function, arguments)

    def forget(self, ticket: int) -> None:
        self._loop.call_soon_threadsafe(self._cancel, ticket)

    def events(self, within_s: float) -> Sequence[Event]:
        found = list[Event]()
        with suppress(queue.Empty):
            found.append(self._inbox.get(timeout=within_s))
            while True:
                found.append(self._inbox.get_nowait())
        return found

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(2 * CLOSE_S)

    # ---- in the thread of the connection ----

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._stay_connected())
        except Exception as bad:  # a local cluster that could not be started, for any reason of the system's
            self._inbox.put(Disconnected(_reason(bad)))

    async def _stay_connected(self) -> None:
        async with _cluster(self._place) as where:
            while not self._closing.is_set():
                try:
                    await self._connection(where)
                except Exception as bad:  # Dask raises OSError, TimeoutError, ValueError and errors of its own for the same loss
                    self._inbox.put(Disconnected(_reason(bad)))
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._closing.wait(), RETRY_S)

    async def _connection(self, where: dict[str, Any]) -> None:
        """One client, from its start until it is lost, which raises, or until the end."""
        from distributed import Client

        client: Any = Client(**where, asynchronous=True, timeout=CONNECT_S, set_as_default=False)
        try:
            await asyncio.wait_for(client, 2 * CONNECT_S)
            client.scheduler_comm.interval = 0.0  # else it keeps a call for up to 10 ms, in case others follow
            self._client = client
            client.subscribe_topic(self._name, lambda event: self._inbox.put(Begun(event[1])))
            self._inbox.put(Connected(client.scheduler.address))
            while not self._closing.is_set():
                if client.status != "running":
                    raise ConnectionError("the connection to the scheduler broke")
                identity = await asyncio.wait_for(client.scheduler.identity(n_workers=-1), ANSWER_S)
                workers = identity["workers"]
                self._inbox.put(Members({address: Member(w["nthreads"], w["last_seen"]) for address, w in workers.items()}))
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), POLL_S + POLL_PER_WORKER_S * len(workers))
        finally:
            self._client = None
            for task in self._tasks.values():
                task.cancel()
            self._tasks.clear()
            with suppress(Exception):
                await asyncio.wait_for(client.close(), CLOSE_S)

    def _begin(self, ticket: int, worker: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        if self._client is not None:  # else Disconnected has been told
            self._tasks[ticket] = self._loop.create_task(self._follow(self._client, ticket, worker, function, arguments))

    async def _follow(self, client: Any, ticket: int, worker: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Make a call and tell its answer, once."""
        call, key = _Call(self._name, ticket, function, arguments), f"{self._name}-{ticket}"
        where = {"workers": [worker], "allow_other_workers": False}
        future = client.submit(pickle.loads, pickle.dumps(call), key=key, **where, pure=False, retries=0)
        try:
            value = pickle.loads(await future.result())
        except asyncio.CancelledError:
            return  # nobody wants it any more, or the connection broke
        except CancelledError:  # Dask's own: the scheduler has been restarted, perhaps with the same address
            self._inbox.put(Forgotten(ticket))
        except Exception as bad:  # whatever the function raised, or Dask did for its worker
            self._inbox.put(Failed(ticket, _reason(bad)))
        else:
            self._inbox.put(Answered(ticket, value))
        finally:
            self._tasks.pop(ticket, None)
            future.release()

    def _cancel(self, ticket: int) -> None:
        if task := self._tasks.pop(ticket, None):
            task.cancel()


@asynccontextmanager
async def _cluster(place: str) -> AsyncIterator[dict[str, Any]]:
    """How a client reaches the scheduler: arguments of distributed.Client. A local cluster ends with the block."""
    if not is_local(place):
        yield {"scheduler_file": place} if is_file_name(place) else {"address": place}
        return
    from distributed import LocalCluster

    ensure_running()  # multiprocessing's tracker, which would unblock the signal
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited by the processes: Ctrl-C is the client's, which ends them
    async with LocalCluster(
        n_workers=int(place.removeprefix(LOCAL)),
        threads_per_worker=1,
        processes=True,
        memory_limit=0,
        dashboard_address=None,
        silence_logs=_SILENT,
        asynchronous=True,
    ) as cluster:
        try:
            yield {"address": cluster.scheduler_address}
        finally:  # cases that still run are no longer wanted, and Dask would wait for them
            await asyncio.gather(*(nanny.kill(timeout=STOP_S) for nanny in cluster.workers.values()), return_exceptions=True)


class _Call:
    """A call as an object that becomes its answer, pickled, where it is unpickled.

    So the task is pickle.loads of bytes: the scheduler, which unpickles tasks, needs no benchgraph, and only the worker that does the call
    looks for the function.
    """

    def __init__(self, topic: str, ticket: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.parts = topic, ticket, function, arguments

    def __reduce__(self) -> tuple[Callable[..., bytes], tuple[Any, ...]]:
        return _answer, self.parts


def _answer(topic: str, ticket: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    from distributed import get_worker

    with told_by(partial(get_worker().log_event, topic, ticket)):
        return pickle.dumps(function(*arguments))


def is_local(place: str) -> bool:
    """Whether it asks for a cluster of this machine, started for the run."""
    return place.startswith(LOCAL)


def is_file_name(place: str) -> bool:
    """Whether it names a scheduler file, as `dask scheduler --scheduler-file` writes one, rather than an address."""
    return place.endswith(".json") or is_file(Path(place))


def _reason(bad: BaseException) -> str:
    first = next(iter(str(bad).splitlines()), "")
    return shortened(f"{type(bad).__name__}: {first}" if first else type(bad).__name__)
