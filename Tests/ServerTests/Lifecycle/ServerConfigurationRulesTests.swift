// Which settings a server refuses, and what it says then.

import Testing

@testable import Server

@Suite struct ServerConfigurationRulesTests {
    /// A change that makes the configuration wrong, and the line that says so.
    struct Refusal: Sendable {
        let expected: String
        let change: @Sendable (inout ServerConfiguration) -> Void

        init(_ expected: String, _ change: @escaping @Sendable (inout ServerConfiguration) -> Void)
        {
            self.expected = expected
            self.change = change
        }
    }

    private static let refusals = [
        Refusal("port must be from 0 to 65535, not 70000") { $0.listener.port = 70_000 },
        Refusal("shards must be from 1 to 1024, not 0") { $0.shards = 0 },
        Refusal("max-header-bytes must be from 1024 to 1048576, not 1023") {
            $0.connection.http.maxHeaderBytes = 1_023
        },
        Refusal("read-buffer-bytes must be from 4096 to 67108864, not 1") {
            $0.loop.readBufferBytes = 1
        },
        Refusal("max-audio-per-tick-ms must be from 20 to 60000, not 19") {
            $0.loop.maxAudioPerTick = .milliseconds(19)
        },
        Refusal("playout-lead-ms must be from 100 to 60000, not 0") {
            $0.session.playoutLeadMilliseconds = 0
        },
        Refusal("max-queued-output-bytes must be at least twice max-write-bytes-per-tick") {
            $0.loop.maxWriteBytesPerTick = 1 << 20
            $0.connection.maxQueuedOutputBytes = (2 << 20) - 1
        },
        Refusal("soft-queued-output-bytes must not be more than max-queued-output-bytes") {
            $0.connection.softQueuedOutputBytes = $0.connection.maxQueuedOutputBytes + 1
        },
    ]

    @Test func takesTheDefaults() {
        #expect(ServerConfiguration().objection == nil)
    }

    @Test func namesEachSettingOnce() {
        let names = ServerConfiguration.settings.flatMap(\.settings).map(\.name)
        #expect(Set(names).count == names.count)
    }

    @Test(arguments: refusals)
    func namesTheOptionThatIsWrong(refusal: Refusal) {
        var configuration = ServerConfiguration()
        refusal.change(&configuration)
        #expect(configuration.objection == refusal.expected)
    }
}
