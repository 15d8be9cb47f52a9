// Verdicts on claims, from made-up figures, and the course of a run: its budget, its search for the
// largest load, its inputs, and what it says of a failure.

import Codec
import Foundation
import Testing

@testable import parley_load

@Suite struct ClaimRuleTests {
    private static let rate = Measure(
        word: "rate", title: "rate", unit: "/s", places: 0, isGain: true)
    private static let delay = Measure(word: "delay", title: "delay", unit: "ms")
    private static let node = Contender(stack: .node)
    private static let fastapi = Contender(stack: .fastapi)
    private static let parley = Contender(stack: .parley)

    private func outcome(
        _ figures: [(Contender, [Double])], _ measure: Measure = ClaimRuleTests.rate,
        _ published: [PublishedClaim] = []
    ) -> ClaimOutcome {
        var outcome = ClaimOutcome(
            name: "made-up", title: "Made up", published: published, remarks: "Remarks.",
            command: "parley-load claims --only made-up")
        outcome.cells = figures.map {
            ClaimOutcome.Cell(contender: $0.0, measure: measure, values: $0.1)
        }
        return outcome
    }

    private func claim(_ conditions: ClaimCondition...) -> PublishedClaim {
        PublishedClaim(text: "as published", source: .tables, conditions: conditions)
    }

    @Test(
        "A ratio is judged over all pairs of rounds",
        arguments: [
            ([20, 21, 22], [10, 10, 10], ClaimVerdict.reproduced),
            ([40, 41, 42], [10, 10, 10], .notReproduced),
            ([10, 11, 12], [10, 10, 10], .notReproduced),
            // 19 ÷ 10 and 25 ÷ 9: one pair is outside.
            ([19, 21, 25], [10, 10, 9], .cannotBeShown),
            ([20, 21], [10, 10], .cannotBeShown),
            ([20, 21, 22], [], .cannotBeShown),
        ] as [([Double], [Double], ClaimVerdict)])
    func ratios(node: [Double], fastapi: [Double], expected: ClaimVerdict) {
        let outcome = outcome([(Self.node, node), (Self.fastapi, fastapi)])
        let claim = claim(
            .ratio(
                Self.node, to: Self.fastapi, measure: "rate", in: ClaimBounds(least: 2, most: 3)))
        #expect(outcome.finding(on: claim).verdict == expected)
    }

    @Test(
        "A figure is judged in every round, and not where the machine ends",
        arguments: [
            ([10_000, 10_000, 10_000], 19_000, ClaimVerdict.reproduced),
            ([9_500, 9_500, 9_500], 9_500, .cannotBeShown),
            ([4_000, 4_000, 4_000], 9_500, .notReproduced),
            ([4_000, 9_500, 9_500], 9_500, .notReproduced),
            ([4_000, 10_000, 10_000], 19_000, .cannotBeShown),
        ] as [([Double], Double, ClaimVerdict)])
    func figures(values: [Double], ceiling: Double, expected: ClaimVerdict) {
        let claim = claim(
            .figure(
                Self.node, measure: "rate", in: ClaimBounds(least: 10_000), ceiling: ceiling))
        #expect(outcome([(Self.node, values)]).finding(on: claim).verdict == expected)
    }

    @Test(
        "Where spreads overlap, neither stack is better",
        arguments: [
            ([30, 31, 32], [10, 20, 29], ClaimVerdict.notReproduced, ClaimVerdict.reproduced),
            ([30, 31, 32], [10, 20, 30], .cannotBeShown, .cannotBeShown),
            ([10, 20, 29], [30, 31, 32], .reproduced, .notReproduced),
            ([10, 10, 10], [10, 10, 10], .cannotBeShown, .cannotBeShown),
            ([30], [10], .cannotBeShown, .cannotBeShown),
        ] as [([Double], [Double], ClaimVerdict, ClaimVerdict)])
    func leads(parley: [Double], node: [Double], asCost: ClaimVerdict, asGain: ClaimVerdict) {
        let figures = [(Self.parley, parley), (Self.node, node), (Self.fastapi, [])]
        for (measure, expected) in [(Self.delay, asCost), (Self.rate, asGain)] {
            let finding = outcome(figures, measure).finding(
                on: claim(.leads(Self.parley, measure: measure.word)))
            #expect(finding.verdict == expected, "\(finding.detail)")
        }
    }

