// Recordings in a real folder: what comes in chunks is in the files, in its place, and both files of a
// recording play equally long.

import CLinux
import Codec
import Foundation
import Logging
import Session
import Testing

@testable import Records

@Suite struct RecordingArchiveTests {
    /// A folder that is removed with the test.
    private final class Folder {
        let path: String

        init() {
            path = FileManager.default.temporaryDirectory.path + "/parley-\(UUID().uuidString)"
        }

        deinit { try? FileManager.default.removeItem(atPath: path) }

        func recordings(
            maxBytes: Int = 0, maxQueuedBytes: Int = 1 << 20
        ) throws -> RecordingArchive {
            var settings = RecordingSettings(folder: path)
            settings.maxBytes = maxBytes
            settings.maxQueuedBytes = maxQueuedBytes
            return try RecordingArchive(settings, logger: Logger(label: "test"))
        }

        /// The files' names and contents.
        func files() throws -> [String: [UInt8]] {
            var files: [String: [UInt8]] = [:]
            for day in (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? [] {
                for name in try FileManager.default.contentsOfDirectory(atPath: "\(path)/\(day)") {
                    let data = try #require(
                        FileManager.default.contents(atPath: "\(path)/\(day)/\(name)"))
                    files[name] = Array(data)
                }
            }
            return files
        }

        /// Puts a file where a process has left it that was killed.
        func leave(_ name: String, _ content: [UInt8]) throws {
            try FileManager.default.createDirectory(
                atPath: "\(path)/2026-11-23", withIntermediateDirectories: true)
            try Data(content).write(to: URL(filePath: "\(path)/2026-11-23/\(name)"))
        }
    }

    private static func packets(_ file: [UInt8]?) throws -> [OggOpusPacket] {
        var reader = OggOpusReader()
        var packets: [OggOpusPacket] = []
        let bytes = file ?? []
        try bytes.span.bytes.withUnsafeBytes { bytes in
            try reader.append(bytes) { packets.append($0) }
        }
        try reader.finish()
        return packets
    }

    /// How long a file plays, in samples at 48 kHz.
    private static func played(_ file: [UInt8]?) throws -> Int {
        try packets(file).reduce(0) { $0 + $1.samples - $1.skipped - $1.trimmed }
    }

    /// Where sound begins and ends in a file, in milliseconds: 20 ms that are not silent.
    private static func loud(_ file: [UInt8]?) throws -> [Int] {
        var decoder = try OpusDecoder(rate: .hz16000)
        var samples: [Int16] = []
        for packet in try packets(file) {
            samples += try [Int16](unsafeUninitializedCapacity: 1_920) { room, count in
                count = try decoder.decode(packet.bytes.span.bytes, into: room)
            }.dropFirst(packet.skipped / 3)
        }
        return stride(from: 0, to: samples.count - 319, by: 320).filter { start in
            samples[start..<start + 320].contains { abs(Int($0)) > 1_500 }
        }.map { $0 / 16 }
    }

    /// A second of packets of Opus, from a time on, each marked.
    private static func opus(from milliseconds: Int, count: Int = 50) -> RecordedAudio {
        var audio = RecordedAudio()
        for index in 0..<count {
            let packet: [UInt8] = [0x48, UInt8(index), 7, 7]
            audio.append(
                packet.span.bytes, format: .opus,
                end: .milliseconds(milliseconds + 20 * (index + 1)))
        }
        return audio
    }

    /// A tone of 100 ms runs, from a time on.
    private static func tone(
        from milliseconds: Int, lasting length: Int, _ format: AudioFormat = .pcm
    ) -> RecordedAudio {
        var audio = RecordedAudio()
        let rate = format.sampleRate
        for start in stride(from: 0, to: length, by: 100) {
            let samples = (0..<rate.samples(inMilliseconds: 100)).map { index in
                Int16(8_000 * sin(Double(index) * 2 * .pi * 400 / Double(rate.hertz)))
            }
            var bytes: [UInt8] = []
            if format == .pcm {
                for sample in samples {
                    bytes.append(UInt8(truncatingIfNeeded: sample))
                    bytes.append(UInt8(truncatingIfNeeded: sample >> 8))
                }
            } else {
                samples.withUnsafeBufferPointer {
                    G711.encode($0, law: format == .pcmu ? .mu : .a, into: &bytes)
                }
            }
            audio.append(
                bytes.span.bytes, format: format, end: .milliseconds(milliseconds + start + 100))
        }
        return audio
    }

