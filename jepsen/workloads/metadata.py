"""Registers in the metadata: configurations that are compared and set, topics that come and go.

Proves that what the controllers say and do is linearizable, through whatever happens to them: every
answer fits into one order in which things happened one after the other, each between its call and
its return. Clients speak to the controllers themselves. A read asks a majority which version is the
newest, and then any controller for the facts up to it.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, TypeVar

from quorate.control import messages as m
from quorate.errors import ErrorCode
from quorate.jepsen.clients.controllers import (
    MaybeDoneError,
    NotDoneError,
    QuorumClient,
    new_request_id,
)
from quorate.jepsen.clients.following import Follower
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Recorder, Scribe
from quorate.jepsen.workloads.producing import Pace
from quorate.jepsen.workloads.registers import Registers
from quorate.jepsen.workloads.workload import Context, Topic, WorkloadKind
from quorate.model import Endpoint
from quorate.quorum.metadata.image import BROKER, ConfigResource

A = TypeVar("A", bound=m.Answer)

PROPERTY: Final = "log.retention.ms"
"""Takes any number, and no broker has the ids that stand for registers."""
FIRST_REGISTER: Final = 1_000_000
REGISTERS: Final = 6
NAMES: Final = 4
CLIENTS: Final = 6
TOPIC_ODDS: Final = 0.3
READS: Final = 0.3
"""How often a client is content with having read."""
STALE: Final = 0.1
"""How often it expects a value that it saw long ago, instead of what it has just read."""
PERSISTENT: Final = 0.5
"""How often a client tries again what may have been done, under the same id."""
QUICK_S: Final = 1.5
PATIENT_S: Final = 6.0
FINAL_S: Final = 20.0
TICK_S: Final = 0.01
CLOSE_S_MAX: Final = 15.0


class _Client:
    """Does one thing after the other; for one thread.

    State: what it has seen in registers.
    """

    def __init__(
        self, recorder: Recorder, controllers: Sequence[Endpoint], rng: Random, number: int
    ) -> None:
        self._rng = rng
        self._scribe = Scribe(recorder)
        self._client = QuorumClient(controllers, rng.randrange(len(controllers)))
        self._followers = [Follower(where) for where in controllers]
        self._number = number
        self._writes = 0
        self._seen: dict[str, list[str | None]] = {}

    def act_on_register(self, key: str) -> None:
        """Read a register, and usually try to change it."""
        stale = key in self._seen and self._rng.random() < STALE
        if (stale or self.read(key, QUICK_S)) and self._rng.random() >= READS:
            self._compare_and_set(key, stale=stale)

    def read(self, key: str, timeout_s: float) -> bool:
        """Read a register; return whether that came to an end."""
        self._scribe.begin("get", key)
        follower = self._newest(timeout_s)
        if follower is None:
            self._scribe.end(Kind.FAIL, "get")
            return False
        resource = ConfigResource(BROKER, _resource(key))
        value = follower.image.config(resource).get(PROPERTY)
        self._scribe.end(Kind.OK, "get", value)
        self._seen.setdefault(key, []).append(value)
        return True

    def _compare_and_set(self, key: str, *, stale: bool) -> None:
        seen = self._seen[key]
        expected = self._rng.choice(seen) if stale else seen[-1]
        self._writes += 1
        value = str(self._number * 10**9 + self._writes)
        change = m.ConfigChange(PROPERTY, m.ConfigOperation.SET, value, m.Expected(expected))
        request = m.AlterConfigs((m.ResourceChanges(BROKER, _resource(key), (change,)),))
        self._scribe.begin("cas", [key, expected, value])
        answer = self._ask(request, m.AlterConfigsAnswer, "cas")
        if answer is None:
            return
        code = answer.resources[0].failure.code
        if code not in {ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION}:
            self._scribe.end(Kind.FAIL, "cas", answer.resources[0].failure.message)
            return
        done = code == ErrorCode.NONE
        self._scribe.end(Kind.OK, "cas", done)
        if done:
            seen.append(value)

    def act_on_topic(self, name: str) -> None:
        """Create, delete or describe a topic."""
        self._rng.choice((self._create, self._delete, self.describe))(name)

    def _create(self, name: str) -> None:
        partitions = self._rng.randint(1, 3)
        topic = m.NewTopic(name, partitions, replication_factor=1)
        self._scribe.begin("create", [name, partitions])
        answer = self._ask(m.CreateTopics((topic,)), m.CreateTopicsAnswer, "create")
        if answer is not None:
            created = answer.topics[0]
            told = {
                ErrorCode.NONE: created.topic_id.hex(),
                ErrorCode.TOPIC_ALREADY_EXISTS: "exists",
            }
            self._told("create", told, created.failure)

    def _delete(self, name: str) -> None:
        self._scribe.begin("delete", name)
        answer = self._ask(m.DeleteTopics((name,)), m.DeleteTopicsAnswer, "delete")
        if answer is not None:
            told = {ErrorCode.NONE: None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "unknown"}
            self._told("delete", told, answer.topics[0].failure)

    def _told(self, name: str, told: Mapping[ErrorCode, str | None], failure: m.Failure) -> None:
        code = ErrorCode(failure.code)
        if code in told:
            self._scribe.end(Kind.OK, name, told[code])
        else:
            self._scribe.end(Kind.FAIL, name, failure.message)

    def describe(self, name: str, timeout_s: float = QUICK_S) -> bool:
        """Say what a topic is; return whether that came to an end."""
        self._scribe.begin("describe", name)
        follower = self._newest(timeout_s)
        if follower is None:
            self._scribe.end(Kind.FAIL, "describe")
            return False
        topic = follower.image.topics.get(name)
        told = None if topic is None else [topic.topic_id.hex(), len(topic.partitions)]
        self._scribe.end(Kind.OK, "describe", told)
        return True

    def _newest(self, timeout_s: float) -> Follower | None:
        """Return somebody's metadata that is no older than now; None if nobody has it in time."""
        deadline_s = time.monotonic() + timeout_s
        try:
            newest = self._client.ask(
                m.DescribeQuorum(), m.DescribeQuorumAnswer, request_id=b"", timeout_s=timeout_s
            )
        except (NotDoneError, MaybeDoneError):
            return None
        follower = self._rng.choice(self._followers)
        return follower if follower.reach(newest.metadata_version, deadline_s) else None

    def _ask(self, request: m.Request[A], expected: type[A], name: str) -> A | None:
        """Return the answer; without one, write down what is known."""
        patient = self._rng.random() < PERSISTENT
        try:
            return self._client.ask(
                request,
                expected,
                request_id=new_request_id() if patient else b"",
                timeout_s=PATIENT_S if patient else QUICK_S,
            )
        except NotDoneError as error:
            self._scribe.end(Kind.FAIL, name, str(error))
        except MaybeDoneError as error:
            self._scribe.end(Kind.INFO, name, str(error))
        return None

    def close(self) -> None:
        """Hang up."""
        self._client.close()
        for follower in self._followers:
            follower.close()


