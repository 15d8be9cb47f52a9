// What the command line says before a subcommand begins its work: the version, and mistakes.

import Codec
import Foundation
import TestMaterial
import Testing

@testable import parley

@Suite struct ParleyCommandTests {
    @Test func theVersionIsTheNewestOfTheChangelog() throws {
        let heading = try GoldenFile("CHANGELOG.md").text().split(separator: "\n")
            .first { $0.hasPrefix("## ") }
        #expect(heading?.dropFirst(3).lowercased() == ParleyCommand.version)
        #expect(ParleyCommand.configuration.version == "parley \(ParleyCommand.version)")
    }

    @Test func aWrongSubcommandIsToldTheRightOnes() throws {
        let problem = try #require(ParleyCommand.problem(ofSubcommand: "serv"))
        #expect(
            problem == "there is no subcommand \"serv\"; did you mean serve? It must be one of "
                + "serve, check, talk, call, top, sessions, asyncapi, openapi, help")
        #expect(ParleyCommand.problem(ofSubcommand: "x-y-z")?.contains("; it must be") == true)
        for name in ["serve", "help", "--version", "-h"] {
            #expect(ParleyCommand.problem(ofSubcommand: name) == nil)
        }
        #expect(ParleyCommand.problem(ofSubcommand: nil) == nil)
    }

    @Test func aRefusedKeyIsToldItsOption() {
        #expect(RealtimeClient.advice(status: 401, hasKey: false).contains("give --key"))
        #expect(RealtimeClient.advice(status: 401, hasKey: true).contains("check the key"))
        #expect(RealtimeClient.advice(status: 403, hasKey: false).isEmpty)
    }

    @Test func aFileThatIsNoRecordingIsNamed() {
        let path = GoldenFile("CHANGELOG.md").url.path
        #expect(throws: CommandFailure(description: "\(path) cannot be used: it is no WAV file")) {
            try Recording(path: path, format: .opus)
        }
    }

    @Test func aMissingFileOfRecordsIsNamed() throws {
        let place = try RecordPlaceOptions.parse(["--records", "/no/such.db"])
        let failure = #expect(throws: CommandFailure.self) { try place.open() }
        #expect(failure?.description.hasPrefix("/no/such.db cannot be read: ") == true)
    }
}