    private static func chunk(
        _ user: RecordedAudio = RecordedAudio(), _ agent: RecordedAudio = RecordedAudio(),
        at milliseconds: Int, _ sequel: RecordingChunk.Sequel = .more, of id: String = "sess_1"
    ) -> RecordingChunk {
        RecordingChunk(
            sessionID: id, startedAt: .milliseconds(0), takenAt: .milliseconds(milliseconds),
            user: user, agent: agent, sequel: sequel)
    }

    // MARK: What is in the files

    @Test func packetsOfOpusAreStoredAsTheyCame() throws {
        let folder = Folder()
        let recordings = try folder.recordings()
        let first = Self.opus(from: 0)
        let second = Self.opus(from: 1_000)
        recordings.keep(Self.chunk(first, at: 1_000))
        recordings.keep(Self.chunk(second, at: 2_000, .end))
        recordings.shutdown()
        let files = try folder.files()
        #expect(files.keys.sorted() == ["sess_1.agent.opus", "sess_1.user.opus"])
        let stored = try Self.packets(files["sess_1.user.opus"]).map(\.bytes)
        #expect(stored.prefix(100).flatMap { $0 } == first.bytes + second.bytes)
        #expect(recordings.counts.finished == 1 && recordings.counts.open == 0)
        let bytes = files.values.reduce(0) { $0 + $1.count }
        #expect(recordings.counts.writtenBytes == bytes)
        #expect(recordings.counts.folderBytes == bytes)
    }

    @Test(arguments: [AudioFormat.pcm, .pcmu, .pcma])
    func samplesAreEncodedInTheirPlace(format: AudioFormat) throws {
        let folder = Folder()
        let recordings = try folder.recordings()
        recordings.keep(
            Self.chunk(Self.tone(from: 500, lasting: 500, format), at: 1_000))
        recordings.keep(
            Self.chunk(
                RecordedAudio(), Self.tone(from: 2_000, lasting: 300, format), at: 3_000, .end))
        recordings.shutdown()
        let files = try folder.files()
        for (name, range) in [("user", 500...1_000), ("agent", 2_000...2_300)] {
            let file = files["sess_1.\(name).opus"]
            #expect(try Self.played(file) == 3_000 * 48)
            let loud = try Self.loud(file)
            let first = try #require(loud.first)
            let last = try #require(loud.last)
            #expect(abs(first - range.lowerBound) <= 20, "\(name) begins at \(first) ms")
            #expect(abs(last + 20 - range.upperBound) <= 40, "\(name) ends at \(last) ms")
        }
    }

