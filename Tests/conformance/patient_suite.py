# Runs the Autobahn suite, which must not fail a server because the machine is slow. The suite gives the
# server one second for most answers. Here a case that closes the connection after a time first waits
# for the messages that it expects, and each time limit on the server is HANG_GUARD.
#
# Runs on the suite's own Python 2.7, with the arguments of `wstest`.
import sys

from autobahntestsuite import fuzzing, wstest
from twisted.internet import reactor

# Seconds; ends what would wait for ever.
HANG_GUARD = 120
# Seconds between two looks at what a case has received.
PAUSE = 0.05

client_factory = fuzzing.FuzzingClientFactory


def is_complete(case):
    """Whether a case has received as much as any outcome that it knows. A case without outcomes
    closes by itself when it is complete."""
    outcomes = case.expected.values()
    return bool(outcomes) and len(case.received) >= max(len(events) for events in outcomes)


def close_after(protocol, delay):
    """Closes after `delay` and when the case is complete."""
    def look(left):
        if left <= 0 or is_complete(protocol.runCase):
            protocol.executeCloseAfter()
        elif protocol.state != protocol.STATE_CLOSED:
            reactor.callLater(PAUSE, look, left - PAUSE)

    reactor.callLater(delay, look, HANG_GUARD)


def kill_after(protocol, delay):
    """Breaks the connection off after HANG_GUARD, however short the case's limit is."""
    reactor.callLater(max(delay, HANG_GUARD), protocol.executeKillAfter)


class PatientFactory(client_factory):
    """Makes clients that give the server time for every handshake."""

    def __init__(self, *arguments, **options):
        client_factory.__init__(self, *arguments, **options)
        self.setProtocolOptions(
            openHandshakeTimeout=HANG_GUARD, closeHandshakeTimeout=HANG_GUARD,
            serverConnectionDropTimeout=HANG_GUARD)


fuzzing.FuzzingProtocol.closeAfter = close_after
fuzzing.FuzzingProtocol.killAfter = kill_after
fuzzing.FuzzingClientFactory = PatientFactory
wstest.run()
