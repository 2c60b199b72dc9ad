"""Runs a command at a pseudo-terminal of 33 rows and 111 columns: terminal.py TEXT KEYS COMMAND...

Once it has shown TEXT, it gets KEYS ("\\x03" is Ctrl-C). What it shows goes to stdout; its exit status is ours; the file
`seconds` gets the time from KEYS to its end. A command that goes on for ten minutes is killed.
"""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time

text, keys, *command = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
    os.execvp(command[0], command)
seen, typed, deadline = b"", time.monotonic(), time.monotonic() + 600
while time.monotonic() < deadline:
    if not select.select([terminal], [], [], 1)[0]:
        continue
    try:
        data = os.read(terminal, 4096)
    except OSError:  # the other end is closed
        break
    seen += data
    os.write(1, data)
    if text and text.encode() in seen:
        os.write(terminal, keys.encode().decode("unicode_escape").encode())
        text, typed = "", time.monotonic()
else:
    os.kill(pid, 9)
with open("seconds", "w") as file:
    print(round(time.monotonic() - typed), file=file)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.exit(128 - code if code < 0 else code)
