// Memory in the exposition: how many connections hold how much, by shard and by what they are
// doing, and beside it what the kernel says of the process. What is charged is in LedgerBook.
//
// Invariant: each cell is shown once, so that sums over labels are those of the server.

import Codec
import Session

extension MetricsText {
    /// Writes the ledgers of everybody who is there now. It is a histogram of a moment: its counts
    /// fall when somebody leaves.
    func writeLedgers(into text: inout ByteWriter) {
        let name = "parley_session_memory_bytes"
        writeHead(
            name, "histogram",
            "What each connection holds now, by its shard and what its session is doing.",
            into: &text)
        for (index, shard) in metrics.shards.enumerated() {
            for state in SessionState.allCases {
                let label = "shard=\"\(index)\",state=\"\(state.rawValue)\""
                writeLedgers(shard.ledgers(of: state), of: name, label, into: &text)
            }
        }
        let memory = ProcessMemory.current
        writeHead(
            "process_resident_memory_bytes", "gauge", "Resident memory of the process.",
            into: &text)
        writeLine("process_resident_memory_bytes", "", "\(memory.resident)", into: &text)
        writeHead(
            "parley_private_memory_bytes", "gauge",
            "Resident memory that is no file's: what the process itself has written.", into: &text)
        writeLine("parley_private_memory_bytes", "", "\(memory.private)", into: &text)
        writeHead(
            "parley_allocated_memory_bytes", "gauge",
            "Memory in use on the heap; the allocator keeps what was freed beside it.", into: &text)
        writeLine("parley_allocated_memory_bytes", "", "\(ProcessMemory.allocated)", into: &text)
    }

    private func writeLedgers(
        _ ledgers: (buckets: [Int], sum: Int), of name: String, _ label: String,
        into text: inout ByteWriter
    ) {
        var total = 0
        for (index, count) in ledgers.buckets.enumerated() {
            total += count
            let isLast = index == LedgerBook.boundCount
            let bound = isLast ? "+Inf" : "\(LedgerBook.firstBoundBytes << index)"
            writeLine("\(name)_bucket", "\(label),le=\"\(bound)\"", "\(total)", into: &text)
        }
        writeLine("\(name)_sum", label, "\(ledgers.sum)", into: &text)
        writeLine("\(name)_count", label, "\(total)", into: &text)
    }
}
