// A voice agent of one's own: the phone of a bicycle shop, with speech in and out, in one file.
// Copy it, and change `respond`. Run it here with `swift run -c release receptionist` and talk to
// it on http://127.0.0.1:8080/; examples/README.md shows the package that it needs elsewhere.

import Agents
import Foundation
import Logging
import Server
import Session

/// Answers what callers ask most. Any async Swift may stand in `respond`: a query, a model, a rule.
struct Receptionist: LanguageModel {
    let answers = [
        (topic: "open", text: "We are open from nine to six, Monday to Saturday."),
        (topic: "chain", text: "A new chain costs twenty-five euros, fitted while you wait."),
        (topic: "where", text: "You find us at Mill Lane twelve, behind the station."),
    ]

    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        guard case .user(let question)? = request.messages.last else { return }
        let answer = answers.first { question.lowercased().contains($0.topic) }
        try await reply(.text(answer?.text ?? "Let me fetch a mechanic. What is it about?"))
    }
}

let speechDetection = try Data(contentsOf: URL(filePath: "models/silero_vad.bin"))
let server = ParleyServer(
    configuration: ServerConfiguration(),
    agents: AgentSet(
        model: Receptionist(), recognizer: MoonshineRecognizer(modelsDirectory: "models"),
        synthesizer: FliteSynthesizer()),
    voiceActivityModel: try VoiceActivityModel(weights: [UInt8](speechDetection)),
    logger: Logger(label: "receptionist"))
try server.run()
