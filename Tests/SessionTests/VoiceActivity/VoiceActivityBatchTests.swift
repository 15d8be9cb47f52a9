// Windows that are computed together mean what they mean alone, in the network and in a session.

import Session
import TestMaterial
import Testing

@testable import Session

@Suite struct VoiceActivityBatchTests {
    private static let size = VoiceActivityDetector.windowSamples

    /// Streams that begin at different places in the vowels of one signal.
    private static func signals(_ count: Int, windows: Int) -> [[Int16]] {
        let signal = ReferenceSignal().samples
        return (0..<count).map { index in
            let start = (16 + 5 * index) * size
            return Array(signal[start..<start + windows * size])
        }
    }

    private static func window(
        _ index: Int, of signal: [Int16], _ body: (UnsafeBufferPointer<Int16>) -> Void
    ) {
        signal.withUnsafeBufferPointer {
            body(UnsafeBufferPointer(rebasing: $0[index * size..<(index + 1) * size]))
        }
    }

    /// - Parameter early: the place that is taken before the batch is computed; nil: none.
    @Test(
        arguments: DenseKernel.allCases.filter(\.isAvailable),
        [(1, nil), (2, 0), (3, 2), (4, nil), (4, 1)] as [(Int, Int?)])
    func aBatchGivesTheProbabilitiesOfEachStreamAlone(
        kernel: DenseKernel, streams: (count: Int, early: Int?)
    ) {
        let model = VoiceActivityModel.installed(kernel)
        let batch = VoiceActivityBatch(model: model)
        let windows = 12
        let signals = Self.signals(streams.count, windows: windows)
        var together = signals.map { _ in GatedVoiceActivity(model: model) }
        var alone = together
        batch.open()
        for index in 0..<windows {
            var expected: [Float] = []
            for stream in signals.indices {
                Self.window(index, of: signals[stream]) {
                    expected.append(alone[stream].process($0, senderHeardNothing: false))
                    let place = together[stream].put($0, senderHeardNothing: false, into: batch)
                    #expect(place == stream)
                }
            }
            #expect(batch.isFull == (streams.count == VoiceActivityBatch.capacity))
            var found = expected
            if let early = streams.early { found[early] = together[early].take(early, from: batch) }
            batch.compute()
            for stream in signals.indices where stream != streams.early {
                found[stream] = together[stream].take(stream, from: batch)
            }
            #expect(found == expected)
            batch.removeAll()
        }
        batch.close()
    }

    /// A window that the gate leaves out takes no place.
    @Test func silenceTakesNoPlace() {
        let model = VoiceActivityModel.installed
        let batch = VoiceActivityBatch(model: model)
        var activity = GatedVoiceActivity(model: model)
        let silence = [Int16](repeating: 0, count: Self.size)
        for _ in 0..<VoiceActivityGate.windowsToClose {
            Self.window(0, of: silence) { _ = activity.process($0, senderHeardNothing: false) }
        }
        batch.open()
        Self.window(0, of: silence) {
            #expect(activity.put($0, senderHeardNothing: false, into: batch) == nil)
        }
        #expect(batch.count == 0)
    }

    // MARK: Sessions

    private func events(
        _ packets: [[UInt8]], _ hear: @escaping (ScriptedSession, [UInt8]) -> Void
    ) -> [String] {
        let script = ScriptedSession(voiceActivity: .installed)
        script.speak(packets, from: 0) { hear(script, $0) }
        script.run(until: 20 * packets.count + 1_000)
        return script.transcript
    }

    /// The batch is computed after each packet, as a shard does, or the window is settled by the next
    /// input.
    @Test(arguments: [false, true])
    func aSessionHearsTheSameThroughABatch(isComputed: Bool) throws {
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 1_000)
        let alone = events(packets) { $0.session.handleAudioPacket($1.span.bytes, at: $0.now) }
        #expect(alone.contains { $0.contains("speech_stopped") })
        var batched = 0
        let together = events(packets) { script, packet in
            let batch = script.context.activityBatch!
            batch.open()
            script.session.handleAudioPacket(packet.span.bytes, at: script.now)
            if script.session.awaitsActivity {
                batched += 1
                script.takeOutputs()
                if isComputed { batch.compute() }
                script.session.handleActivity(at: script.now)
            }
            #expect(!script.session.awaitsActivity)
            batch.removeAll()
            batch.close()
        }
        #expect(together == alone)
        #expect(batched > 50)
    }

    /// What comes after a window that waits is handled after it.
    @Test func anInputSettlesTheWindowFirst() throws {
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 0)
        let script = ScriptedSession(voiceActivity: .installed)
        let batch = try #require(script.context.activityBatch)
        script.speak(packets, from: 0) { packet in
            batch.open()
            script.session.handleAudioPacket(packet.span.bytes, at: script.now)
            let isAwaited = script.session.awaitsActivity
            script.takeOutputs()
            if isAwaited { script.session.handleDeadline(at: script.now) }
            #expect(!script.session.awaitsActivity)
            batch.removeAll()
            batch.close()
        }
        script.run(until: 20 * packets.count)
        #expect(script.transcript.contains { $0.contains("speech_started") })
    }
}
