// Speech services against scripted answers: samples, Opus that is passed on, Opus that is decoded,
// and answers in other formats.

import Agents
import Codec
import Session
import TestMaterial
import Testing

@Suite struct OpenAISpeechTests {
    private func synthesizer(
        _ format: SpeechServiceFormat, voice: String? = nil, retries: Int = 0
    ) -> OpenAISpeech {
        OpenAISpeech(
            service: UpstreamService(
                baseURL: "http://speech.test/v1", apiKey: nil,
                retries: RetryPolicy(maxRetries: retries)),
            model: "tts-1", voice: voice, format: format)
    }

    private func spoken(
        _ body: [UInt8], as format: SpeechServiceFormat, pieceBytes: Int = 100
    ) async throws -> [SpeechChunk] {
        let chunks = stride(from: 0, to: body.count, by: pieceBytes).map {
            Array(body[$0..<min($0 + pieceBytes, body.count)])
        }
        return try await spoken(on: ScriptedAgentHost(answers: [.init(chunks: chunks)]), format)
    }

    private func spoken(
        on host: ScriptedAgentHost, _ format: SpeechServiceFormat, retries: Int = 0
    ) async throws -> [SpeechChunk] {
        let collected = Collected<SpeechChunk>()
        try await synthesizer(format, retries: retries).speak(
            SpeechRequest(text: "Hello **there**.", voice: "marin", speed: 1.25), on: host
        ) { collected.append($0) }
        return collected.all
    }

    private static func packets(in chunks: [SpeechChunk]) -> [[UInt8]] {
        chunks.flatMap { chunk in
            guard case .opus(let run) = chunk.payload else { return [[UInt8]]() }
            return (0..<run.count).map { Array(run[$0]) }
        }
    }

    @Test func sendsTheClause() async throws {
        let host = ScriptedAgentHost(answers: [.init(chunks: [[1, 0, 2, 0]])])
        _ = try await spoken(on: host, .pcm)
        let request = try #require(host.requests.first)
        #expect(request.url == "http://speech.test/v1/audio/speech")
        #expect(!request.headers.contains { $0.name == "Authorization" })
        #expect(
            String(decoding: request.body, as: UTF8.self)
                == #"{"model":"tts-1","input":"Hello there.","voice":"marin","#
                + #""response_format":"pcm","speed":1.25}"#)
    }

    @Test func sendsTheConfiguredVoice() async throws {
        let host = ScriptedAgentHost(answers: [.init(chunks: [[1, 0, 2, 0]])])
        try await synthesizer(.pcm, voice: "af_sky").speak(
            SpeechRequest(text: "Hi.", voice: "marin"), on: host
        ) { _ in }
        let body = String(decoding: try #require(host.requests.first).body, as: UTF8.self)
        #expect(body.contains(#""voice":"af_sky""#) && !body.contains("speed"))
    }

    @Test(arguments: ["", " ", "```", "👍 …"])
    func sendsNoRequestWithoutAWordToSay(text: String) async throws {
        let host = ScriptedAgentHost()
        try await synthesizer(.pcm).speak(
            SpeechRequest(text: text == "```" ? "---" : text, voice: ""), on: host
        ) { _ in }
        #expect(host.requests.isEmpty)
    }

    @Test func readsSamplesHoweverTheyAreSplit() async throws {
        let samples = (0..<500).map { Int16($0 * 60 - 15_000) }
        let bytes = samples.flatMap {
            [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)]
        }
        for size in [1, 3, 4, 64, 2_000] {
            let chunks = try await spoken(bytes, as: .pcm, pieceBytes: size)
            #expect(chunks.flatMap(\.samples) == samples)
            #expect(chunks.allSatisfy { $0.rate == .hz24000 })
        }
    }

