"""Whether a run kept the contracts: whole or not at all, nothing lost in silence, no garbage without a name."""

import hashlib
import io
import json
import re
import subprocess
import tarfile
from dataclasses import dataclass

OWNER = r"[A-Za-z0-9]+-[0-9a-f]{12}-\d+\.\d+\.\d+-[0-9a-f]{16}"
TEMPORARY = re.compile(rf"\.tarpipe-{OWNER}(-folder-\d+)?\.tmp")
SCRATCH = re.compile(rf"(tarproc|tarvideo)-{OWNER}")
UPLOAD = re.compile(rf"\.tarpipe-{OWNER}\.(upload|new)")
EMPTY = hashlib.sha256(b"").hexdigest()
KEPT = ["success", "handed_on"]
BUG = re.compile(r"panicked|bug, please report|RUST_BACKTRACE|memory allocation of")
LOST = re.compile(r"^\w+: \d+ \w+; failed (\d+)", re.M)
MACHINE = re.compile(r"\(.*\bsystem\b.*\)")  # a code of the summary
SHARD = re.compile(r"\.tar(\.\w+)?$")


@dataclass
class Reference:
    """What an undisturbed run made and took."""

    files: dict  # name: SHA-256
    members: dict  # name of a member: SHA-256
    keys: set
    lost: int
    counts: dict
    disk: int
    network: int
    rows: int
    seconds: float


def files(place, store=None):
    """Everything in the output that has its final name."""
    if store:
        return store.files()
    names = [path for path in place.out.rglob("*") if path.is_file() and not TEMPORARY.fullmatch(path.name)]
    return {str(path.relative_to(place.out)): path.read_bytes() for path in names}


def hashes(contents):
    return {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}


