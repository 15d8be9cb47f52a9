// Phrases that are said again: synthesised and encoded once, shared, bounded, and only kept whole.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct PhraseCacheTests {
    private static func speech(_ bytes: Int) -> [SpeechChunk] {
        [SpeechChunk(samples: [Int16](repeating: 1, count: bytes / 2), rate: .hz16000)]
    }

    private static func key(_ text: String) -> PhraseKey {
        PhraseKey(SpeechRequest(text: text, voice: "v"), opus: nil)
    }

    @Test func theLeastRecentlyUsedGoFirst() {
        var cache = PhraseCache(maxBytes: 10_000)
        for text in ["a", "b", "c", "d", "e", "f"] {
            cache.insert(Self.key(text), Self.speech(1_200))
        }
        #expect(cache.bytes <= 10_000)
        #expect(cache.find(Self.key("a")) != nil)
        cache.insert(Self.key("g"), Self.speech(1_200))
        #expect(cache.bytes <= 10_000)
        #expect(cache.find(Self.key("a")) != nil)
        #expect(cache.find(Self.key("b")) == nil)
        #expect(cache.find(Self.key("g")) != nil)
        #expect(cache.hits == 3 && cache.misses == 1)
    }

    @Test func oneLongPhraseDoesNotPushOutTheOthers() {
        var cache = PhraseCache(maxBytes: 10_000)
        cache.insert(Self.key("a"), Self.speech(1_000))
        cache.insert(Self.key("long"), Self.speech(5_000))
        #expect(cache.find(Self.key("a")) != nil)
        #expect(cache.find(Self.key("long")) == nil)
    }

    /// Says the same in `count` responses, one after the other.
    private static func script(
        _ texts: [String], _ configure: (inout SessionParameters) -> Void
    ) -> ScriptedSession {
        let script = ScriptedSession {
            $0.outputTransport = .binary
            configure(&$0)
        }
        script.replies = texts.map { .text($0) }
        for index in texts.indices {
            script.send(.responseCreate(ResponseParameters()), at: 10_000 * index)
        }
        script.run(until: 10_000 * texts.count)
        return script
    }

    private static func audio(_ script: ScriptedSession) -> [[OutputAudioPacket]] {
        var replies: [[OutputAudioPacket]] = []
        for packet in script.audioPackets {
            if replies.last?.last?.part.responseID == packet.part.responseID {
                replies[replies.count - 1].append(packet)
            } else {
                replies.append([packet])
            }
        }
        return replies
    }

    @Test(arguments: AudioFormat.allCases)
    func aPhraseIsSynthesisedAndEncodedTwice(format: AudioFormat) {
        let script = Self.script(Array(repeating: "Hello, my friend.", count: 4)) {
            $0.outputFormat = format
        }
        #expect(script.spoken == ["Hello, my friend.", "Hello, my friend."])
        let replies = Self.audio(script)
        #expect(replies.count == 4)
        #expect(replies[0].count > 3)
        for reply in replies {
            #expect(reply.flatMap(\.payload) == replies[0].flatMap(\.payload))
            #expect(reply.map(\.position) == replies[0].map(\.position))
        }
        #expect(script.context.codecUse.phraseHits == 2)
        #expect(script.context.codecUse.phraseMisses == 2)
        #expect(script.context.codecUse.phraseBytes > 0)
        #expect(script.violations.isEmpty)
    }

    /// The last packet of a short phrase leaves before the synthesiser says that this was all.
    @Test(arguments: AudioFormat.allCases)
    func aPhraseOfWholeFramesIsKeptThoughItsEndComesLast(format: AudioFormat) {
        let script = Self.script(Array(repeating: "Yes.", count: 4)) { $0.outputFormat = format }
        #expect(script.spoken == ["Yes.", "Yes."])
        let replies = Self.audio(script)
        #expect(replies.count == 4)
        for reply in replies {
            #expect(reply.flatMap(\.payload) == replies[0].flatMap(\.payload))
        }
        #expect(script.violations.isEmpty)
    }

    /// What a shard does with a clause, sound included, where the cache is all that is asked.
    private static func say(_ text: String, _ cache: inout PhraseCache) -> Bool {
        if cache.find(key(text)) != nil { return true }
        if cache.admits(key(text)) { cache.insert(key(text), speech(1_200)) }
        return false
    }

    @Test func aGreetingSurvivesTenThousandPhrasesThatAreSaidOnce() {
        var cache = PhraseCache(maxBytes: 100_000)
        let greeting = "Hello, this is the reception."
        #expect(!Self.say(greeting, &cache))
        #expect(!Self.say(greeting, &cache))
        for number in 0..<10_000 {
            #expect(!Self.say("Your number is \(number).", &cache))
        }
        #expect(Self.say(greeting, &cache))
        // A few are taken for others.
        #expect(cache.bytes < 20_000)
    }

    @Test func aPhraseIsRememberedAmongThousandsUntilItComesAgain() {
        var sights = PhraseSights()
        let greetings = (0..<100).map { Self.key("Greeting \($0)") }
        let isNew = greetings.map { !sights.note($0) }
        #expect(!isNew.contains(false))
        for number in 0..<1_000 { _ = sights.note(Self.key("Your number is \(number).")) }
        let remembered = greetings.count { sights.note($0) }
        #expect(remembered > 85)
        let isKnown = sights.note(greetings[0])
        #expect(isKnown)
    }

    /// The way of a conversation must not depend on the process that it takes place in.
    @Test func aFingerprintIsTheSameEverywhereAndTellsPhrasesApart() {
        #expect(Self.key("Hello.").fingerprint == 0x3aa7_96e1_834a_2f95)
        var other = SpeechRequest(text: "Hello.", voice: "v")
        let opus = CodecSettings().resolved(OpusSettings())
        var prints: Set<UInt64> = [Self.key("Hello.").fingerprint]
        prints.insert(PhraseKey(other, opus: opus).fingerprint)
        prints.insert(
            PhraseKey(other, opus: CodecSettings().resolved(.init(bitrate: 8_000)))
                .fingerprint)
        other.speed = 1.25
        prints.insert(PhraseKey(other, opus: nil).fingerprint)
        other.voice = "w"
        prints.insert(PhraseKey(other, opus: nil).fingerprint)
        #expect(prints.count == 5)
    }

    @Test func anotherVoiceIsAnotherPhrase() {
        let script = ScriptedSession { $0.outputFormat = .opus }
        script.replies = Array(repeating: .text("Hello."), count: 4)
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.send(.responseCreate(ResponseParameters()), at: 2_500)
        var other = ResponseParameters()
        other.voice = "other"
        // Within the conversation the voice stays what it is.
        other.isInConversation = false
        script.send(.responseCreate(other), at: 5_000)
        var better = ResponseParameters()
        better.outputOpus = OpusSettings(bitrate: 48_000)
        script.send(.responseCreate(better), at: 10_000)
        script.run(until: 15_000)
        #expect(script.spoken == Array(repeating: "Hello.", count: 4))
    }

    @Test func aPhraseThatWasCutOffIsNotKept() {
        let script = ScriptedSession { $0.outputFormat = .opus }
        script.replies = Array(repeating: .text("A long hello to everybody here."), count: 2)
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.send(.responseCreate(ResponseParameters()), at: 10_000)
        script.send(.responseCancel(responseID: nil), at: 10_800)
        script.run(until: 12_000)
        #expect(script.spoken.count == 2)
        #expect(script.context.codecUse.phraseBytes == 0)
    }

    /// The next time, the voice that the client asked for may be free.
    @Test(arguments: [AudioFormat.opus, .pcm])
    func whatAnotherVoiceSpokeIsNotKept(format: AudioFormat) {
        let script = ScriptedSession { $0.outputFormat = format }
        script.speech = { _ in
            var chunk = SpeechChunk(
                samples: [Int16](repeating: 1_000, count: 16_000), rate: .hz16000)
            chunk.isSubstitute = true
            return [chunk]
        }
        script.replies = Array(repeating: .text("Hello."), count: 4)
        for index in 0..<4 {
            script.send(.responseCreate(ResponseParameters()), at: 5_000 * index)
        }
        script.run(until: 20_000)
        #expect(script.spoken.count == 4)
        #expect(script.context.codecUse.phraseBytes == 0)
    }

    @Test func withoutACacheEverythingIsSynthesised() {
        var settings = CodecSettings()
        settings.phraseCacheBytes = 0
        let script = ScriptedSession(codecs: settings)
        script.replies = Array(repeating: .text("Hello."), count: 3)
        for start in [0, 5_000, 10_000] {
            script.send(.responseCreate(ResponseParameters()), at: start)
        }
        script.run(until: 15_000)
        #expect(script.spoken.count == 3)
        #expect(script.context.codecUse.phraseMisses == 0)
    }

    @Test func phrasesInOneReplyBeginOnFramesOfTheirOwn() {
        // 850 and 1,050 ms: both end in the middle of a frame.
        let script = Self.script(
            [
                "Hello, my friend. How are you, then?", "Hello, my friend. How are you, then?",
                "How are you, then? Hello, my friend.",
            ]
        ) { $0.outputFormat = .opus }
        #expect(script.context.codecUse.phraseHits == 2)
        let replies = Self.audio(script)
        #expect(replies.count == 3)
        #expect(Set(replies[1].map(\.payload)) == Set(replies[2].map(\.payload)))
        for reply in replies {
            #expect(reply.map(\.position) == reply.indices.map { $0 * 960 })
        }
    }
}

