"""Scripts on hosts, by ssh."""

import concurrent.futures
import shlex
import subprocess

CONNECT = 15  # seconds in which a host must answer
ANSWER = 120  # time limit of a command on a host, in seconds; the longest takes 70


class Failure(Exception):
    """An error that ends the command with a message."""


class Unreachable(Failure):
    """A host that ssh cannot reach."""


def one_line(text):
    return " ".join(text.split())


def each(function, items):
    """Calls a function for all items in parallel and returns the results, with a Failure for each that it raised."""

    def attempt(item):
        try:
            return function(item)
        except Failure as err:
            return err

    with concurrent.futures.ThreadPoolExecutor(max(1, min(len(items), 64))) as pool:
        return list(zip(items, pool.map(attempt, items)))


class Remote:
    """Calls of ssh. `ssh` is the command line that the user wants instead of ssh."""

    def __init__(self, ssh):
        self.ssh = shlex.split(ssh)

    def command(self, host, command):
        """Returns the command line that runs a command on a host."""
        options = ["StrictHostKeyChecking=yes", "BatchMode=yes", f"ConnectTimeout={CONNECT}"]
        options += ["ServerAliveInterval=5", f"ServerAliveCountMax={CONNECT // 5}"]
        flags = [word for option in options for word in ("-o", option)]
        return [*self.ssh, *flags, *host.ssh_flags(), host.name, command]

    def script_command(self, host, words):
        """Returns the command line that runs a bash script, which it reads from stdin."""
        return self.command(host, "bash -s -- " + shlex.join(map(str, words)))

    def run(self, host, script, *words):
        """Runs a bash script on a host and returns the completed process."""
        command = self.script_command(host, words)
        return self.call(host, command, input=script, timeout=ANSWER, text=True)

    def copy(self, host, file, script, *words):
        """Runs a bash script that reads a file from its stdin."""
        command = self.command(host, shlex.join(["bash", "-c", script, "bash", *map(str, words)]))
        with open(file, "rb") as stdin:
            done = self.call(host, command, stdin=stdin)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def call(self, host, command, **how):
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)
        except subprocess.TimeoutExpired as err:
            raise Unreachable(f"{host.name}: no answer within {err.timeout} s") from None
        if done.returncode == 255:
            said = done.stderr if isinstance(done.stderr, str) else done.stderr.decode(errors="replace")
            raise Unreachable(f"{host.name}: {one_line(said) or 'ssh failed'}")
        return done
