"""Networks with delay, loss and a rate between two network namespaces, and what crosses them.

A link is a pair of TUN devices, one in the namespace of the server, one in a namespace of its own for the
client. This process moves the packets between them: TCP at both ends is the kernel's, and no module of the
kernel is needed. (`tc netem` does the same where the kernel has sch_netem; a kernel for virtual machines
often has not.) As in netem a packet is lost independently of the others, waits in a queue of a fixed number
of packets, leaves at the link's rate, and arrives after the delay.

Because every packet passes here, the time at which a byte of a TCP stream leaves or arrives is known
exactly, without a change to either end: `Stream`.

Invariant: packets of one direction are never reordered."""

import bisect
import collections
import dataclasses
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
MTU = 1500
# Packets that wait for the link, per direction: 60 full ones are 11 s at 64 kb/s, 60 of Opus 0.9 s.
QUEUE_PACKETS = 60
IPPROTO_TCP = 6
# Flags of a TCP segment.
FIN, SYN = 0x01, 0x02


@dataclasses.dataclass(frozen=True)
class Conditions:
    """A network: round trip in ms, loss of each direction in percent, kb/s of each direction (0: no limit)."""

    rtt: float = 0
    loss: float = 0
    rate: float = 0


class Stream:
    """The bytes of one direction of a TCP connection at one point of the way, in order without holes.

    `at(offset)` is the time at which all bytes before the offset had come past."""

    def __init__(self):
        self.first = None
        self.end = 0
        self.held = {}
        self.times, self.ends = [], []

    def take(self, sequence, length, flags, now):
        if flags & SYN:
            self.first = (sequence + 1) & 0xFFFFFFFF
            return
        if self.first is None or not length:
            return
        # Connections here carry less than 2 GiB. A greater distance is a copy from before the
        # start.
        start = (sequence - self.first) & 0xFFFFFFFF
        if start >= 1 << 31:
            return
        if start > self.end:
            self.held[start] = max(self.held.get(start, 0), start + length)
            return
        end = max(self.end, start + length)
        while beginnings := [begin for begin in self.held if begin <= end]:
            for begin in beginnings:
                end = max(end, self.held.pop(begin))
        if end > self.end:
            self.end = end
            self.times.append(now)
            self.ends.append(end)

    def at(self, offset):
        index = bisect.bisect_left(self.ends, offset)
        return self.times[index] if index < len(self.times) else None


class Direction:
    """One way of a link: from the device that is read to the one that is written."""

    def __init__(self, source, target, conditions, seed):
        self.source, self.target = source, target
        self.draw = random.Random(seed)
        self.change(conditions)
        self.free_at = 0.0
        self.leaving = collections.deque()
        # By the ports of the connection: as they leave, and as they arrive.
        self.leaving_streams = collections.defaultdict(Stream)
        self.arriving_streams = collections.defaultdict(Stream)
        self.counts = collections.Counter()

    def change(self, conditions):
        """From now on the link is another one."""
        self.delay = conditions.rtt / 2000
        self.loss = conditions.loss / 100
        self.seconds_per_byte = 8 / (1000 * conditions.rate) if conditions.rate else 0

    @property
    def sent(self):
        """The longest connection, as its bytes leave."""
        return max(self.leaving_streams.values(), key=lambda stream: stream.end)

    @property
    def arrived(self):
        """The longest connection, as its bytes arrive."""
        return max(self.arriving_streams.values(), key=lambda stream: stream.end)

    def accept(self, packet, now):
        """When the packet arrives; None: it is lost."""
        self.counts["packets"] += 1
        self.counts["bytes"] += len(packet)
        self.watch(self.leaving_streams, packet, now)
        while self.leaving and self.leaving[0] <= now:
            self.leaving.popleft()
        if len(self.leaving) >= QUEUE_PACKETS:
            self.counts["overflowed"] += 1
            return None
        self.free_at = max(self.free_at, now) + len(packet) * self.seconds_per_byte
        self.leaving.append(self.free_at)
        # A packet that the link damages has taken its time on it.
        if self.draw.random() < self.loss:
            self.counts["lost"] += 1
            return None
        return self.free_at + self.delay

    def deliver(self, packet, now):
        self.watch(self.arriving_streams, packet, now)
        try:
            os.write(self.target, packet)
        except BlockingIOError:
            self.counts["overflowed"] += 1

    @staticmethod
    def watch(streams, packet, now):
        """Notes a TCP segment of IPv4."""
        if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != IPPROTO_TCP:
            return
        head = 4 * (packet[0] & 15)
        total, = struct.unpack_from("!H", packet, 2)
        sequence, = struct.unpack_from("!I", packet, head + 4)
        length = total - head - 4 * (packet[head + 12] >> 4)
        streams[packet[head : head + 4]].take(sequence, length, packet[head + 13], now)


