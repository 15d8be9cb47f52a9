// How well the transcript of an interrupted reply agrees with the words that were heard. Replies in
// the embedded voice are cut every 40 ms and compared with the synthesiser's own word times. Prints
// the figures of LoadTests/RESULTS.md:
//
//   swift test --filter WordAlignmentTests

import CFlite
import Glibc
import Testing

@testable import Agents
@testable import Codec
@testable import Session

@Suite struct WordAlignmentTests {
    /// Typical replies of a voice agent, without numbers or signs that are spoken in other words.
    private static let replies = [
        "Yes, of course. I have found a table for four people on Friday evening, close to the "
            + "window. Shall I book it for you?",
        "Your parcel left the warehouse this morning and is on its way. It should be with you "
            + "tomorrow before noon, unless the weather gets in the way.",
        "I am sorry to hear that. Let me see what I can do. The easiest way is to send the lamp "
            + "back to us, and we will send you a new one at once; you need not pay for anything.",
        "The library opens at nine and closes at six. On Sundays it stays closed.",
        "That depends on how you want to travel. By train it takes a little more than three "
            + "hours, with one change in the capital, while the bus needs most of the day but "
            + "costs only half as much and runs right to the harbour.",
        "Sure. First press the round button on the back until the light blinks. Then wait until "
            + "it turns green, open the settings on your telephone, and choose the new network.",
        "No, there is nothing to worry about: the payment went through.",
        "Once upon a time there was a miller who had three sons, a mill, a donkey and a cat. When "
            + "he died, the eldest took the mill, the second took the donkey, and the youngest "
            + "had to be content with the cat, which seemed to him a very poor inheritance.",
    ]

    /// A spoken reply: the ends of its clauses and of its words.
    private struct SpokenReply {
        let text: String
        var marks: [Conversation.SpokenMark] = []
        /// Milliseconds at which the words end and begin.
        var ends: [Double] = []
        var starts: [Double] = []

        /// The words in the transcript when the reply is cut at a time.
        func kept(at milliseconds: Int) -> Int {
            Conversation.heard(text, marks: marks, audioMilliseconds: milliseconds)
                .split(separator: " ").count
        }
    }

    /// Speaks a text clause by clause, as a response does.
    private func spoken(
        _ text: String, speed: Double, by voice: UnsafeMutablePointer<cst_voice>
    ) async throws -> SpokenReply {
        var reply = SpokenReply(text: text)
        var splitter = ClauseSplitter(.english)
        let clauses = splitter.append(text) + [splitter.finish()].compactMap { $0 }
        var bytes = 0
        var samples = 0
        for clause in clauses {
            let pieces = SpokenText.pieces(of: clause)
            let offset = Double(samples) / 16
            try #require(pieces.count == 1, "the words would be counted wrongly")
            addWords(of: pieces[0], at: offset, to: &reply, speed: speed, by: voice)
            samples += try await length(of: clause, speed: speed)
            bytes += clause.utf8.count
            reply.marks.append(
                Conversation.SpokenMark(
                    transcriptBytes: bytes, audioMilliseconds: samples / 16))
        }
        try #require(reply.ends.count == text.split(separator: " ").count)
        try #require(reply.ends == reply.ends.sorted())
        return reply
    }

    /// Samples at 16 kHz.
    private func length(of clause: String, speed: Double) async throws -> Int {
        let chunks = Collected<SpeechChunk>()
        try await FliteSynthesizer().speak(
            SpeechRequest(text: clause, voice: "marin", speed: speed), on: ScriptedAgentHost()
        ) { chunks.append($0) }
        return chunks.all.reduce(0) { $0 + $1.samples.count }
    }

    /// Adds the times of the words. flite's tokens are separated by spaces.
    private func addWords(
        of piece: String, at offset: Double, to reply: inout SpokenReply, speed: Double,
        by voice: UnsafeMutablePointer<cst_voice>
    ) {
        let stretch: StaticString = "duration_stretch"
        stretch.utf8Start.withMemoryRebound(to: CChar.self, capacity: 17) {
            feat_set(voice.pointee.features, $0, float_val(Float(1 / speed)))
        }
        guard let utterance = flite_synth_text(piece, voice) else { return }
        defer { delete_utterance(utterance) }
        var token = relation_head(utt_relation(utterance, "Token"))
        while let current = token {
            let end = flite_ffeature_float(
                current, "daughtern.R:SylStructure.daughtern.daughtern.R:Segment.end")
            let start = flite_ffeature_float(
                current, "daughter1.R:SylStructure.daughter1.daughter1.R:Segment.p.end")
            reply.ends.append(offset + 1_000 * Double(end))
            reply.starts.append(offset + 1_000 * Double(start))
            token = item_next(current)
        }
    }

    /// flite's own copy of the voice, which the synthesiser never uses to speak.
    private func registeredVoice() async throws -> UnsafeMutablePointer<cst_voice> {
        // The synthesiser registers the voice, so that two threads do not do so at the same time.
        await FliteSynthesizer().prepareVoice(on: ScriptedAgentHost())
        typealias Register =
            @convention(c) (UnsafePointer<CChar>?) -> UnsafeMutablePointer<cst_voice>?
        let library = try #require(dlopen("libflite_cmu_us_slt.so.1", RTLD_NOW | RTLD_LOCAL))
        let symbol = try #require(dlsym(library, "register_cmu_us_slt"))
        return try #require(unsafeBitCast(symbol, to: Register.self)(nil))
    }

    @Test func aCutTranscriptEndsWithTheLastWordHeard() async throws {
        let voice = try await registeredVoice()
        var errors: [Int] = []
        var unheard = 0
        for speed in [0.8, 1, 1.25] {
            for text in Self.replies {
                let reply = try await spoken(text, speed: speed, by: voice)
                let length = try #require(reply.marks.last).audioMilliseconds
                for milliseconds in stride(from: 0, through: length, by: 40) {
                    let heard = reply.ends.count { $0 <= Double(milliseconds) }
                    let begun = reply.starts.count { $0 < Double(milliseconds) }
                    let kept = reply.kept(at: milliseconds)
                    errors.append(kept - heard)
                    if kept > begun { unheard += 1 }
                }
            }
        }
        let distances = errors.map(abs).sorted()
        func percent(_ count: Int) -> Double {
            (1_000 * Double(count) / Double(errors.count)).rounded() / 10
        }
        let tooMany = percent(errors.count { $0 > 0 })
        print(
            "words of a cut transcript against those heard, \(errors.count) points: median",
            distances[distances.count / 2], "p95", distances[distances.count * 95 / 100], "max",
            distances.last ?? 0, "· too many at \(tooMany)%, with a word that had not begun at",
            "\(percent(unheard))% · too few at \(percent(errors.count { $0 < 0 }))%")
        #expect(distances[distances.count / 2] == 0)
        #expect(distances[distances.count * 95 / 100] <= 1)
        #expect((distances.last ?? .max) <= 3)
        #expect(tooMany <= 12 && percent(unheard) <= 2)
    }
}