    @Test func oneConditionThatFailsDecides() {
        let figures = [(Self.node, [1.0, 1, 1]), (Self.fastapi, [5.0, 5, 5])]
        let holds = ClaimCondition.figure(
            Self.node, measure: "delay", in: ClaimBounds(most: 2))
        let fails = ClaimCondition.figure(
            Self.fastapi, measure: "delay", in: ClaimBounds(most: 2))
        let isOpen = ClaimCondition.leads(Self.parley, measure: "delay")
        let outcome = outcome(figures, Self.delay)
        #expect(outcome.finding(on: claim(holds)).verdict == .reproduced)
        #expect(outcome.finding(on: claim(holds, isOpen)).verdict == .cannotBeShown)
        #expect(outcome.finding(on: claim(isOpen, fails, holds)).verdict == .notReproduced)
        #expect(outcome.finding(on: claim()).verdict == .cannotBeShown)
    }

    @Test func aFailedRoundLeavesAClaimOpenAndSaysWhy() {
        let published = claim(
            .figure(Self.node, measure: "delay", in: ClaimBounds(most: 2)))
        var outcome = outcome([(Self.node, [1, 1])], Self.delay, [published])
        outcome.failures[Self.node.title] = ["no session; Node ended with status 3"]
        #expect(outcome.finding(on: published).verdict == .cannotBeShown)
        #expect(outcome.finding(on: published).detail.contains("1 of 3 rounds failed"))
        let report = ClaimsReport(machine: "", date: "", command: "c", outcomes: [outcome])
        #expect(
            report.markdown.contains("failed in 1 round: no session; Node ended with status 3"))
        #expect(report.markdown.contains("| cannot be shown here |"))
    }

    @Test("Each claim's rule is about rows and columns that it has, in full and quick")
    func rulesFit() {
        for claim in Claim.all(.full) + Claim.all(.quick) {
            #expect(!claim.published.isEmpty, "\(claim.name)")
            for condition in claim.published.flatMap(\.conditions) {
                let (rows, word): ([Contender], String) =
                    switch condition {
                    case .figure(let row, let word, _, _): ([row], word)
                    case .ratio(let one, let other, let word, _): ([one, other], word)
                    case .leads(let row, let word): ([row], word)
                    }
                #expect(rows.allSatisfy(claim.contenders.contains), "\(claim.name)")
                #expect(claim.measures.contains { $0.word == word }, "\(claim.name): \(word)")
            }
        }
    }

    @Test func aRunFitsIntoItsTime() {
        func minutes(_ size: ClaimSize) -> Double {
            Claim.all(size).reduce(0) { $0 + $1.plannedSeconds } / 60
        }
        #expect(minutes(.full) <= 38)
        #expect(minutes(.quick) <= 6)
        #expect(Claim.all(.full).allSatisfy { $0.rounds >= ClaimFinding.minRounds })
    }
}

@Suite struct ClaimsRunTests {
    @Test("The search ends at the largest step that holds, from any start")
    func searchFindsTheLimit() {
        for limit in -1...StepSearch.highest {
            for (start, stride) in [(24, 4), (0, 1), (StepSearch.highest, 1), (max(limit, 0), 1)] {
                var search = StepSearch(from: start, stride: stride)
                var tries = 0
                while let step = search.next {
                    search.take(holds: step <= limit)
                    tries += 1
                    #expect((0...StepSearch.highest).contains(step))
                    guard tries < 20 else { break }
                }
                #expect(search.held == limit)
                #expect(tries <= 14, "limit \(limit) from \(start): \(tries)")
            }
        }
        #expect(StepSearch.load(of: 0) == 25)
        #expect(StepSearch.load(of: 24) == 200)
        #expect(StepSearch.load(of: StepSearch.highest) == 1_600)
    }

    @Test func aCoarseSearchTriesTheLowestStepToo() {
        var search = StepSearch(from: 8, stride: 4, resolution: 4)
        while search.next != nil { search.take(holds: false) }
        #expect(search.held == -1 && search.next == nil)
        var lowest = StepSearch(from: 8, stride: 4, resolution: 4)
        while let step = lowest.next { lowest.take(holds: step == 0) }
        #expect(lowest.held == 0)
    }