class Metadata:
    """Clients in threads, and in the end one that reads everything."""

    def __init__(self, context: Context) -> None:
        self._context = context
        prefix = context.topic_options.prefix
        self._registers = Registers(REGISTERS, "config {}".format)
        self._names = Registers(NAMES, lambda number: f"{prefix}register-{number}")
        self._controllers = [Endpoint(*host.address) for host in context.lab.controllers]
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._errors: list[str] = []

    def topics(self) -> Sequence[Topic]:
        """Return no topic: the clients make theirs."""
        return []

    def start(self) -> None:
        """Begin."""
        if not self._controllers:
            self._errors.append("metadata speaks to controllers, and these are not known")
            return
        for number in range(CLIENTS):
            client = self._client(number + 1)
            rng = Random(self._context.rng.getrandbits(64))
            thread = threading.Thread(target=self._run, args=(client, rng), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _client(self, number: int) -> _Client:
        rng = Random(self._context.rng.getrandbits(64))
        return _Client(self._context.recorder, self._controllers, rng, number)

    def _run(self, client: _Client, rng: Random) -> None:
        pace = Pace(self._context.rate_per_s / CLIENTS, time.monotonic())
        try:
            while not self._stopping.wait(TICK_S):
                for _ in range(pace.due(time.monotonic())):
                    if self._stopping.is_set():
                        break
                    if rng.random() < TOPIC_ODDS:
                        client.act_on_topic(self._names.some(rng))
                    else:
                        client.act_on_register(self._registers.some(rng))
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            self._errors.append(f"a client of the controllers failed: {error!r}")
        finally:
            client.close()

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(CLOSE_S_MAX)

    def final(self) -> None:
        """Read every register that there ever was, and every topic."""
        if not self._controllers:
            return
        client = self._client(0)
        for key in self._registers.all():
            if not client.read(key, FINAL_S):
                self._errors.append(f"{key} could not be read in the end")
        for name in self._names.all():
            if not client.describe(name, FINAL_S):
                self._errors.append(f"{name} could not be described in the end")
        client.close()

    def errors(self) -> Sequence[str]:
        """Return what went wrong with clients."""
        return self._errors

    def close(self) -> None:
        """End at once."""
        self.stop()


def _resource(key: str) -> str:
    """Return the broker whose configuration a register is."""
    return str(FIRST_REGISTER + int(key.rpartition(" ")[2]))


METADATA: Final = WorkloadKind(
    "metadata",
    "registers and topics in the controllers' metadata, compared and set, made and deleted",
    Metadata,
    quotas_per_s={"changes": 0.5},
)
