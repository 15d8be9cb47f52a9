"""Starts a command as systemd starts a socket-activated service: sd_listen_fds(3).

    activation.py DESCRIPTOR[,DESCRIPTOR...] COMMAND [ARGUMENT...]

The descriptors are passed on from 3 upwards, and the variables name the process that the command
then is."""

import fcntl
import os
import sys

# Out of the way first: a descriptor may lie where another one goes.
given = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 100) for each in sys.argv[1].split(",")]
for place, descriptor in enumerate(given, start=3):
    os.dup2(descriptor, place)
    os.close(descriptor)
os.environ |= {
    "LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(given)), "LISTEN_FDNAMES": "parley",
}
os.execv(sys.argv[2], sys.argv[2:])