    /// A round that begins where the round before ended needs two steps.
    @Test func aKnownLimitIsConfirmedQuickly() {
        var search = StepSearch(from: 30, stride: 1)
        #expect(search.next == 30)
        search.take(holds: true)
        #expect(search.next == 31)
        search.take(holds: false)
        #expect(search.next == nil)
        #expect(search.held == 30)
    }

    @Test func aFailureSaysHowTheProcessesEndedAndWhatTheyWrote() throws {
        let bench = ClaimBench(paths: StackPaths(), firstPort: 9_400, executable: "/bin/false")
        let claim = Claim(
            name: "c", title: "C", published: [], measures: [],
            contenders: [Contender(stack: .node)], rounds: 1, seconds: 1, remarks: ""
        ) { (bench, _) throws(LoadFailure) in
            let process = try bench.start(
                ["/bin/sh", "-c", "echo first >&2; echo no port >&2; exit 3"], name: "the peer",
                core: 0, isTalking: true)
            #expect(process.readLine(within: 60) == nil)
            process.awaitEnd(within: 60)
            bench.note("noticed")
            throw LoadFailure("awaited a line")
        }
        let (result, notes) = bench.attempt(claim, claim.contenders[0])
        #expect(notes == ["noticed"])
        guard case .failure(let failure) = result else {
            Issue.record("it cannot succeed")
            return
        }
        #expect(
            failure.reason
                == "awaited a line; the peer ended with status 3, it wrote: first / no port")
    }

    @Test func aProgramThatSaysNothingIsNotWaitedForWithoutEnd() throws {
        let process = try PinnedProcess(["/bin/cat"], core: nil, isTalking: true)
        #expect(process.readLine(within: 0) == nil)
        #expect(process.isRunning)
        try process.input?.close()
        process.awaitEnd(within: 60)
        #expect(!process.isRunning)
    }

    @Test func aProgramEndsWithItsObject() throws {
        var process: PinnedProcess? = try PinnedProcess(
            ["/bin/sleep", "1000"], core: nil, recordedAs: "the peer")
        let record = try #require(process?.record)
        let identifier = try #require(process?.identifier)
        process = nil
        #expect(kill(identifier, 0) == -1 && errno == ESRCH)
        #expect(record.account == nil)
    }

    @Test func recordingsOfAnotherFormatAreLeftOut() throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("parley-recordings-\(UUID())").path
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        func put(_ name: String, _ bytes: [UInt8]) {
            let path = "\(folder)/\(name)"
            #expect(FileManager.default.createFile(atPath: path, contents: Data(bytes)))
        }
        #expect(throws: LoadFailure.self) { try ClaimInputs.recordings(in: folder) }
        let samples = [Int16](repeating: 0, count: 160)
        put("b.wav", WAVFile(rate: .hz48000, samples: samples).encoded())
        put("c.wav", Array("no sound".utf8))
        put("notes.txt", [])
        #expect(throws: LoadFailure.self) { try ClaimInputs.recordings(in: folder) }
        put("a.wav", WAVFile(rate: .hz16000, samples: samples).encoded())
        put("d.wav", WAVFile(rate: .hz16000, channels: 2, samples: samples).encoded())
        let found = try ClaimInputs.recordings(in: folder)
        #expect(found.files == ["\(folder)/a.wav"])
        #expect(found.others.count == 3)
        #expect(found.others[0].contains("1 channels of 48,000 Hz"))
    }

    @Test func whatIsMissingIsNamedBeforeARun() {
        var paths = StackPaths()
        paths.environment = "/nowhere"
        let inputs = ClaimInputs(of: Claim.all(.quick), paths: paths)
        #expect(inputs.missing.contains("/nowhere/bin/node (scripts/setup-peers.sh nio)"))
    }

    @Test func theBuildsAreNamed() {
        #expect(ClaimBuild.commit(head: "abc", changes: []) == "commit abc")
        #expect(
            ClaimBuild.commit(head: "abc", changes: [" M a", "?? b"])
                == "commit abc with changes that are not in it (2 files)")
        #expect(ClaimBuild.commit(head: nil, changes: []).contains("outside"))
        let manifest = """
            // .package
                .package(url: "https://example.com/apple/swift-nio", exact: "2.101.2"),
            """
        #expect(ClaimBuild.packages(in: manifest) == ["swift-nio 2.101.2"])
    }
}
