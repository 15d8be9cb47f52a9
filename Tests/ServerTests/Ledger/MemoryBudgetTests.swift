// The limit of the whole process: what is the server's own, what is left to clients, and where the
// kernel says how much there is.

import Session
import Simulation
import Synchronization
import Testing

@testable import Server

@Suite struct MemoryBudgetTests {
    private static let megabyte = 1_000_000

    /// The kernel's figure, as a test sets it.
    private final class Kernel: Sendable {
        let megabytes = Atomic<Int>(20)

        func budget(limit: Int, models: Int = 0) -> MemoryBudget {
            var settings = MemorySettings()
            settings.maxBytes = limit * megabyte
            return MemoryBudget(settings, modelBytes: models * megabyte) {
                self.megabytes.load(ordering: .relaxed) * megabyte
            }
        }
    }

    @Test func aTenthOfTheClientsPartStaysFree() {
        let budget = Kernel().budget(limit: 520, models: 300)
        // 20 at the start and 300 of models leave 200.
        #expect(budget.near == 500 * Self.megabyte)
        #expect(
            budget.held(ledgers: 50 * Self.megabyte, at: .milliseconds(1_000)) == 370
                * Self.megabyte)
    }

    @Test func modelsThatDoNotFitAreNotCountedBeforehand() {
        let budget = Kernel().budget(limit: 120, models: 300)
        #expect(budget.near == 110 * Self.megabyte)
        #expect(budget.held(ledgers: 0, at: .milliseconds(1_000)) == 20 * Self.megabyte)
        #expect(budget.neededBytes == 320 * Self.megabyte + MemoryBudget.leastClientBytes)
    }

    @Test func whatTheAllocatorCannotGiveBackIsTheServersOwn() {
        let kernel = Kernel()
        let budget = kernel.budget(limit: 500)
        kernel.megabytes.store(480, ordering: .relaxed)
        // The first reading has the allocator give back, the next one judges.
        #expect(budget.held(ledgers: 0, at: .milliseconds(1_000)) == 20 * Self.megabyte)
        let isAsked = budget.takeReturnRequest()
        #expect(isAsked)
        budget.handleReturned()
        let held = budget.held(ledgers: 0, at: .milliseconds(1_001))
        #expect(held == 480 * Self.megabyte)
        #expect(budget.near == 498 * Self.megabyte)
        #expect(!budget.isShort(held: held, wasShort: false))
        // Clients that hold nine tenths of the rest close admission.
        let full = budget.held(ledgers: 19 * Self.megabyte, at: .milliseconds(1_100))
        #expect(budget.isShort(held: full, wasShort: false))
    }

    @Test func theLimitHoldsWhateverIsTheServersOwn() {
        let kernel = Kernel()
        let budget = kernel.budget(limit: 500)
        kernel.megabytes.store(600, ordering: .relaxed)
        _ = budget.held(ledgers: 0, at: .milliseconds(1_000))
        budget.handleReturned()
        let held = budget.held(ledgers: 0, at: .milliseconds(1_001))
        #expect(budget.near == budget.limit)
        #expect(budget.isShort(held: held, wasShort: true))
    }

    @Test func aFigureFromBeforeTheReturnIsNotJudged() {
        let kernel = Kernel()
        let budget = kernel.budget(limit: 500)
        // Clients have left, and the allocator keeps what they held.
        kernel.megabytes.store(600, ordering: .relaxed)
        for second in 1...9 {
            let held = budget.held(ledgers: 0, at: .milliseconds(second * 1_000))
            #expect(held == 20 * Self.megabyte)
        }
        kernel.megabytes.store(30, ordering: .relaxed)
        budget.handleReturned()
        #expect(budget.held(ledgers: 0, at: .milliseconds(9_001)) == 30 * Self.megabyte)
        #expect(budget.near == 452 * Self.megabyte)
    }

    @Test func aReturnThatNoWorkerBeginsIsWaitedForATime() {
        let kernel = Kernel()
        let budget = kernel.budget(limit: 500)
        kernel.megabytes.store(600, ordering: .relaxed)
        _ = budget.held(ledgers: 0, at: .milliseconds(1_000))
        #expect(budget.held(ledgers: 0, at: .milliseconds(10_900)) == 20 * Self.megabyte)
        #expect(budget.held(ledgers: 0, at: .milliseconds(12_000)) == 600 * Self.megabyte)
    }

    @Test func theFirstFigureAfterAReturnIsJudgedHoweverLateItIs() {
        let kernel = Kernel()
        let budget = kernel.budget(limit: 500)
        kernel.megabytes.store(600, ordering: .relaxed)
        _ = budget.held(ledgers: 0, at: .milliseconds(1_000))
        budget.handleReturned()
        #expect(budget.held(ledgers: 0, at: .milliseconds(60_000)) == 600 * Self.megabyte)
    }

    @Test func theServersOwnShrinksAgain() {
        let kernel = Kernel()
        let budget = kernel.budget(limit: 500)
        kernel.megabytes.store(480, ordering: .relaxed)
        _ = budget.held(ledgers: 0, at: .milliseconds(1_000))
        budget.handleReturned()
        _ = budget.held(ledgers: 0, at: .milliseconds(1_001))
        #expect(budget.near == 498 * Self.megabyte)
        kernel.megabytes.store(120, ordering: .relaxed)
        _ = budget.held(ledgers: 0, at: .milliseconds(2_100))
        #expect(budget.near == 462 * Self.megabyte)
    }

    /// Pages that the allocator keeps after clients have left, below where admission closes and
    /// above where it opens.
    @Test func admissionThatIsClosedAsksForWhatTheAllocatorKeeps() {
        let kernel = Kernel()
        let budget = kernel.budget(limit: 500)
        kernel.megabytes.store(435, ordering: .relaxed)
        let before = budget.held(ledgers: 0, at: .milliseconds(1_000))
        let isAsked = budget.takeReturnRequest()
        #expect(isAsked && before == 20 * Self.megabyte)
        budget.handleReturned()
        let held = budget.held(ledgers: 0, at: .milliseconds(1_001))
        // What stays even then is the server's own.
        #expect(held == 435 * Self.megabyte && !budget.isShort(held: held, wasShort: true))
    }

    @Test func admissionOpensAgainBelowWhereItCloses() {
        let budget = Kernel().budget(limit: 220)
        func isShort(_ megabytes: Int, was: Bool) -> Bool {
            budget.isShort(held: megabytes * Self.megabyte, wasShort: was)
        }
        #expect(!isShort(200, was: false) && isShort(201, was: false))
        #expect(isShort(191, was: true) && !isShort(190, was: true))
    }

    @Test func aRequestThatNoWorkerTookIsKept() {
        let budget = Kernel().budget(limit: 500)
        budget.requestReturn()
        let first = budget.takeReturnRequest()
        let second = budget.takeReturnRequest()
        #expect(first && !second)
    }

    // MARK: The control group

    @Test func readsTheGroupsOfVersion1AndThoseAroundThem() {
        let groups = "9:name=systemd:/\n4:cpu,memory:/outer/inner\n1:cpu:/x\n"
        #expect(
            ControlGroup.memoryFiles(of: groups) == [
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/outer/memory.limit_in_bytes",
            ])
    }

    @Test func readsTheGroupsOfVersion2AndThoseAroundThem() {
        #expect(
            ControlGroup.memoryFiles(of: "0::/a.slice/b\n") == [
                "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/a.slice/b/memory.max",
                "/sys/fs/cgroup/a.slice/memory.max",
            ])
    }

    @Test func readsTheQuotaOfProcessors() {
        #expect(
            ControlGroup.processorFiles(of: "1:cpu,cpuacct:/x\n0::/\n") == [
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us",
                "/sys/fs/cgroup/cpu.max",
            ])
    }

    @Test(
        arguments: [
            ("50000 100000\n", "", 1), ("100000 100000\n", "", 1), ("150000 100000\n", "", 2),
            ("max 100000\n", "", nil), ("400000\n", "100000\n", 4), ("-1\n", "100000\n", nil),
            ("", "", nil), ("1 0", "", nil), ("9223372036854775807 1", "", Int.max),
        ] as [(String, String, Int?)])
    func aQuotaIsWholeProcessors(text: String, period: String, cores: Int?) {
        #expect(ProcessorShare.cores(ofQuota: text, period: period) == cores)
    }

    @Test(arguments: ["", "\n", "no line of it", "1:cpu:/a", "0:", "::", "0::"])
    func readsNothingWhereNoGroupIsNamed(groups: String) {
        let isRoot = groups == "0::"
        #expect(
            ControlGroup.memoryFiles(of: groups)
                == (isRoot ? ["/sys/fs/cgroup/memory.max"] : []))
    }
}
