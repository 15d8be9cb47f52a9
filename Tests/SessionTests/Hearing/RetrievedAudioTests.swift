// The audio of a user's item, in the answer to a client that retrieves the item.

import COpus
import Codec
import TestMaterial
import Testing

@testable import Session

private func retrieved(_ script: ScriptedSession) -> [[String: Any]] {
    script.events.filter { $0["type"] as? String == "conversation.item.retrieved" }
        .compactMap { ($0["item"] as? [String: Any])?["content"] as? [[String: Any]] }
        .compactMap(\.first)
}

private func bytes(_ part: [String: Any]?) -> [UInt8]? {
    guard let text = part?["audio"] as? String else { return nil }
    var bytes = ByteWriter(capacity: 16)
    let isBase64 = Array(text.utf8).withUnsafeBytes {
        (try? Base64.decode($0, into: &bytes)) != nil
    }
    return isBase64 ? bytes.copiedBytes : nil
}

@Suite struct RetrievedAudioTests {
    /// A turn of so many milliseconds, committed by the client, and the item asked for again.
    private func script(
        _ format: AudioFormat, milliseconds: Int, limits: SessionLimits = SessionLimits()
    ) -> ScriptedSession {
        let script = ScriptedSession(
            {
                $0.inputFormat = format
                $0.turnDetection = nil
            }, limits: limits)
        script.transcripts = [.success("hello"), .success("again")]
        let samples = format.sampleRate.samples(inMilliseconds: milliseconds)
        let silence: UInt8 = format.isPCM ? 0 : 0xFF
        let size = format.bytesPerSample * samples
        script.append([UInt8](repeating: silence, count: size), at: 0)
        script.send(.inputAudioBufferCommit, at: 10)
        script.run(until: 1_000)
        return script
    }

    private func lastItemID(_ script: ScriptedSession) -> String {
        let added = script.events.last { $0["type"] as? String == "conversation.item.added" }
        return (added?["item"] as? [String: Any])?["id"] as? String ?? ""
    }

    @Test(arguments: [AudioFormat.pcm, .pcm8000, .pcm16000, .pcm48000, .pcmu, .pcma])
    func anItemComesBackWithItsAudioInTheInputFormat(_ format: AudioFormat) {
        let script = script(format, milliseconds: 400)
        script.send(.conversationItemRetrieve(itemID: lastItemID(script)), at: 1_100)
        script.run(until: 2_000)
        let part = retrieved(script).first
        #expect(part?["transcript"] as? String == "hello")
        let expected = format.sampleRate.samples(inMilliseconds: 400) * format.bytesPerSample
        #expect(bytes(part)?.count == expected)
        #expect(script.session.retrievals.isEmpty && script.violations == [])
    }

    @Test func opusComesBackAsPCM() throws {
        let script = ScriptedSession({
            $0.inputFormat = .opus
            $0.turnDetection = nil
        })
        script.transcripts = [.success("go forward")]
        let sender = try OpusSender((OPUS_SET_BITRATE_REQUEST, 24_000))
        let samples = try SpeechRecording.goForward.samplesAt48Kilohertz()
        script.speak(try sender.packets(of: samples, length: 960), from: 0)
        script.send(.inputAudioBufferCommit, at: 1_005)
        script.run(until: 2_000)
        script.send(.conversationItemRetrieve(itemID: lastItemID(script)), at: 2_100)
        script.run(until: 3_000)
        let audio = try #require(bytes(retrieved(script).first))
        // 51 packets of 20 ms had come.
        #expect(abs(audio.count - 51 * 960) <= 1_920)
        #expect(Set(audio).count > 50, "speech is no silence")
    }

    @Test func whatIsLongerThanAMessageMayBeComesBackAsItsWords() {
        let script = script(.pcm, milliseconds: 20_000)
        script.send(.conversationItemRetrieve(itemID: lastItemID(script)), at: 1_100)
        script.run(until: 2_000)
        #expect(retrieved(script).first?["transcript"] as? String == "hello")
        #expect(retrieved(script).first?["audio"] == nil)
    }

    /// 400 ms as codes take two pieces, 4 kB.
    @Test func theOldestAudioIsForgottenFirstAndTheWordsStay() {
        var limits = SessionLimits()
        limits.maxKeptAudioBytes = 6_000
        let script = script(.pcm, milliseconds: 400, limits: limits)
        let first = lastItemID(script)
        script.append([UInt8](repeating: 0, count: 19_200), at: 1_100)
        script.send(.inputAudioBufferCommit, at: 1_110)
        script.run(until: 2_000)
        script.send(.conversationItemRetrieve(itemID: first), at: 2_100)
        script.send(.conversationItemRetrieve(itemID: lastItemID(script)), at: 2_200)
        script.run(until: 3_000)
        #expect(retrieved(script).map { $0["transcript"] as? String } == ["hello", "again"])
        #expect(retrieved(script).map { $0["audio"] != nil } == [false, true])
    }

    @Test func withoutRoomForAudioNoneIsKept() {
        var limits = SessionLimits()
        limits.maxKeptAudioBytes = 0
        let script = script(.pcm, milliseconds: 400, limits: limits)
        script.send(.conversationItemRetrieve(itemID: lastItemID(script)), at: 1_100)
        script.run(until: 2_000)
        #expect(retrieved(script).count == 1 && retrieved(script)[0]["audio"] == nil)
    }

    @Test func anItemDeletedMeanwhileIsAnErrorAndManyAtOnceAreAnswered() {
        let script = script(.pcm, milliseconds: 400)
        let id = lastItemID(script)
        for _ in 0..<7 { script.send(.conversationItemRetrieve(itemID: id), at: 1_100) }
        script.send(.conversationItemDelete(itemID: id), at: 1_101)
        script.run(until: 2_000)
        // Four wait for the audio, and find the item gone; the others have the words at once.
        #expect(retrieved(script).count == 3)
        let codes = script.events.compactMap { ($0["error"] as? [String: Any])?["code"] as? String }
        #expect(codes == Array(repeating: "item_retrieve_invalid_item_id", count: 4))
        // Nothing but room in a list.
        #expect(script.session.conversation.audioBytes < 500)
    }
}
