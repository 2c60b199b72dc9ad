"""Running a pipeline."""

import os
import signal
import subprocess

from .tables import search_path

# How often finished shards are looked for.
LOOK = 2.0


def run_pipeline(script, on_look):
    """Runs a pipeline to its end, looking around now and then; its exit status. A signal ends all of it first."""
    environment = {**os.environ, "PATH": search_path()}
    process = subprocess.Popen(["bash", "-o", "pipefail", "-c", script], env=environment, start_new_session=True)
    ended = []

    def end(number, _):
        ended.append(number)
        os.killpg(process.pid, number)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    while True:
        try:
            status = process.wait(timeout=LOOK)
            break
        except subprocess.TimeoutExpired:
            on_look()
    for number, handler in before.items():
        signal.signal(number, handler)
    if ended:
        raise SystemExit(128 + ended[0])
    on_look()
    return status
