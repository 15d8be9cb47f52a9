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
    final class Folder {
        let path: String

        init() {
            path = FileManager.default.temporaryDirectory.path + "/parley-\(UUID().uuidString)"
        }

        deinit { try? FileManager.default.removeItem(atPath: path) }

        func recordings(
            maxBytes: Int = 0, maxQueuedBytes: Int = 1 << 20, threads: Int = 1, days: Int = 0,
            upload: RecordingUpload? = nil
        ) throws -> RecordingArchive {
            var settings = RecordingSettings(folder: path)
            settings.maxBytes = maxBytes
            settings.maxQueuedBytes = maxQueuedBytes
            settings.threads = threads
            settings.days = days
            settings.upload = upload
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
        func leave(_ name: String, _ content: [UInt8], in day: String = "2026-11-23") throws {
            try FileManager.default.createDirectory(
                atPath: "\(path)/\(day)", withIntermediateDirectories: true)
            try Data(content).write(to: URL(filePath: "\(path)/\(day)/\(name)"))
        }

        /// What lies in it, folders included.
        var places: Set<String> {
            Set((try? FileManager.default.subpathsOfDirectory(atPath: path)) ?? [])
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
        at milliseconds: Int, _ sequel: RecordingChunk.Sequel = .more, of id: String = "sess_1",
        isContinued: Bool = false
    ) -> RecordingChunk {
        RecordingChunk(
            sessionID: id, isContinued: isContinued, startedAt: .milliseconds(0),
            takenAt: .milliseconds(milliseconds), user: user, agent: agent, sequel: sequel)
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

    @Test func aSessionThatGoesOnHasAnotherName() throws {
        let folder = Folder()
        let recordings = try folder.recordings()
        recordings.keep(Self.chunk(Self.opus(from: 0), at: 1_000, .end))
        recordings.keep(Self.chunk(Self.opus(from: 0), at: 1_000, .end, isContinued: true))
        recordings.shutdown()
        let first = try RecordedSession("sess_1", in: folder.path)
        #expect(first.user.hasSuffix("/sess_1.user.opus") && first.others.count == 1)
        // The time of the day at which it went on.
        let name = try #require(first.others.first)
        #expect(name.wholeMatch(of: /sess_1-[0-9]{6}/) != nil)
        #expect(try RecordedSession(name, in: folder.path).agent.hasSuffix("\(name).agent.opus"))
        #expect(throws: RecordedSessionError.missing(others: [])) {
            try RecordedSession("sess_2", in: folder.path)
        }
        // Where the first one was sent elsewhere, its name is not given again.
        let other = Folder()
        let later = try other.recordings()
        later.keep(Self.chunk(Self.opus(from: 0), at: 1_000, .end, isContinued: true))
        later.shutdown()
        #expect(try other.files()["sess_1.user.opus"] == nil)
        #expect(throws: RecordedSessionError.self) { try RecordedSession("sess_1", in: other.path) }
    }

    @Test func aConsentThatIsWithdrawnRemovesTheEarlierPartsToo() throws {
        let folder = Folder()
        let recordings = try folder.recordings()
        recordings.keep(Self.chunk(Self.opus(from: 0), at: 1_000, .end))
        recordings.keep(Self.chunk(Self.opus(from: 0), at: 1_000, .end, of: "sess_10"))
        recordings.keep(Self.chunk(Self.opus(from: 0), at: 1_000, isContinued: true))
        recordings.keep(Self.chunk(at: 2_000, .discard, isContinued: true))
        recordings.shutdown()
        #expect(
            try folder.files().keys.sorted() == ["sess_10.agent.opus", "sess_10.user.opus"])
        #expect(recordings.counts.open == 0)
        #expect(
            recordings.counts.folderBytes == (try folder.files()).values.reduce(0) { $0 + $1.count }
        )
    }

    /// What was uploaded before a restart waits to be deleted where it is.
    @Test func aConsentThatIsWithdrawnReachesWhatWasUploaded() throws {
        let folder = Folder()
        let list = "\nsess_1.user\nsess_1-184512.agent\nsess_10.user"
        try folder.leave("uploaded", Array(list.utf8))
        let recordings = try folder.recordings()
        recordings.keep(Self.chunk(Self.opus(from: 0), at: 1_000, isContinued: true))
        recordings.keep(Self.chunk(at: 2_000, .discard, isContinued: true))
        recordings.shutdown()
        #expect(
            folder.places.filter { $0.hasPrefix("erase/") }.sorted() == [
                "erase/2026-11-23.sess_1-184512.agent", "erase/2026-11-23.sess_1.user",
            ])
    }

    // MARK: Limits

    @Test func allThreadsShareTheRoomForWhatWaits() {
        let queued = QueuedBytes(limit: 100)
        #expect(queued.take(60) && !queued.take(41) && queued.take(40))
        queued.give(60)
        #expect(!queued.take(61) && queued.take(60))
    }

    @Test func oneSessionMayUseTheRoomOfAllThreads() throws {
        let folder = Folder()
        // A sixteenth would not do for a second of PCM.
        let recordings = try folder.recordings(maxQueuedBytes: 200_000, threads: 16)
        recordings.keep(Self.chunk(Self.tone(from: 0, lasting: 1_000), at: 1_000, .end))
        recordings.shutdown()
        #expect(recordings.counts.droppedBytes == 0)
    }

    /// Silence of hours is written bit by bit, and the audio behind it is in its place.
    @Test func aLongSilenceIsFilled() throws {
        let folder = Folder()
        let recordings = try folder.recordings()
        let hours = 3 * 3_600_000
        recordings.keep(Self.chunk(Self.opus(from: 0), at: 1_000))
        recordings.keep(Self.chunk(Self.opus(from: hours), at: hours + 1_000, .end))
        recordings.shutdown()
        let packets = try Self.packets(folder.files()["sess_1.user.opus"])
        var position = 0
        var places: [Int] = []
        for packet in packets {
            if packet.bytes[0] == 0x48 { places.append(position / 48) }
            position += packet.samples
        }
        #expect(places == (0..<50).map { 20 * $0 } + (0..<50).map { hours + 20 * $0 })
        #expect(try Self.played(folder.files()["sess_1.agent.opus"]) == (hours + 1_000) * 48)
    }

    /// Samples that wait for the rest of their frame when a write fails have lost their place.
    @Test func audioAfterAWriteThatFailedIsInItsPlace() throws {
        let folder = Folder()
        let place = try RecordingFolder(folder.path, maxBytes: 1 << 20)
        let base = try #require(place.beginRecording(of: "sess_1", at: 0, isContinued: false))
        let file = try #require(
            TrackFile(
                at: base + ".user.opus", in: place,
                RecordedTrack(start: .milliseconds(0), jitter: .zero), comments: []))
        // Messages of 2,048 samples: 85.3 ms, of which no few are whole frames of 20 ms.
        var samples = 0
        func append(isLoud: Bool) {
            var audio = RecordedAudio()
            for _ in 0..<3 {
                let message = (samples..<samples + 2_048).map { index -> Int16 in
                    let tone = 8_000 * sin(2 * Double.pi * 400 * Double(index) / 24_000)
                    return isLoud ? Int16(tone) : 0
                }
                samples += 2_048
                message.withUnsafeBytes {
                    audio.append(
                        $0.bytes, format: .pcm,
                        end: .milliseconds(0) + .nanoseconds(samples * 1_000_000 / 24))
                }
            }
            file.append(audio, at: .milliseconds(0) + .nanoseconds(samples * 1_000_000 / 24))
        }
        append(isLoud: true)
        place.note(1 << 20)
        append(isLoud: true)
        #expect(file.takeTally().dropped == 3 * 4_096)
        place.note(-(1 << 20))
        append(isLoud: false)
        append(isLoud: true)
        #expect(file.finish(playing: 2 * samples))
        let loud = try Self.loud(folder.files()["sess_1.user.opus"])
        let first = loud.filter { $0 < 500 }
        let last = loud.filter { $0 >= 500 }
        #expect(first.first == 0 && abs((first.last ?? 0) - 236) <= 20, "\(loud)")
        #expect(abs((last.first ?? 0) - 768) <= 20, "\(loud)")
        #expect(abs((last.last ?? 0) - 1_004) <= 20, "\(loud)")
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

    // MARK: What is removed

    /// Another program's files, beside and between the folder's own.
    private static let foreign = [
        ("2020-01-01", "notes.txt"), ("2020-01-01", "song.opus"),
        ("2020-01-01", "a song.user.opus"), ("2020-01-01", "sess_1.guest.opus"),
        ("2020-01-01", "sess_1.user.opus.bak"), ("music", "sess_1.user.opus"),
        ("2020-1-01", "sess_1.user.opus"), ("2020-01-01x", "sess_1.user.opus"),
    ]

    @Test func oldRecordingsAreRemovedAndNothingElse() throws {
        let folder = Folder()
        for (day, name) in Self.foreign { try folder.leave(name, [1], in: day) }
        for day in ["2020-01-01", "2020-01-02"] {
            try folder.leave("sess_1.user.opus", [1, 2, 3], in: day)
            try folder.leave("sess_1-184512.agent.opus", [1, 2, 3], in: day)
        }
        try FileManager.default.createDirectory(
            atPath: "\(folder.path)/2020-01-03", withIntermediateDirectories: true)
        let now = Int(Date().timeIntervalSince1970)
        let kept = [0, 29, 30].map { RecordingFolder.day(now - $0 * 86_400) }
        for day in kept { try folder.leave("sess_1.user.opus", [1, 2, 3], in: day) }
        let gone = RecordingFolder.day(now - 32 * 86_400)
        try folder.leave("sess_1.user.opus", [1, 2, 3], in: gone)
        // The lists go with the files of their day, notes of deletions stay.
        for day in [kept[2], gone] { try folder.leave("uploaded", [10], in: day) }
        try folder.leave("2020-01-01.sess_1.user", [], in: "erase")
        let recordings = try folder.recordings(days: 30)
        recordings.shutdown()
        var expected = Set(Self.foreign.flatMap { [$0.0, "\($0.0)/\($0.1)"] })
        for day in kept { expected.formUnion([day, "\(day)/sess_1.user.opus"]) }
        expected.formUnion(["\(kept[2])/uploaded", "erase", "erase/2020-01-01.sess_1.user"])
        #expect(folder.places == expected)
        #expect(recordings.counts.folderBytes == 9)
    }

    @Test func withoutANumberOfDaysNothingIsRemoved() throws {
        let folder = Folder()
        try folder.leave("sess_1.user.opus", [1, 2, 3], in: "2020-01-01")
        try folder.recordings().shutdown()
        #expect(folder.places == ["2020-01-01", "2020-01-01/sess_1.user.opus"])
    }

    @Test func filesOfOthersAreNotUploaded() throws {
        let folder = Folder()
        for (day, name) in Self.foreign { try folder.leave(name, [1], in: day) }
        let upload = try #require(
            RecordingUpload(
                url: "http://127.0.0.1:1/", key: nil, region: "", authorities: nil))
        let recordings = try folder.recordings(upload: upload)
        #expect(recordings.counts.pendingUploads == 0)
        recordings.shutdown()
        #expect(folder.places.count == 12)
    }

    @Test(
        arguments: [
            ("https://s3.example.com/calls", "https://s3.example.com/calls/"),
            ("https://s3.example.com", "https://s3.example.com/"),
            ("http://[::1]:9000/a/", "http://[::1]:9000/a/"),
            ("https://h/a b=c@d+e%2b%7e~/(ä)", "https://h/a%20b%3Dc%40d%2Be%2B~~/%28%C3%A4%29/"),
            ("https://h/a?x=1", nil), ("https://h/a#x", nil), ("s3", nil), ("https://h/%ff", nil),
        ] as [(String, String?)])
    func aPathIsSentAsItIsSigned(url: String, sent: String?) {
        #expect(
            RecordingUpload(url: url, key: nil, region: "", authorities: nil)?.url == sent)
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

    @Test func aFileThatHasNoBeginningIsNotRemoved() throws {
        let folder = Folder()
        // The first block was not written before the power failed.
        try folder.leave(
            "sess_1.user.opus.part", [UInt8](repeating: 0, count: 4_096) + [1, 2, 3])
        try folder.recordings().shutdown()
        #expect(try folder.files().mapValues(\.count) == ["sess_1.user.opus.part": 4_099])
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
