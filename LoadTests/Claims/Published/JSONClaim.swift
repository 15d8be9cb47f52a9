// The claim about JSON: each language's parser reads a payload of 1 MB, once without and once with
// visiting every value. The second figure is the fairer comparison, because Parley's parser makes a
// string only when it is read.

import ArgumentParser
import Codec
import Foundation

extension Claim {
    /// Parsing of 1 MB.
    static func json(_ size: ClaimSize) -> Claim {
        let contenders = [
            Contender(stack: .parley), Contender(stack: .node),
            Contender(stack: .fastapi, variant: "json"),
            Contender(stack: .fastapi, variant: "orjson"),
        ]
        return Claim(
            name: "json", title: "JSON: parsing 1 MB",
            published: [
                PublishedClaim(
                    text: "Node 9 ms, Python 14 ms", source: .tables,
                    conditions: [
                        .ratio(
                            contenders[1], to: contenders[2], measure: "parse",
                            in: .about(9.0 / 14))
                    ])
            ],
            measures: [
                Measure(word: "parse", title: "parse", unit: "ms", places: 2),
                Measure(word: "visit", title: "parse and visit every value", unit: "ms", places: 2),
            ],
            contenders: contenders, rounds: size.rounds,
            seconds: 0.7 + Double(size.parses) / 40,
            remarks: """
                1,048,576 bytes: an array of records with numbers, strings, lists and a nested \
                object. `JSON.parse` of a text, Python's `json` and orjson of bytes, Parley's \
                parser (simdjson) with its checks, and with its limit of 65,536 values raised \
                16-fold: a server would refuse this document by default. The median of \
                \(size.parses) parses a round, once warm. The verdict is on the ratio of `JSON.parse` \
                to `json`.
                """
        ) { (bench, contender) throws(LoadFailure) in
            let path = FileManager.default.temporaryDirectory
                .appendingPathComponent("parley-claim-\(getpid()).json").path
            guard FileManager.default.createFile(atPath: path, contents: JSONPayload.make(1 << 20))
            else { throw LoadFailure("cannot write \(path)") }
            defer { try? FileManager.default.removeItem(atPath: path) }
            let arguments = [path, "\(size.parses)"]
            let (tools, peers) = ("\(bench.paths.environment)/bin", bench.paths.peers)
            let command =
                switch contender.stack {
                case .parley: [bench.executable, "parse-json"] + arguments
                case .node: ["\(tools)/node", "\(peers)/parse_json.cjs"] + arguments
                default:
                    ["\(tools)/python", "\(peers)/parse_json.py"] + arguments
                        + [contender.variant ?? "json"]
                }
            let line = try bench.output(of: command, name: "the parser").last ?? ""
            let values = line.split(separator: " ").compactMap { Double($0) }
            guard values.count == 2 else {
                throw LoadFailure("two times were awaited of the parser, which printed: \(line)")
            }
            return ["parse": values[0], "visit": values[1]]
        }
    }
}

/// The document that is parsed.
enum JSONPayload {
    /// An array of records like those of an API, filled up with white space to exactly `bytes`.
    static func make(_ bytes: Int) -> Data {
        var text = "["
        var index = 0
        while true {
            let record =
                "{\"id\":\(index),\"name\":\"item \(index) of all\",\"price\":\(index % 977).25,"
                + "\"active\":\(index.isMultiple(of: 3)),\"tags\":[\"alpha\",\"beta \\u00e9\"],"
                + "\"owner\":{\"email\":\"user\(index)@example.com\",\"visits\":\(index &* 7)}}"
            guard text.utf8.count + record.utf8.count + 2 <= bytes else { break }
            text += (index > 0 ? "," : "") + record
            index += 1
        }
        return Data((text + "]").utf8) + Data(repeating: 0x20, count: bytes - text.utf8.count - 1)
    }
}

/// `parley-load parse-json`: started by the claim about JSON.
struct ParseJSONCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "parse-json",
        abstract: "Time Parley's JSON parser on a file: milliseconds to parse, and to visit.",
        shouldDisplay: false)

    @Argument(help: "The file.") var path: String
    @Argument(help: "How often.") var count: Int

    func run() throws {
        let bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
        // The default limit of values would refuse this document.
        var limits = JSONLimits()
        limits.maxValues = 1 << 20
        let parser = JSONParser(limits: limits)
        var checksum = 0.0
        func median(_ work: (JSONValue) -> Void) throws -> Double {
            var times: [Double] = []
            for round in 0..<count + 5 {
                let begin = monotonicNanoseconds()
                work(try parser.parse(bytes))
                if round >= 5 { times.append(Double(monotonicNanoseconds() - begin) / 1e6) }
            }
            return Spread(times).median
        }
        let parse = try median { _ in }
        let visit = try median { checksum += Self.visit($0) }
        guard checksum > 0 else { throw LoadFailure("the document is empty") }
        print(decimal(parse, 4), decimal(visit, 4))
    }

    /// The sum of all numbers and of all strings' lengths. No string is copied for it.
    private static func visit(_ value: JSONValue) -> Double {
        if let elements = value.elements { return elements.reduce(0) { $0 + visit($1) } }
        if let members = value.members { return members.reduce(0) { $0 + visit($1.value) } }
        if let text = value.utf8 { return Double(text.count) }
        return value.double ?? 0
    }
}
