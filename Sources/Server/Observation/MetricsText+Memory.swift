// Memory in the exposition: a histogram of ledgers by shard and state, and beside it the kernel's
// figures of the process. The ledgers are in LedgerBook.
//
// Invariant: each cell is shown once, so that sums over labels are those of the server.

import Codec
import Session

extension MetricsText {
    /// Writes the ledgers of all present connections and text requests. It is a histogram of a
    /// moment: its counts fall when a connection ends.
    func writeLedgers(into text: inout ByteWriter) {
        let name = "parley_session_memory_bytes"
        writeHead(
            name, "histogram",
            "Memory of each connection now, by its shard and the state of its session.",
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
            "Resident memory that the process itself has written, without files.", into: &text)
        writeLine("parley_private_memory_bytes", "", "\(memory.private)", into: &text)
        writeHead(
            "parley_allocated_memory_bytes", "gauge",
            "Memory in use on the heap, without freed memory that the allocator keeps.", into: &text
        )
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
