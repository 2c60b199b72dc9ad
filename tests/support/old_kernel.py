"""Runs a command without some system calls that are newer than Linux 4.18, which many clusters still run.

    python3 old_kernel.py [--without-flock] COMMAND...

With the flag, only flock is missing, as on some network file systems.
"""

import ctypes
import errno
import os
import struct
import sys

LATER = (434, 435, 436, 437)  # pidfd_open, clone3, close_range, openat2: the same numbers on every architecture
FLOCK = {"x86_64": 73, "aarch64": 32}

command, refused = sys.argv[1:], LATER
if command[0] == "--without-flock":
    command, refused = command[1:], (FLOCK[os.uname().machine],)

# From linux/prctl.h, linux/seccomp.h and linux/bpf_common.h.
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.ENOSYS


def instruction(code, value, if_true=0, if_false=0):
    return struct.pack("HBBI", code, if_true, if_false, value)


words = [instruction(LOAD, 0)]  # the number of the system call
for left, number in zip(reversed(range(len(refused))), refused):
    words.append(instruction(EQUAL, number, if_true=left + 1))
words += [instruction(RETURN, ALLOW), instruction(RETURN, REFUSE)]
code = ctypes.create_string_buffer(b"".join(words))
program = struct.pack("HP", len(words), ctypes.addressof(code))

libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(command[0], command)
