// The file of agents: what each field becomes, and what is said of one that is wrong.

import Codec
import Glibc
import Server
import Session
import Testing

@testable import parley

@Suite struct AgentFileTests {
    private func read(
        _ text: String, source: String = "agents.yaml", files: [String: String] = [:]
    ) throws -> [AgentProfile] {
        var file = AgentFile(source: source)
        file.readFile = { path throws(WholeFileError) in
            if path == "agents.yaml" || path == "conf/agents.yaml" { return text }
            guard let other = files[path] else { throw .system(errno: ENOENT) }
            return other
        }
        return try file.profiles()
    }

    private func parameters(of profile: AgentProfile) -> SessionParameters {
        var parameters = SessionParameters(model: "m")
        for update in profile.updates { parameters.apply(update) }
        return parameters
    }

    @Test func everyFieldCounts() throws {
        let text = """
            - name: desk
              instructions: |
                You answer the telephone.
                Be brief.
              model: fast
              voice: ash
              language: en
              turn-detection: semantic_vad
              noise-reduction: near_field
              tools:
                - calendar
                - {server: orders, allowed: [find, book]}
                - {type: function, name: hang_up, description: "Ends the call."}
              session: {max_output_tokens: 200, audio: {output: {speed: 1.25}}}
              greeting: "Good morning.|de: Guten Morgen."
              greeting-interruptible: false
              silence: {after-ms: 8000, say: "Still there?", times: 3, farewell: "Goodbye."}
              filler: {after-ms: 900, say: "One moment."}
              apology: "Sorry."
              not-understood: "Pardon?"
              after-call:
                instructions: Summarise.
                schema: {type: object, properties: {party: {type: integer, minimum: 1}}}
                model: careful
              numbers: ["+49 30 12345", "004930999"]
              recording: asked
              sessions: 3
              max-session-seconds: 600
              clients-may-change: [voice, instructions]
            - name: bare
            """
        let profiles = try read(text)
        #expect(profiles.map(\.name) == ["desk", "bare"])
        let desk = profiles[0]
        let parameters = parameters(of: desk)
        #expect(parameters.instructions == "You answer the telephone.\nBe brief.\n")
        #expect(desk.model == "fast" && parameters.voice == "ash" && parameters.speed == 1.25)
        #expect(parameters.transcription?.language == "en" && parameters.maxOutputTokens == 200)
        #expect(parameters.turnDetection?.mode == .semanticVAD(eagerness: .auto))
        #expect(parameters.noiseReduction == .nearField)
        #expect(parameters.tools.map(\.name) == ["hang_up"])
        #expect(parameters.mcpTools.map(\.serverLabel) == ["calendar", "orders"])
        #expect(desk.recording == .asked && desk.maxSessionSeconds == 600)
        let schema = #"{"type":"object","properties":{"party":{"type":"integer","minimum":1}}}"#
        #expect(
            desk.agent.afterCall
                == AfterCall(
                    instructions: "Summarise.", schema: RawJSON(schema), model: "careful"))
        #expect(profiles[1].agent.afterCall == nil)
        #expect(desk.maxSessions == 3 && profiles[1].maxSessions == nil)
        #expect(desk.agent.greeting.text(for: "de") == "Guten Morgen.")
        let all = AgentProfiles(profiles)
        #expect(all.name(answering: "+493012345") == "desk")
        #expect(all.name(answering: "4930999") == "desk" && all.name(answering: "+1") == nil)
        #expect(self.parameters(of: profiles[1]) == SessionParameters(model: "m"))
    }

    @Test func instructionsMayStandInAFileBesideIt() throws {
        let text = "- {name: a, instructions-file: a.md}"
        let profiles = try read(
            text, source: "conf/agents.yaml", files: ["conf/a.md": "You are A."])
        #expect(parameters(of: profiles[0]).instructions == "You are A.")
    }

    @Test func theListMayBeAMemberOfTheFile() throws {
        let text = "port: 8080\nagents:\n  - name: a\n  - name: b\n"
        #expect(try read(text).map(\.name) == ["a", "b"])
        #expect(try read(text, source: "agents.yaml#agents").map(\.name) == ["a", "b"])
        #expect(try read("# nothing yet\n").isEmpty)
    }

    @Test(arguments: [
        ("- {instructions: x}", "agent 1: needs a name"),
        ("- {name: a b}", "a b: needs a name"),
        ("- {name: a}\n- {name: a}", "the name a is given twice"),
        ("- {name: a, instruction: x}", "unknown name \"instruction\" in line 1; did you mean"),
        ("- {name: a, silence: {after: 3}}", "silence: unknown name \"after\""),
        ("- {name: a, silence: {after-ms: 3}}", "after-ms must be from 1000 to 3600000"),
        ("- {name: a, filler: {after-ms: 500}}", "filler needs say"),
        ("- {name: a, after-call: Summarise.}", "after-call must be a mapping"),
        ("- {name: a, after-call: {model: m}}", "after-call needs instructions"),
        ("- {name: a, after-call: {instructions: [x]}}", "instructions must be a text"),
        ("- {name: a, after-call: {instructons: x}}", "after-call: unknown name \"instructons\""),
        ("- {name: a, after-call: {instructions: x, schema: y}}", "schema must be a JSON schema"),
        (
            "- {name: a, after-call: {instructions: x, schema: {type: string}}}",
            "after-call: schema must be a JSON schema of type object"
        ),
        ("- {name: a, after-call: {instructions: x, model: {}}}", "model must be a text"),
        ("- {name: a, recording: yes}", "recording must be one of none, asked, all"),
        ("- {name: a, voice: [x]}", "voice must be a text"),
        ("- {name: a, greeting-interruptible: no}", "must be true or false"),
        ("- {name: a, clients-may-change: [everything]}", "clients-may-change takes instructions"),
        ("- {name: a, turn-detection: loud}", "session.audio.input.turn_detection.type:"),
        ("- {name: a, session: {speed: 1}}", "session"),
        ("- {name: a, tools: [{type: function}]}", "session.tools[0].name:"),
        ("- {name: a, tools: calendar}", "tools must be a list"),
        ("- {name: a, instructions: x, instructions-file: y}", "has both"),
        ("- {name: a, instructions-file: missing.md}", "instructions-file:"),
        ("- {name: a, apology: 'x|'}", "apology must be a text"),
        ("name: a", "must be a list of agents"),
        ("- a", "agent 1: must be a mapping"),
        ("- {name: a", "agents.yaml"),
    ])
    func aFaultIsOneLineThatNamesTheAgent(text: String, problem: String) throws {
        let error = try #require(throws: CommandFailure.self) { try read(text) }
        #expect(error.description.hasPrefix("agents: ") && error.description.contains(problem))
        #expect(!error.description.contains("\n"))
    }

    // MARK: The options

    @Test func theConfigurationFileMayHaveThemItself() throws {
        var loader = ServeConfigurationLoader()
        loader.readFile = { _ throws(WholeFileError) in
            "default-agent: desk\nagents:\n  - name: desk\n    instructions: Be brief.\n"
        }
        let invocation = try loader.load(arguments: ["--config", "p.yaml"], environment: [:])
        #expect(invocation.settings.agents.source == "p.yaml#agents")
        #expect(invocation.settings.agents.standard == "desk")
        let path = try loader.load(arguments: ["--agents", "x.yaml"], environment: [:])
        #expect(path.settings.agents.source == "x.yaml")
    }

    @Test func aDefaultAgentExists() throws {
        var options = AgentOptions()
        options.standard = "desk"
        let error = try #require(throws: CommandFailure.self) { try options.profiles(nil) }
        #expect(error.description.contains("default-agent"))
    }
}
