"""fetch against curl --parallel and img2dataset, on a real nginx and on a slow server."""

import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass

from measure import Bar, Contestant

NGINX = """
worker_processes 1; pid {dir}/nginx.pid; error_log {dir}/error.log; daemon on; worker_rlimit_nofile 16384;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_requests 1000000; types {{ image/jpeg jpg; }}
  client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  server {{ listen 127.0.0.1:{port} backlog=4096; root {root}; }}
  ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem;
  server {{ listen 127.0.0.1:{tls} ssl backlog=4096; root {root}; }}
  server {{ listen 127.0.0.1:{h2} ssl http2 backlog=4096; root {root}; }}
}}
"""

SIZE = 51_200  # of a file

IMG2DATASET = """
import sys
from img2dataset import download
if __name__ == "__main__":
    download(url_list=sys.argv[1], output_folder=sys.argv[2], output_format="dummy", disable_all_reencoding=True,
             processes_count=1, thread_count=64, number_sample_per_shard=1000, retries=0, enable_wandb=False)
"""


@dataclass
class Servers:
    """One nginx by three ways."""

    plain: str
    tls: str
    h2: str
    certificate: pathlib.Path


def pictures(count, size):
    """Files that start like a JPEG and do not shrink."""

    def make(path):
        path.mkdir()
        block = random.Random(1).randbytes(size)
        for i in range(count):
            (path / f"{i:05}.jpg").write_bytes(b"\xff\xd8\xff\xe0" + i.to_bytes(4, "big") + block[8:])

    return make


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    sys.exit(f"bench: no server came up on port {port}")


@contextlib.contextmanager
def nginx(bench, root):
    folder, port, tls, h2 = bench.cache / "nginx", free_port(), free_port(), free_port()
    folder.mkdir(exist_ok=True)
    if not (folder / "key.pem").exists():
        words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj /CN=localhost"
        names = ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE", "-out", folder / "cert.pem", "-keyout", folder / "key.pem"]
        subprocess.run([*words.split(), *names], check=True, stderr=subprocess.DEVNULL)
    (folder / "nginx.conf").write_text(NGINX.format(dir=folder, root=root, port=port, tls=tls, h2=h2))
    command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    wait_for(port)
    try:
        yield Servers(f"http://127.0.0.1:{port}", f"https://localhost:{tls}", f"https://localhost:{h2}", folder / "cert.pem")
    finally:
        os.kill(int((folder / "nginx.pid").read_text()), signal.SIGTERM)


@contextlib.contextmanager
def delay_server(bench):
    source, port = bench.root / "benches" / "delay.rs", free_port()
    binary = bench.made("delay", lambda path: bench.check(["rustc", "-O", "-o", path, source]))
    server = subprocess.Popen([binary, str(port)])
    try:
        wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def lists(bench, base, count):
    """The same URLs for fetch and for curl."""
    urls, config = bench.cache / "urls.txt", bench.cache / "curl.conf"
    names = [f"{base}/{i:05}.jpg" for i in range(count)]
    urls.write_text("".join(f"{name}\n" for name in names))
    config.write_text("".join(f'url = "{name}"\noutput = "/dev/null"\n' for name in names))
    return str(urls), str(config)


def run(bench):
    fetch, urlcat = bench.tool("fetch"), bench.tool("urlcat")
    count = 2_000 if bench.quick else 10_000
    if bench.has("nginx", "nginx-light"):
        with nginx(bench, bench.made(f"pictures-{count}", pictures(count, SIZE))) as servers:
            against_curl(bench, fetch, servers.plain, count)
            encrypted(bench, fetch, servers, count)
            against_img2dataset(bench, fetch, urlcat, servers.plain, count)
        many = 2_000
        with nginx(bench, bench.made(f"large-pictures-{many}", pictures(many, 102_400))) as servers:
            memory(bench, fetch, servers.plain, many)
    slow(bench, fetch)


