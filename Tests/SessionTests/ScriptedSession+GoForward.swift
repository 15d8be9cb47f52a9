// What the scripts of "go forward ten meters" have in common: the words that are known when, and a
// look at the transcript.

extension ScriptedSession {
    /// The words in the first milliseconds of the recording's item.
    static func goForward(_ milliseconds: Int) -> String {
        switch milliseconds {
        case ..<700: "go"
        case ..<1_200: "go forward"
        case ..<1_800: "go forward ten"
        default: "go forward ten meters"
        }
    }

    /// The lines of the transcript that tell of an event.
    func lines(_ type: String) -> [String] { transcript.filter { $0.contains(" \(type)") } }
}
