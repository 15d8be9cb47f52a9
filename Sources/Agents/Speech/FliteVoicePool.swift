// The idle copies of flite's voices. FliteVoice is one copy, which one thread at a time may use.

import Session
import Synchronization

/// The voices of the process that no thread uses.
enum FliteVoicePool {
    /// The idle voices, by speaker. The process has as many as have spoken at the same time, at
    /// most one for each thread of the worker pool. Each takes a few kilobytes.
    private static let idle = Mutex<[[VoiceReference]]>(
        Array(repeating: [], count: FliteSpeaker.allCases.count))

    /// Lends a voice to the calling thread.
    /// - Throws: `AgentError.unavailable` where flite is not installed.
    static func withVoice<Result>(
        of speaker: FliteSpeaker, _ body: (FliteVoice) -> Result
    ) throws(AgentError) -> Result {
        let free = idle.withLock { $0[speaker.rawValue].popLast() }
        guard let voice = free?.voice ?? FliteVoice(speaker) else {
            throw .unavailable(
                message: "Speech synthesis is not installed: install the package flite1-dev.")
        }
        defer { idle.withLock { $0[speaker.rawValue].append(VoiceReference(voice: voice)) } }
        return body(voice)
    }
}

/// Carries a voice between threads. The pool gives it to one thread at a time.
private struct VoiceReference: @unchecked Sendable {
    let voice: FliteVoice
}