def against_curl(bench, fetch, base, count):
    urls, config = lists(bench, base, count)
    for in_flight in (32, 256, 1024):
        flags = ["-j", str(in_flight), "--per-host", str(in_flight), "--allow-private"]
        curl = Contestant("curl --parallel", ["curl", "--no-progress-meter", "--parallel", "--parallel-max", str(in_flight), "-K", config])
        contestants = [
            Contestant("fetch", [fetch, *flags, urls]),
            Contestant("fetch, no hash", [fetch, *flags, "--hash", "none", urls]),
            Contestant("bare sockets (floor)", [bare_sockets(bench), urls, str(in_flight)]),
        ]
        # This curl allows no more than 300.
        # Without a hash it does what curl does; SHA-256 of 50 KB takes half of curl's time for a request.
        bars = [Bar(name, "curl --parallel", 1.0) for name in ("fetch, no hash", "fetch")] if in_flight <= 300 else []
        bench.compare(
            f"{count:,} files of 50 KB from nginx, {in_flight} in flight",
            ([curl] if bars and bench.has("curl") else []) + contestants,
            bars,
            items=count,
            unit="requests",
            headline="fetch" if bars else None,
            size=count * SIZE,
        )


def bare_sockets(bench):
    source = bench.root / "benches" / "get.rs"
    return bench.made("get", lambda path: bench.check(["rustc", "-O", "--edition=2024", "-o", path, source]))


def encrypted(bench, fetch, servers, count):
    """TLS, and HTTP/2 over it; the name is looked up in the resolver of each."""
    trust = {"SSL_CERT_FILE": str(servers.certificate), "CURL_CA_BUNDLE": str(servers.certificate)}
    for way, base in (("TLS", servers.tls), ("HTTP/2 over TLS", servers.h2)):
        urls, config = lists(bench, base, count)
        curl = ["curl", "--no-progress-meter", "--parallel", "--parallel-max", "64", "-K", config]
        flags = ["-j", "64", "--per-host", "64", "--allow-private"]
        bench.compare(
            f"{count:,} files of 50 KB from nginx by {way}, 64 in flight",
            [
                *([Contestant("curl --parallel", curl, env=trust)] if bench.has("curl") else []),
                Contestant("fetch", [fetch, *flags, urls], env=trust),
                Contestant("fetch, no hash", [fetch, *flags, "--hash", "none", urls], env=trust),
            ],
            items=count,
            unit="requests",
            size=count * SIZE,
        )


def against_img2dataset(bench, fetch, urlcat, base, count):
    python = bench.python("img2dataset", "setuptools<81")
    if python is None:
        print("  (img2dataset cannot be installed: left out)")
        return
    urls, _ = lists(bench, base, count)
    script = pathlib.Path(bench.cache / "img2dataset_run.py")
    script.write_text(IMG2DATASET)
    output = bench.cache / "img2dataset"
    bench.compare(
        f"{count:,} files of 50 KB, table to samples",
        [
            Contestant("img2dataset", [python, str(script), urls, str(output)],
                env={"NO_ALBUMENTATIONS_UPDATE": "1"}, prepare=lambda: shutil.rmtree(output, ignore_errors=True)),
            Contestant("urlcat | fetch", f"{urlcat} {urls} | {fetch} -j 64 --per-host 64 --allow-private >/dev/null"),
        ],
        [Bar("urlcat | fetch", "img2dataset", 8.0)],
        items=count,
        unit="samples",
        headline="urlcat | fetch",
        size=count * SIZE,
    )


def memory(bench, fetch, base, count):
    urls, _ = lists(bench, base, count)
    flags = ["-j", "1024", "--per-host", "1024", "--allow-private"]
    rows = bench.compare("1,024 in flight of 100 KB bodies", [Contestant("fetch", [fetch, *flags, urls])], items=count, unit="requests")
    used = rows["fetch"]["rss"] / 1024
    bench.expect("memory", f"fetch: {used:.0f} MB, bar 200 MB", used < 200)


def slow(bench, fetch):
    count = 20_000 if bench.quick else 100_000
    with delay_server(bench) as base:
        urls, _ = lists(bench, base, count)
        flags = ["-j", "1024", "--per-host", "1024", "--allow-private"]
        rows = bench.compare(f"{count:,} answers that take 100 ms, 1,024 in flight", [Contestant("fetch", [fetch, *flags, urls])], items=count, unit="requests")
    reached = count / rows["fetch"]["wall"] / 10_240
    bench.expect("slow server", f"fetch: {reached:.0%} of 10,240 requests a second, bar 90 %", reached >= 0.9)