@Suite struct EncodingTests {
    @Test func aBusyShardDoesLessAtOnceAndMoreOnlySlowly() {
        var relief = EncodingRelief()
        relief.handle(busyShare: 0.8)
        #expect(relief.reduction == 2)
        relief.handle(busyShare: 0.6)
        #expect(relief.reduction == 2)
        relief.handle(busyShare: 0.95)
        #expect(relief.reduction == 10)
        for _ in 0..<4 { relief.handle(busyShare: 0.2) }
        #expect(relief.reduction == 10)
        relief.handle(busyShare: 0.2)
        #expect(relief.reduction == 9)
        for _ in 0..<100 { relief.handle(busyShare: 0.2) }
        #expect(relief.reduction == 0)
    }

    @Test func theBoundsThemselvesAreNeitherBusyNorOverloaded() {
        var relief = EncodingRelief()
        relief.handle(busyShare: EncodingRelief.busyShare)
        #expect(relief.reduction == 0)
        relief.handle(busyShare: EncodingRelief.overloadedShare)
        #expect(relief.reduction == 2)
        for _ in 0..<20 { relief.handle(busyShare: EncodingRelief.calmShare) }
        #expect(relief.reduction == 2)
        // Each step back takes its seconds anew.
        for _ in 0..<9 { relief.handle(busyShare: 0.1) }
        #expect(relief.reduction == 1)
    }