def members(contents, bin_dir):
    """All members of all shards: by another reader than ours, but for what Python cannot unpack."""
    found = {}
    for name, data in contents.items():
        if not SHARD.search(name):
            continue
        if name.endswith(".zst"):
            data = subprocess.run([bin_dir / "tarcat"], input=data, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                found[member.name] = hashlib.sha256(archive.extractfile(member).read()).hexdigest()
    return found


def keys(names):
    return {re.sub(r"^((?:.*/)?[^/.]+)\..*$", r"\1", name) for name in names}


def lost(ended, place):
    """How many samples the stages said they left out."""
    texts = [*ended.said.values(), *(path.read_text() for path in place.side.glob("run/stderr/*/*"))]
    return sum(int(found) for text in texts for found in LOST.findall(text)[-1:])


def rows(place):
    """Rows of the report, if there is one."""
    report = place.side / "report.jsonl"
    return len(report.read_text().splitlines()) if report.exists() else 0


def claims(case, ended):
    """Rows that the report of a failed fetch lists as kept."""
    report = case.place.side / "report.jsonl"
    if dict(ended.stages).get("fetch") and report.exists():
        kept = [row for row in map(json.loads, report.read_text().splitlines()) if row["status"] in KEPT]
        if kept:
            yield f"fetch failed, and its report lists {len(kept)} rows as kept, such as {kept[0]['key']}"


def judge(case, ended):
    """What is wrong after a disturbed run; and what it comes to: ok, lost or failed."""
    problems = list(bugs(ended)) + list(statuses(case, ended)) + list(leftovers(case)) + list(claims(case, ended))
    contents = files(case.place, case.store)
    found = hashes(contents)
    said = lost(ended, case.place) - case.reference.lost
    problems += [f"a name that no run makes: {name}" for name in found.keys() - case.reference.files.keys()]
    problems += cut_shards(case, contents)
    if found == case.reference.files and not ended.status:
        return problems, "ok"
    if case.fault == "change":
        return problems + mixed(case, contents), "failed" if ended.status else "ok"
    strange = [name for name in found if found[name] != case.reference.files.get(name)]
    rows_cut = any(tool in case.pipeline.rows for tool in case.disturbance.ended)
    if strange and not said and not rows_cut:
        problems.append(f"other bytes than in an undisturbed run: {', '.join(strange)}")
    if case.disturbance.harmless:
        problems.append(f"this should have done no harm: {' '.join(ended.said.values())[-500:]}")
    if ended.status:
        return problems, "failed"
    problems += missing(case, ended, contents, said)
    return problems, "lost"


def changed_by_others(reference, archive, command):
    """Samples that have another result among others than alone, where the command gets nothing else."""
    changed = []
    with tarfile.open(archive) as samples:
        for member in samples:
            one = io.BytesIO()
            with tarfile.open(fileobj=one, mode="w", format=tarfile.USTAR_FORMAT) as out:
                out.addfile(member, samples.extractfile(member))
            made = subprocess.run([str(word) for word in command], input=one.getvalue(), capture_output=True).stdout
            alone = members({"alone.tar": made}, None)
            key = keys([member.name])
            together = {name: found for name, found in reference.members.items() if keys([name]) == key}
            changed += sorted(key) if alone != together else []
    return changed


def mixed(case, contents):
    """Sources whose members are of two versions: part of the one file was joined to part of the other."""
    old, versions = case.reference.members, {}
    for name, found in members(contents, case.bin).items():
        if old.get(name) != EMPTY:  # an empty member is the same in both
            versions.setdefault(name.split("/")[0], set()).add(found == old.get(name))
    return [f"{source} is of two versions" for source, seen in sorted(versions.items()) if len(seen) > 1]


def bugs(ended):
    for tool, text in ended.said.items():
        if BUG.search(text):
            yield f"{tool} panicked: {text.strip()[-300:]}"
    for tool in ended.hung:
        yield f"{tool} hangs"


def statuses(case, ended):
    signals = {137, 143} if case.disturbance.ended else set()
    for tool, status in ended.stages:
        allowed = {0, 1, 3} | (signals if tool in case.disturbance.ended else set())
        if status not in allowed and tool not in ended.hung:
            yield f"{tool} ended with status {status}"
        if status in {1, 2, 3} and not ended.said[tool].strip():
            yield f"{tool} failed without a word"


def leftovers(case):
    """Garbage of a killed tool has a name that tells; nobody else leaves any."""
    victims = case.disturbance.victims
    for path in case.place.out.rglob(".*"):
        if not (victims and TEMPORARY.fullmatch(path.name)):
            yield f"left in the output: {path.name}"
    for path in case.place.side.rglob(".*"):
        if not (victims and TEMPORARY.fullmatch(path.name)):
            yield f"left beside the output: {path.name}"
    for path in case.place.tmp.iterdir():
        scratch = SCRATCH.fullmatch(path.name)
        record = case.store and victims and UPLOAD.fullmatch(path.name)
        if not (scratch and scratch[1] in victims or record):
            yield f"left in the temporary folder: {path.name}"
    if case.store:
        case.nameless = nameless_uploads(case)
        if case.nameless and not victims and not case.disturbance.network:
            yield f"uploads that nobody ends: {case.nameless}"


def nameless_uploads(case):
    """Uploads whose number never reached us, or did in the last moment before a kill: nobody can end them
    but the server, by a rule of the bucket."""
    records = [path for path in case.place.tmp.iterdir() if UPLOAD.fullmatch(path.name) and path.stat().st_size]
    return max(0, len(case.store.unfinished()) - len(records))


def cut_shards(case, contents):
    """What tarcheck says of every shard that exists."""
    shards = [case.place.out / name for name in contents if SHARD.search(name)]
    if case.store:
        shards = [case.place.home / f"stored-{name}" for name in contents]
        for path, data in zip(shards, contents.values()):
            path.write_bytes(data)
    if not shards:
        return []
    check = subprocess.run([case.bin / "tarcheck", "-q", *shards], capture_output=True, text=True)
    return [f"tarcheck: {check.stdout[-500:]}{check.stderr[-500:]}"] if check.returncode else []


def missing(case, ended, contents, said):
    """A run that says it went well has every sample, or has said how many it lost, to the last one."""
    if not said:
        gone = sorted(case.reference.files.keys() - contents.keys())
        return [f"status 0, but missing or other: {', '.join(gone) or 'bytes'}"]
    there = members(contents, case.bin)
    expected = case.reference.members
    away = case.reference.keys - keys(there)
    problems = []
    if any(MACHINE.search(text) for text in ended.said.values()):
        problems.append("status 0, but samples are lost that had nothing wrong: the machine had")
    if len(away) != said:
        problems.append(f"status 0, {len(away)} samples are missing, and {said} were said to be")
    changed = [name for name in there if there[name] != expected.get(name)]
    if changed:
        problems.append(f"status 0, but other bytes: {', '.join(changed[:5])}")
    return problems


def judge_resumed(case, ended):
    """After an undisturbed run in the same place: all there, nothing else."""
    problems = list(bugs(ended))
    for tool, status in ended.stages:
        if status:
            problems.append(f"resumed, {tool} ended with status {status}: {ended.said[tool][-300:]}")
    found, expected = hashes(files(case.place, case.store)), case.reference.files
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            verdict = "missing" if name not in found else "unknown" if name not in expected else "other bytes"
            problems.append(f"resumed, {name}: {verdict}")
    if rows(case.place) != case.reference.rows:
        problems.append(f"resumed, the report has {rows(case.place)} rows, not {case.reference.rows}")
    garbage = [*case.place.out.rglob(".*"), *case.place.side.rglob(".*"), *case.place.tmp.iterdir()]
    problems += [f"resumed, still there: {path.name}" for path in garbage]
    if case.store and len(case.store.unfinished()) > case.nameless:
        problems.append(f"resumed, uploads still there: {len(case.store.unfinished())}")
    return problems
