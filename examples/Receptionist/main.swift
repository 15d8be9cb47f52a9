// An example of a voice agent in one file: it answers the phone of a bicycle shop. Copy it and
// change `respond`. Run it with `swift run -c release receptionist` and talk to it at
// http://127.0.0.1:8080/. examples/README.md shows the Package.swift for a project of your own.

import Agents
import Foundation
import Logging
import Server
import Session

/// Answers frequent questions. `respond` may contain any async Swift: a query, a model, a rule.
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
