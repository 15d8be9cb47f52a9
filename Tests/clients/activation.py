"""Starts a command like systemd starts a socket-activated service: sd_listen_fds(3).

    activation.py DESCRIPTOR[,DESCRIPTOR...] COMMAND [ARGUMENT...]

The descriptors are passed on as 3 and upwards, and the environment variables name this process,
which becomes the command."""

import fcntl
import os
import sys

# Moved out of the way first, because a descriptor may have the number of another one's target.
given = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 100) for each in sys.argv[1].split(",")]
for place, descriptor in enumerate(given, start=3):
    os.dup2(descriptor, place)
    os.close(descriptor)
os.environ |= {
    "LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(given)), "LISTEN_FDNAMES": "parley",
}
os.execv(sys.argv[2], sys.argv[2:])
