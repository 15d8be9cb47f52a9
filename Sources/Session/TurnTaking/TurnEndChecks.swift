// When a turn model is asked about a silence. SpeechInput asks; TurnDetector uses the answers.
//
// Invariant: one question is in flight at most.

import Codec

/// The questions about the silences of a turn.
struct TurnEndChecks {
    /// Silences after which the model is asked: 200, 400 and 700 ms at 16 kHz. More questions make no
    /// better turns (LoadTests/results/turns.md).
    static let silences = [3_200, 6_400, 11_200]

    /// The silence that is being judged, by the end of the speech before it.
    private var speechEnd = -1
    /// Questions about it so far.
    private var asked = 0
    /// The silence that the question in flight is about.
    private var inFlight: Int?

    /// Whether the model is to be asked now.
    /// - Parameters:
    ///   - speechEnd: where on the audio timeline speech was last heard.
    ///   - end: how far the audio has been searched for speech.
    func isDue(speechEnd: Int, end: Int) -> Bool {
        let before = speechEnd == self.speechEnd ? asked : 0
        return inFlight == nil && before < Self.silences.count
            && end - speechEnd >= Self.silences[before]
    }

    /// Notes that it is being asked.
    mutating func handleAsked(speechEnd: Int, end: Int) {
        self.speechEnd = speechEnd
        // A question that was late stands for those before it.
        asked = Self.silences.count { end - speechEnd >= $0 }
        inFlight = speechEnd
    }

    /// The answer has come.
    /// - Returns: whether it is about the silence after the newest speech.
    mutating func handleAnswer(speechEnd: Int?) -> Bool {
        let answered = inFlight.take()
        return answered != nil && answered == speechEnd
    }
}