    @Test(arguments: [
        OggSamples.stream().bytes, Array("fLaC\0\0\0\"".utf8), Array("ID3\u{3}\0\0\0".utf8),
        WAVFile(rate: .hz24000, channels: 2, samples: [1, 2, 3, 4]).encoded(),
        Array(WAVFile(rate: .hz24000, samples: [1]).encoded().prefix(30)),
        Array("RIFF\0\0\0\0AVI LIST".utf8), [],
    ])
    func otherFormatsAreRefused(body: [UInt8]) async {
        for size in [1, 3, 1_000] {
            await #expect(throws: AgentError.self) {
                try await spoken(body, as: .pcm, pieceBytes: size)
            }
        }
    }

    /// Its rate is used, and neither its header nor the bytes after its samples become sound.
    @Test func readsAWAVFileHoweverItIsSplit() async throws {
        let samples = (0..<300).map { Int16($0 * 90 - 13_000) }
        let whole = WAVFile(rate: .hz16000, samples: samples).encoded()
        var unknown = whole
        unknown.replaceSubrange(40..<44, with: [0xFF, 0xFF, 0xFF, 0xFF])
        for (body, rest) in [(whole, Array("LIST\u{4}\0\0\0abcd".utf8)), (unknown, [])] {
            for size in [1, 7, 43, 45, 5_000] {
                let chunks = try await spoken(body + rest, as: .pcm, pieceBytes: size)
                #expect(chunks.flatMap(\.samples) == samples)
                #expect(chunks.allSatisfy { $0.rate == .hz16000 })
            }
        }
    }

    @Test(arguments: SpeechServiceFormat.allCases)
    func otherContentTypesAreRefused(format: SpeechServiceFormat) async throws {
        let body =
            format == .pcm
            ? [1, 0, 2, 0]
            : OggSamples.stream(try OggSamples.packets(milliseconds: 20, count: 2)).bytes
        for type in [
            "text/html; charset=utf-8", "Application/JSON", "application/problem+json",
            "audio/mpeg", "text/plain",
        ] {
            let host = ScriptedAgentHost(answers: [.init(chunks: [body], contentType: type)])
            await #expect(
                throws: AgentError.malformedReply(
                    message:
                        "The speech service does not answer in the format \"\(format.rawValue)\".",
                    detail: type)
            ) { try await spoken(on: host, format) }
        }
        for type in ["application/octet-stream", "audio/pcm;rate=24000", "audio/ogg", "x", nil] {
            let host = ScriptedAgentHost(answers: [.init(chunks: [body], contentType: type)])
            #expect(try await !spoken(on: host, format).isEmpty)
        }
    }

    @Test func opusPacketsArePassedOnUnchanged() async throws {
        let packets = try OggSamples.packets(milliseconds: 20, count: 10)
        for size in [1, 50, 5_000] {
            let chunks = try await spoken(
                OggSamples.stream(packets).bytes, as: .opus, pieceBytes: size)
            #expect(Self.packets(in: chunks) == packets)
        }
    }

    @Test func packetsWithinTheEncodersDelayAreLeftOut() async throws {
        let packets = try OggSamples.packets(milliseconds: 20, count: 6)
        let chunks = try await spoken(OggSamples.stream(packets, preSkip: 2_000).bytes, as: .opus)
        #expect(Self.packets(in: chunks) == Array(packets.dropFirst(2)))
    }

    @Test func otherDurationsBecomeTwentyMilliseconds() async throws {
        let short = try OggSamples.packets(milliseconds: 10, count: 8)
        #expect(
            Self.packets(in: try await spoken(OggSamples.stream(short).bytes, as: .opus)).count == 4
        )
        let long = try OggSamples.packets(milliseconds: 60, count: 3)
        #expect(
            Self.packets(in: try await spoken(OggSamples.stream(long).bytes, as: .opus)).count == 9)
    }

    @Test func opusThatCannotBePassedOnIsDecoded() async throws {
        // SILK in frames of 60 ms.
        let packets = try OggSamples.packets(milliseconds: 60, count: 3, bitrate: 12_000)
        let chunks = try await spoken(OggSamples.stream(packets).bytes, as: .opus)
        #expect(Self.packets(in: chunks).isEmpty)
        #expect(chunks.flatMap(\.samples).count == 180 * 24)
    }

    @Test func aGainIsApplied() async throws {
        let packets = try OggSamples.packets(milliseconds: 20, count: 20)
        func peak(_ gain: Int16) async throws -> Int {
            let chunks = try await spoken(OggSamples.stream(packets, gain: gain).bytes, as: .opus)
            #expect(Self.packets(in: chunks).isEmpty)
            return chunks.flatMap(\.samples).map { abs(Int($0)) }.max() ?? 0
        }
        // -6 dB is half.
        let (quiet, quieter) = (try await peak(-1), try await peak(-6 * 256))
        #expect((45...55).contains(quieter * 100 / quiet))
    }

    @Test(arguments: [[UInt8](), Array("not Ogg".utf8), Array("OggS".utf8)])
    func refusesInvalidOgg(body: [UInt8]) async {
        await #expect(throws: AgentError.self) { try await spoken(body, as: .opus) }
    }

    @Test func retriesOnlyBeforeTheFirstSound() async throws {
        let reset = AgentError.upstream(status: 0, message: "reset")
        let late = ScriptedAgentHost(answers: [
            .init(failure: reset), .init(chunks: [[1, 0, 2, 0]], failure: reset), .init(),
        ])
        await #expect(throws: reset) { try await spoken(on: late, .pcm, retries: 2) }
        #expect(late.requests.count == 2)
    }
}

/// Makes Ogg Opus (RFC 7845) with libopus's encoder.
enum OggSamples {
    static func packets(
        milliseconds: Int, count: Int, bitrate: Int = 64_000
    ) throws -> [[UInt8]] {
        let rate = bitrate < 20_000 ? SampleRate.hz16000 : .hz48000
        var encoder = try OpusEncoder(rate: rate, bitrate: bitrate)
        let size = rate.samples(inMilliseconds: milliseconds)
        return try (0..<count).map { index in
            let samples = (0..<size).map { Int16((index * size + $0) % 96 * 100) }
            var packet = [UInt8](repeating: 0, count: 4_000)
            let length = try samples.withUnsafeBufferPointer { samples in
                try packet.withUnsafeMutableBytes { try encoder.encode(samples, into: $0) }
            }
            return Array(packet[..<length])
        }
    }

    static func stream(
        _ packets: [[UInt8]] = [], preSkip: UInt16 = 0, gain: Int16 = 0
    ) -> OggOpusStream {
        var stream = OggOpusStream(preSkip: preSkip, gain: gain)
        for packet in packets { stream.append(packets: [packet], granule: -1) }
        return stream
    }
}
