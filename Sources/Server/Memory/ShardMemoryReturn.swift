// Giving memory back after many have left: the shard lets go of what it keeps for the next one, and
// then the allocator of the pages that nobody uses any more. By itself glibc keeps them: what
// 10,000 sessions took stays with the process, because some small block lives in each of its large
// pieces.
//
// That costs 0.2 ms for each megabyte that goes back, in which others wait for the allocator; so it
// happens on a worker thread, not before the leaving has come to rest, and only where it pays.

import CLinux
import Session

/// When it pays to give memory back. A value, driven by the shard's clock.
struct MemoryReturn {
    /// What must have been let go since the last time. 2 MiB: below, the pages that come back would
    /// soon be taken again.
    static let leastBytes = 2 << 20
    /// How long nothing more must have been let go. 1 s: clients that leave together do so within
    /// one.
    static let quiet = Duration.seconds(1)
    /// How often rest is waited for. 10: where somebody leaves all the time, every ten seconds.
    private static let maxPostponements = 10

    /// The most that was held since the last time.
    private var peak = 0
    private var postponements = 0
    /// What was held when the next look was arranged; nil: none is.
    private var heldThen: Int?

    /// So much is held now.
    /// - Returns: whether a look is to be taken after `quiet`.
    mutating func note(held: Int) -> Bool {
        peak = max(peak, held)
        guard heldThen == nil, pays(held) else { return false }
        heldThen = held
        postponements = 0
        return true
    }

    /// The look that was arranged.
    /// - Returns: what to do: nothing, look again, or give back.
    mutating func review(held: Int) -> Step {
        guard let then = heldThen.take(), pays(held) else { return .nothing }
        if held < then, postponements < Self.maxPostponements {
            postponements += 1
            heldThen = held
            return .lookAgain
        }
        return .giveBack
    }

    /// The allocator is giving back.
    mutating func handleGivenBack(held: Int) { peak = held }

    /// No worker could see to it: another look is to be taken.
    mutating func handleRefused(held: Int) { heldThen = held }

    /// What a look comes to.
    enum Step: Equatable { case nothing, lookAgain, giveBack }

    /// Whether much was let go, and more than is still held.
    private func pays(_ held: Int) -> Bool { peak - held >= max(Self.leastBytes, held) }
}

extension Shard {
    /// The tick's ledgers are settled: something may have been let go, or taken.
    func noteFreedMemory() {
        guard memoryReturn.note(held: ledgerBytes) else { return }
        _ = deadlines.schedule(.memoryReturn, at: now + MemoryReturn.quiet)
    }

    /// The look that was arranged.
    func reviewMemoryReturn() {
        switch memoryReturn.review(held: ledgerBytes) {
        case .nothing: break
        case .lookAgain: _ = deadlines.schedule(.memoryReturn, at: now + MemoryReturn.quiet)
        case .giveBack:
            chunks.releaseIdle()
            if services.pool.submit(.spare, for: nil, ComputeJob(run: services.returnMemory)) {
                memoryReturn.handleGivenBack(held: ledgerBytes)
                metrics.add(.memoryReturns)
            } else {
                memoryReturn.handleRefused(held: ledgerBytes)
                _ = deadlines.schedule(.memoryReturn, at: now + MemoryReturn.quiet)
            }
        }
    }
}

/// What the allocator and the kernel have of it.
package enum AllocatorPages {
    /// Gives back the pages that nobody uses, of the heap and of the program itself. Any thread.
    package static func giveBack() {
        malloc_trim(0)
        parley_unmap_program()
    }
}
