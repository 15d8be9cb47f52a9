// Giving memory back after many clients have left: the shard frees the chunks that it keeps for
// reuse, and then the allocator gives back its unused pages. By itself glibc keeps them: what 10,000
// sessions took stays with the process, because some small block lives in each of its large pieces.
//
// That costs 0.2 ms for each megabyte that goes back, in which other threads wait for the allocator.
// So it happens on a worker thread, after no more clients leave, and only where much comes back.

import CLinux
import Session

/// Decides when to give memory back. A value, driven by the shard's clock.
struct MemoryReturn {
    /// The least that must have been freed since the last time. 2 MiB: a smaller amount would soon
    /// be taken again.
    static let leastBytes = 2 << 20
    /// How long nothing more must have been freed. 1 s: clients that leave together do so within
    /// one.
    static let quiet = Duration.seconds(1)
    /// How often it waits for that. 10: where clients leave all the time, memory is given back every
    /// ten seconds.
    private static let maxPostponements = 10

    /// The highest sum of ledgers since the last time.
    private var peak = 0
    private var postponements = 0
    /// The sum when the next look was scheduled, or nil where none is scheduled.
    private var heldThen: Int?

    /// Takes note of the sum of the ledgers at the end of a tick.
    /// - Returns: whether a look is to be scheduled after `quiet`.
    mutating func note(held: Int) -> Bool {
        peak = max(peak, held)
        guard heldThen == nil, pays(held) else { return false }
        heldThen = held
        postponements = 0
        return true
    }

    /// Takes the look that was scheduled.
    /// - Returns: the step to take: nothing, look again, or give back.
    mutating func review(held: Int) -> Step {
        guard let then = heldThen.take(), pays(held) else { return .nothing }
        if held < then, postponements < Self.maxPostponements {
            postponements += 1
            heldThen = held
            return .lookAgain
        }
        return .giveBack
    }

    /// Notes that the allocator is giving memory back.
    mutating func handleGivenBack(held: Int) { peak = held }

    /// Plans another look: every worker was busy.
    mutating func handleRefused(held: Int) { heldThen = held }

    /// The outcome of a look.
    enum Step: Equatable { case nothing, lookAgain, giveBack }

    /// Whether much was freed, and more than is still in use.
    private func pays(_ held: Int) -> Bool { peak - held >= max(Self.leastBytes, held) }
}

extension Shard {
    /// Schedules a look where the tick has freed much.
    func noteFreedMemory() {
        guard memory.freed.note(held: ledgerBytes) else { return }
        _ = deadlines.schedule(.memoryReturn, at: now + MemoryReturn.quiet)
    }

    /// Takes the look that was scheduled.
    func reviewMemoryReturn() {
        switch memory.freed.review(held: ledgerBytes) {
        case .nothing: break
        case .lookAgain: _ = deadlines.schedule(.memoryReturn, at: now + MemoryReturn.quiet)
        case .giveBack:
            fixtures.chunks.releaseIdle()
            if services.pool.submit(.spare, for: nil, ComputeJob(run: services.returnMemory)) {
                memory.freed.handleGivenBack(held: ledgerBytes)
                metrics.add(.memoryReturns)
            } else {
                memory.freed.handleRefused(held: ledgerBytes)
                _ = deadlines.schedule(.memoryReturn, at: now + MemoryReturn.quiet)
            }
        }
    }
}

/// The allocator's unused pages.
package enum AllocatorPages {
    /// Gives back unused pages, of the heap and of the program itself. Any thread.
    package static func giveBack() {
        malloc_trim(0)
        parley_unmap_program()
    }
}
