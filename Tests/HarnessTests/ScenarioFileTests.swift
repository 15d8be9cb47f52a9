// Scenario files: reading them, and the messages for invalid ones.

import Foundation
import Testing

@testable import parley_load

@Suite struct ScenarioFileTests {
    private func problem(_ text: String) -> String {
        do throws(LoadFailure) {
            _ = try ScenarioFile.parse(text, file: "f.yaml")
            return ""
        } catch {
            return error.reason
        }
    }

    @Test func aFileSetsItsFieldsAndNoOthers() throws {
        let scenario = try ScenarioFile.parse(
            """
            # A comment.
            scenario: chat
            name: evening
            sessions: 10000
            chatting: 1000
            first-token: 400 ms
            duration: 2 min
            token-rate: 20 /s
            """, file: "f.yaml")
        var expected = Scenario(.chat)
        (expected.name, expected.sessions, expected.chatting) = ("evening", 10_000, 1_000)
        (expected.firstToken, expected.seconds, expected.tokenRate) = (0.4, 120, 20)
        #expect(scenario == expected)
    }

    @Test func jsonIsReadAsWell() throws {
        let scenario = try ScenarioFile.parse(
            #"{"scenario": "echo", "sessions": 5, "message-size": "2 KiB"}"#, file: "f.json")
        #expect((scenario.kind, scenario.sessions, scenario.messageBytes) == (.echo, 5, 2_048))
    }

    @Test func everyErrorNamesTheLineAndTheAllowedValues() {
        #expect(
            problem("scenario: chat\nsesions: 5")
                == "f.yaml:2: there is no field \"sesions\"; did you mean \"sessions\"?")
        #expect(
            problem("scenario: chats")
                == "f.yaml:1: there is no scenario \"chats\"; did you mean \"chat\"?")
        #expect(
            problem("scenario: chat\n\nduration: 30")
                == "f.yaml:3: duration: \"30\" – it needs a number and a unit: ms, s or min, as "
                + "\"30 s\"")
        #expect(
            problem("scenario: chat\nduration: 30 B").hasPrefix("f.yaml:2: duration: \"30 B\" –"))
        #expect(
            problem("scenario: idle\nsessions: 0")
                == "f.yaml:2: sessions: \"0\" is out of range: 1 … 1,000,000")
        #expect(
            problem("scenario: idle\nsessions: 1.5")
                == "f.yaml:2: sessions: \"1.5\" – it is a whole number")
        #expect(problem("scenario: voice\nreplies: maybe").hasSuffix("it is true or false"))
        #expect(
            problem("scenario: voice\nsessions: [1]") == "f.yaml:2: sessions takes a single value")
        #expect(problem("sessions: 5").hasPrefix("f.yaml: \"scenario\" is missing"))
        #expect(problem("- a\n- b").hasPrefix("f.yaml: the file must hold fields"))
        #expect(problem("a: [").hasPrefix("f.yaml:2: not YAML: "))
    }

    @Test func theProvidedScenariosAreValid() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let folder = root.appendingPathComponent(ScenarioFile.folder)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        #expect(names.count >= 7)
        for name in names {
            let text = try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)
            #expect(problem(text) == "", "\(name)")
        }
    }

    @Test func sharesMustAddUp() {
        #expect(
            problem("scenario: mixed\nsessions: 10\nspeaking: 8\nchatting: 8")
                == "f.yaml: sessions is 10, but 16 of them speak, chat or do not read")
        #expect(problem("scenario: slow-readers\nslow: 0").contains("needs slow"))
        #expect(problem("scenario: chat\nramp: 2 s").contains("with a ramp"))
    }

    @Test func everyFieldReadsBackWhatItWrites() throws {
        for kind in Scenario.Kind.allCases {
            let scenario = Scenario(kind)
            for field in ScenarioField.all where field.name != "path" {
                var copy = scenario
                let text = field.written(in: scenario).replacing(",", with: "")
                do throws(LoadFailure) { try field.set(text, in: &copy) } catch {
                    Issue.record("\(kind.rawValue), \(field.name): \(error.reason)")
                }
                #expect(copy == scenario)
            }
        }
    }

    @Test func sessionsAreDividedAmongTheRoles() {
        var mixed = Scenario(.mixed)
        (mixed.sessions, mixed.speaking, mixed.chatting) = (100, 10, 20)
        #expect(mixed.roles == Scenario.Roles(slow: 0, speaking: 10, chatting: 20))
        #expect(Scenario(.chat).roles.chatting == Scenario(.chat).sessions)
        #expect(Scenario(.idle).roles == Scenario.Roles(slow: 0, speaking: 0, chatting: 0))
        #expect(Scenario(.slowReaders).roles.slow == 50)
    }
}
