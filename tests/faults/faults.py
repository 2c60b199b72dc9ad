"""The faults of a run, chosen by a seed and by what an undisturbed run did.

Reproducible: the number of the call before which a stage is killed, ended or loses its folder, which calls are
short, the size of the disk, the byte after which a connection is cut or the network fails, the limits.
Not reproducible: which thread makes that call, and which connection carries that byte.
"""

import os
import random
from dataclasses import dataclass, field


@dataclass
class Disturbance:
    text: str
    env: dict = field(default_factory=dict)
    prefix: list = field(default_factory=list)  # words before each stage
    victims: list = field(default_factory=list)  # tools that may leave garbage, having been killed
    ended: list = field(default_factory=list)  # tools that a signal may have ended
    disk: int = None  # bytes of the disk that outputs are on
    small_tmp: bool = False  # temporary files are on it too
    network: dict = field(default_factory=dict)
    user: int = None
    harmless: bool = False  # the run must end as if nothing had happened
    seconds: float = 0.0  # that it takes by itself


def make(fault, case):
    """The disturbance of a case: its own random numbers, its pipeline and the reference for that."""
    return globals()[f"make_{fault}"](case)


def point(case, tools):
    """A call of one of the tools. Half of the time it is one about names: those are few, and what is
    atomic is decided there."""
    rng, counts = case.rng, case.reference.counts
    tool = rng.choice([tool for tool in tools if sum(counts[tool])])
    io, name = counts[tool]
    kind = "name" if name and (not io or rng.random() < 0.5) else "io"
    most = name if kind == "name" else io
    number = rng.randint(1, most)
    return tool, f"{tool}:{kind}:{number}", f"{tool} before {kind} call {number} of {most}"


def make_kill(case):
    """What a killed shardrun has started goes on for a while, and so its garbage is not yet garbage."""
    tool, at, text = point(case, case.tools)
    victims = case.tools if case.pipeline.inner else [tool]
    return Disturbance(f"kill {text}", {"FAULT_AT": at, "FAULT_DO": "kill"}, victims=victims, ended=[tool])


def make_killall(case):
    _, at, text = point(case, case.tools)
    env = {"FAULT_AT": at, "FAULT_DO": "killall"}
    return Disturbance(f"kill the group of {text}", env, victims=case.tools, ended=case.tools)


def make_term(case):
    tool, at, text = point(case, case.tools)
    return Disturbance(f"end {text}", {"FAULT_AT": at, "FAULT_DO": "term"}, ended=[tool])


def make_termall(case):
    _, at, text = point(case, case.tools)
    return Disturbance(f"end the group of {text}", {"FAULT_AT": at, "FAULT_DO": "termall"}, ended=case.tools)


def make_readonly(case):
    """Root may write anywhere, unless it cannot."""
    tool, at, text = point(case, case.tools)
    env = {"FAULT_AT": at, "FAULT_DO": "readonly", "FAULT_FOLDER": str(case.place.out)}
    powers = "-dac_override,-dac_read_search"
    prefix = ["setpriv", f"--bounding-set={powers}", f"--inh-caps={powers}"] if os.geteuid() == 0 else []
    return Disturbance(f"output read-only at {text}", env, prefix, victims=case.tools)


def make_disk(case):
    small_tmp = case.rng.random() < 0.5
    size = 4096 * case.rng.randint(2, max(3, case.reference.disk // 4096))
    beside = " with temporary files on it" if small_tmp else ""
    return Disturbance(f"a disk of {size} bytes{beside}", disk=size, small_tmp=small_tmp)


def make_short(case):
    seed, permille = case.rng.randrange(1 << 32), case.rng.choice([10, 100, 400, 800])
    return Disturbance(f"{permille} of 1000 calls short", {"FAULT_SHORT": f"{seed}:{permille}"}, harmless=True)


def make_fds(case):
    most = case.rng.randint(4, 40)
    return Disturbance(f"{most} descriptors", prefix=["prlimit", f"--nofile={most}:{most}"])


def make_procs(case):
    """Root has no such limit, and another user's processes would count: a user that nobody is."""
    most, user = case.rng.randint(len(case.stages) + 1, len(case.stages) + 24), 60_000 + os.getpid() % 5000
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    return Disturbance(f"{most} processes and threads", prefix=[*become, "prlimit", f"--nproc={most}:{most}"], user=user)


def make_cut(case):
    whole = max(2, case.reference.network)
    cuts = [case.rng.randrange(1, whole) for _ in range(case.rng.randint(1, 6))]
    return Disturbance(f"connections cut behind bytes {sorted(cuts)} of {whole}", network={"cuts": cuts})


def make_away(case):
    seconds, silent = case.seconds_away, case.rng.random() < 0.5
    at = case.rng.randrange(1, max(2, case.reference.network))
    how = "silent" if silent else "resetting"
    text = f"network {how} for {seconds} s from byte {at} of {case.reference.network}"
    return Disturbance(text, network={"away": at, "seconds": seconds, "silent": silent}, seconds=seconds)


def make_change(case):
    """The server has another version of a file when it is asked for it again."""
    cut = make_cut(case)
    return Disturbance(f"{cut.text}, and files change", network={**cut.network, "changing": True})


def make_pids(case):
    """Every stage is process 1 of a namespace of its own, on one host, as containers are."""
    prefix = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return Disturbance("every stage is process 1", prefix=prefix, harmless=True)


def random_for(seed, index):
    return random.Random(f"{seed}:{index}")


def pair_of(pairs, seed, index):
    """Every pair once in each round, in an order of that round's own."""
    turn, place = divmod(index, len(pairs))
    return random.Random(f"{seed}:round {turn}").sample(pairs, len(pairs))[place]