class Link:
    """One client's network. `namespace` is the client's; the server listens at `server`, and sends to this
    client with the congestion control `congestion`."""

    def __init__(self, links, number, conditions, seed, congestion):
        self.namespace = f"{links.prefix}-{number}"
        self.server, self.client = f"198.19.{number}.1", f"198.19.{number}.2"
        near, far = f"{links.prefix}s{number}", f"{links.prefix}c{number}"
        run("ip", "netns", "add", self.namespace)
        server, client = tun(near), tun(far)
        for name, place, here, there in (
                (near, links.namespace, self.server, self.client),
                (far, self.namespace, self.client, self.server)):
            run("ip", "link", "set", name, "netns", place)
            run("ip", "-n", place, "link", "set", name, "mtu", str(MTU), "up")
            run("ip", "-n", place, "addr", "add", here, "dev", name)
        # The congestion control of a route is that of its connections: the machine's may be another.
        run("ip", "-n", links.namespace, "route", "add", self.client, "dev", near, "src", self.server,
            "congctl", congestion)
        run("ip", "-n", self.namespace, "route", "add", self.server, "dev", far, "src", self.client,
            "congctl", "cubic")
        run("ip", "-n", self.namespace, "link", "set", "lo", "up")
        self.up = Direction(client, server, conditions, f"{seed} up")
        self.down = Direction(server, client, conditions, f"{seed} down")

    def change(self, conditions):
        """From now on the network is another one."""
        for direction in (self.up, self.down):
            direction.change(conditions)

    def inside(self, *command):
        return ["ip", "netns", "exec", self.namespace, *map(str, command)]

    def close(self):
        os.close(self.up.source)
        os.close(self.up.target)
        run("ip", "netns", "delete", self.namespace)


class Links:
    """The namespace of the servers, and the links to it. As a context it removes all that it has made."""

    def __init__(self, prefix="pnet"):
        self.prefix = prefix
        self.namespace = f"{prefix}-server"
        self.links = []

    def __enter__(self):
        self.remove_leftovers()
        run("ip", "netns", "add", self.namespace)
        run("ip", "-n", self.namespace, "link", "set", "lo", "up")
        self.poll = select.epoll()
        self.directions = {}
        self.is_open = True
        self.wake, self.waker = os.pipe()
        self.poll.register(self.wake, select.EPOLLIN)
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_open = False
        os.write(self.waker, b"x")
        self.thread.join()
        for link in self.links:
            link.close()
        run("ip", "netns", "delete", self.namespace)

    def remove_leftovers(self):
        """Removes what a run that was killed has left."""
        listed = subprocess.run(
            ["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
        for line in listed.splitlines():
            if line.split()[0].startswith(f"{self.prefix}-"):
                run("ip", "netns", "delete", line.split()[0])

    def add(self, conditions, seed, congestion="cubic"):
        """Another client's network."""
        link = Link(self, len(self.links) + 1, conditions, seed, congestion)
        self.links.append(link)
        for direction in (link.up, link.down):
            self.directions[direction.source] = direction
            self.poll.register(direction.source, select.EPOLLIN)
        return link

    def carry(self):
        """Moves packets until the end."""
        waiting, number = [], 0
        while self.is_open:
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, direction, packet = heapq.heappop(waiting)
                direction.deliver(packet, now)
            timeout = max(0, waiting[0][0] - now) if waiting else -1
            for descriptor, _ in self.poll.poll(timeout):
                if descriptor == self.wake:
                    break
                direction = self.directions[descriptor]
                now = time.monotonic()
                while packet := read(descriptor):
                    arrives = direction.accept(packet, now)
                    if arrives is not None:
                        number += 1
                        heapq.heappush(waiting, (arrives, number, direction, packet))


def read(descriptor):
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return b""


def tun(name):
    """A new TUN device: what the kernel routes to it is read here."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return descriptor


def run(*command):
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
