// The stereo mix of a recording's two files: each side in its channel, at its time.

import Codec
import Foundation
import Testing

@testable import parley

@Suite struct StereoMixTests {
    private let folder = FileManager.default.temporaryDirectory.path + "/mix-\(UUID().uuidString)"

    init() throws {
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true)
    }

    /// Writes a file with a tone of 400 ms at a time, both in milliseconds.
    private func side(_ name: String, toneAt start: Int, lasting length: Int) throws -> String {
        var encoder = try OpusEncoder(rate: .hz24000)
        var writer = OggOpusWriter(serial: 1)
        var stream: [UInt8] = []
        writer.begin(comments: [], into: &stream)
        writer.appendSilence(samples: start * 48, into: &stream)
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 1_276, alignment: 1)
        defer { room.deallocate() }
        for frame in 0..<20 {
            let samples = (0..<480).map {
                Int16(9_000 * sin(Double(frame * 480 + $0) * 2 * .pi * 300 / 24_000))
            }
            let count = try samples.withUnsafeBufferPointer { try encoder.encode($0, into: room) }
            let packet = [UInt8](room[..<count])
            try writer.append(packet.span.bytes, into: &stream)
        }
        writer.finish(playing: length * 48, into: &stream)
        let path = "\(folder)/\(name).opus"
        try Data(stream).write(to: URL(filePath: path))
        return path
    }

    /// The first and the last 20 ms of a channel in which something is heard, in milliseconds.
    private func loud(_ file: WAVFile, channel: Int) throws -> (first: Int, last: Int) {
        let frames = file.samples.count / 2
        let places = stride(from: 0, to: frames - 479, by: 480).filter { start in
            (start..<start + 480).contains { abs(Int(file.samples[2 * $0 + channel])) > 2_000 }
        }
        return (try #require(places.first) / 24, try #require(places.last) / 24)
    }

    @Test func theUserIsOnTheLeftAndTheAgentOnTheRight() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let user = try side("user", toneAt: 200, lasting: 3_000)
        let agent = try side("agent", toneAt: 1_600, lasting: 2_500)
        let out = "\(folder)/both.wav"
        #expect(try StereoMix.write(user: user, agent: agent, to: out) == 3)
        let content = try #require(FileManager.default.contents(atPath: out))
        let file = try WAVFile(parsing: Array(content))
        #expect(file.channels == 2 && file.rate == .hz24000)
        // The shorter side is filled up.
        #expect(file.samples.count == 2 * 3_000 * 24)
        let (left, right) = (try loud(file, channel: 0), try loud(file, channel: 1))
        #expect(abs(left.first - 200) <= 20 && abs(left.last - 580) <= 40, "\(left)")
        #expect(abs(right.first - 1_600) <= 20 && abs(right.last - 1_980) <= 40, "\(right)")
    }

    @Test func aFileThatIsNoRecordingLeavesNothingBehind() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let user = try side("user", toneAt: 0, lasting: 500)
        let broken = "\(folder)/broken.opus"
        try Data("no sound".utf8).write(to: URL(filePath: broken))
        let out = "\(folder)/both.wav"
        #expect(throws: CommandFailure.self) {
            try StereoMix.write(user: user, agent: broken, to: out)
        }
        #expect(throws: CommandFailure.self) {
            try StereoMix.write(user: user, agent: "\(folder)/none.opus", to: out)
        }
        #expect(!FileManager.default.fileExists(atPath: out))
    }
}