    @Test func aLoadBetweenTheBoundsChangesNothing() {
        var relief = EncodingRelief()
        relief.handle(busyShare: 0.8)
        for _ in 0..<50 {
            for _ in 0..<4 { relief.handle(busyShare: 0.3) }
            relief.handle(busyShare: 0.7)
        }
        #expect(relief.reduction == 2)
    }

    /// Bytes of a reply, by packet.
    private static func sizes(_ settings: OpusSettings, relief: Int = 0) throws -> [Int] {
        let script = ScriptedSession {
            $0.outputFormat = .opus
            $0.outputTransport = .binary
            $0.outputOpus = settings
        }
        for _ in 0..<relief { script.context.encodingRelief.handle(busyShare: 1) }
        let silence = [Int16](repeating: 0, count: 32_000)
        let speech = SpeechRecording.goForward.samples
        script.speech = { _ in [SpeechChunk(samples: speech + silence, rate: .hz16000)] }
        script.replies = [.text("Hello.")]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 10_000)
        return script.audioPackets.map(\.payload.count)
    }

    @Test func theClientChoosesTheBitrate() throws {
        let low = try Self.sizes(OpusSettings(bitrate: 8_000)).reduce(0, +)
        let high = try Self.sizes(OpusSettings(bitrate: 64_000)).reduce(0, +)
        #expect(high > 3 * low)
    }

    @Test func discontinuousTransmissionMakesSilenceSmall() throws {
        let with = try Self.sizes(OpusSettings(usesDTX: true))
        let without = try Self.sizes(OpusSettings())
        #expect(with.count == without.count)
        #expect(with.count { $0 <= 2 } > 50)
        #expect(without.count { $0 <= 2 } == 0)
    }

    @Test func theComplexityIsTheClientsUntilTheShardIsBusy() throws {
        let simple = try Self.sizes(OpusSettings(complexity: 0))
        let thorough = try Self.sizes(OpusSettings(complexity: 10))
        #expect(simple != thorough)
        #expect(try Self.sizes(OpusSettings(complexity: 10), relief: 1) == simple)
    }

    @Test func aResetEncoderIsAsGoodAsNew() throws {
        let settings = CodecSettings().resolved(OpusSettings())
        let context = SessionContext(
            voiceActivityModel: nil, hasRecognizer: true, hasSynthesizer: true)
        func encode(_ encoder: OutputAudioEncoder, _ samples: [Int16]) throws -> [[UInt8]] {
            var queue = ItemSpeechQueue()
            queue.append(SpeechChunk(samples: samples, rate: .hz16000))
            var packets: [[UInt8]] = []
            while queue.count > 0 {
                packets.append(
                    try encoder.encodeNext(of: &queue, maxFrames: 1, in: context.codecs).payload)
            }
            return packets
        }
        let speech = SpeechRecording.goForward.samples
        let fresh = OutputAudioEncoder(format: .opus, settings: settings)
        let used = OutputAudioEncoder(format: .opus, settings: settings)
        _ = try encode(used, speech.reversed())
        used.reset(settings: settings)
        #expect(try encode(used, speech) == encode(fresh, speech))
    }
}