    @Test func aSecondRecordingOfASessionHasANameOfItsOwn() throws {
        let folder = Folder()
        let recordings = try folder.recordings()
        for _ in 0..<2 { recordings.keep(Self.chunk(Self.opus(from: 0), at: 1_000, .end)) }
        // Nothing came, so there is no file.
        recordings.keep(Self.chunk(at: 1_000, .end, of: "sess_silent"))
        recordings.keep(Self.chunk(Self.opus(from: 0), at: 1_000, .end, of: "../sess_2"))
        recordings.shutdown()
        #expect(
            try folder.files().keys.sorted() == [
                "sess_1-2.agent.opus", "sess_1-2.user.opus", "sess_1.agent.opus",
                "sess_1.user.opus",
            ])
        #expect(recordings.counts.droppedBytes == Self.opus(from: 0).bytes.count)
    }

    @Test func whatIsDiscardedIsGone() throws {
        let folder = Folder()
        let recordings = try folder.recordings()
        recordings.keep(Self.chunk(Self.opus(from: 0), at: 1_000))
        recordings.keep(Self.chunk(at: 2_000, .discard))
        recordings.shutdown()
        #expect(try folder.files().isEmpty)
        #expect(recordings.counts.folderBytes == 0 && recordings.counts.open == 0)
    }

    // MARK: Limits

    @Test func whatFindsNoRoomLeavesAGapOfItsLength() throws {
        let folder = Folder()
        let recordings = try folder.recordings(maxQueuedBytes: 30_000)
        let large = Self.tone(from: 1_000, lasting: 1_000)
        recordings.keep(Self.chunk(Self.opus(from: 0), at: 1_000))
        recordings.keep(Self.chunk(large, at: 2_000))
        recordings.keep(Self.chunk(Self.opus(from: 2_000), at: 3_000))
        // An end is taken, although its audio is not.
        recordings.keep(Self.chunk(RecordedAudio(), large, at: 4_000, .end))
        recordings.shutdown()
        #expect(recordings.counts.droppedBytes == 2 * large.bytes.count)
        let files = try folder.files()
        let packets = try Self.packets(files["sess_1.user.opus"])
        var position = 0
        var places: [Int] = []
        for packet in packets {
            if packet.bytes[0] == 0x48 { places.append(position / 48) }
            position += packet.samples
        }
        #expect(places == (0..<50).map { 20 * $0 } + (0..<50).map { 2_000 + 20 * $0 })
        #expect(try Self.played(files["sess_1.user.opus"]) == 4_000 * 48)
        #expect(try Self.played(files["sess_1.agent.opus"]) == 4_000 * 48)
    }

    @Test func aFullFolderTakesNoMore() throws {
        let folder = Folder()
        let recordings = try folder.recordings(maxBytes: 1_000)
        for second in 0..<5 {
            recordings.keep(
                Self.chunk(Self.opus(from: 1_000 * second), at: 1_000 * (second + 1)))
        }
        recordings.shutdown()
        let files = try folder.files()
        #expect(files.values.reduce(0) { $0 + $1.count } <= 1_000)
        #expect(recordings.counts.droppedBytes >= 3 * 200)
        // What was written is whole.
        let packets = try Self.packets(files["sess_1.user.opus"])
        #expect(packets.prefix(50).allSatisfy { $0.bytes[0] == 0x48 })
    }

    @Test func aFolderThatCannotBeWrittenToIsRefused() {
        #expect(throws: RecordingFolderError.self) {
            try RecordingArchive(
                RecordingSettings(folder: "/proc/parley"), logger: Logger(label: "test"))
        }
    }

    // MARK: After the end of a process

    @Test func filesOfADeadProcessAreEndedAtTheNextStart() throws {
        let folder = Folder()
        let recordings = try folder.recordings()
        for second in 0..<3 {
            recordings.keep(
                Self.chunk(
                    Self.opus(from: 1_000 * second),
                    second == 0 ? Self.tone(from: 200, lasting: 300) : RecordedAudio(),
                    at: 1_000 * (second + 1)))
        }
        recordings.shutdown()
        let whole = try folder.files()
        let user = try #require(whole["sess_1.user.opus"])
        let agent = try #require(whole["sess_1.agent.opus"])
        let left = Folder()
        // The last page is written in part; the other side has its headers only.
        try left.leave("sess_1.user.opus.part", user.dropLast(30))
        try left.leave("sess_1.agent.opus.part", Array(agent.prefix(200)))
        try left.leave("sess_2.user.opus.part", [1, 2, 3])
        let next = try left.recordings()
        next.shutdown()
        let files = try left.files()
        #expect(files.keys.sorted() == ["sess_1.agent.opus", "sess_1.user.opus"])
        let length = try Self.played(files["sess_1.user.opus"])
        #expect(length >= 2 * 48_000 - OggOpusWriter.preSkip && length < 3 * 48_000)
        #expect(try Self.played(files["sess_1.agent.opus"]) == length)
        // Complete files stay as they are.
        let again = try left.recordings()
        again.shutdown()
        #expect(try left.files() == files)
    }

    @Test func aFileThatAnotherProcessWritesIsLeftAlone() throws {
        let folder = Folder()
        try folder.leave("sess_1.user.opus.part", [1, 2, 3])
        let path = "\(folder.path)/2026-11-23/sess_1.user.opus.part"
        let descriptor = open(path, O_RDWR)
        try #require(flock(descriptor, LOCK_EX) == 0)
        try folder.recordings().shutdown()
        #expect(try folder.files().keys.sorted() == ["sess_1.user.opus.part"])
        close(descriptor)
        try folder.recordings().shutdown()
        #expect(try folder.files().isEmpty)
    }

    @Test func daysAreThoseOfUTC() {
        #expect(RecordingFolder.day(0) == "1970-01-01")
        #expect(RecordingFolder.day(1_795_478_399) == "2026-11-23")
        #expect(RecordingFolder.day(1_795_478_400) == "2026-11-24")
    }
}
