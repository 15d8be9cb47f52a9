// The store in memory: who may change a record, how long it is kept, and what it may take.

import Session
import Testing

private let proof: [UInt8] = [1, 2, 3]

/// A store with a clock of its own.
private final class StoreWorld {
    let records: MemorySessionRecords
    var now = Instant.milliseconds(0)
    private(set) var store: MemorySessionStore!

    init(maxBytes: Int = 1 << 20) {
        records = MemorySessionRecords(maxBytes: maxBytes)
        store = MemorySessionStore(records) { [unowned self] in now }
    }

    func write(
        _ id: String, fence: UInt64, _ fields: [(String, [UInt8])] = [], whole: Bool = false,
        removed: [String] = [], lifetime: Duration = .seconds(60)
    ) -> StoreWriteOutcome? {
        var outcome: StoreWriteOutcome?
        store.write(
            SessionChange(
                sessionID: id, fence: fence, isWhole: whole,
                set: fields.map { (name: $0.0, value: $0.1) }, removed: removed,
                lifetime: lifetime)
        ) { outcome = $0 }
        records.checkInvariants()
        return outcome
    }

    func claim(_ id: String, proof: [UInt8] = proof) -> ClaimOutcome? {
        var outcome: ClaimOutcome?
        store.claim(
            SessionClaim(sessionID: id, proof: proof, force: false, lifetime: .seconds(60))
        ) { outcome = $0 }
        records.checkInvariants()
        return outcome
    }
}

struct MemorySessionStoreTests {
    @Test("fields are set and removed, and a claim gives them back")
    func fields() {
        let world = StoreWorld()
        #expect(world.write("a", fence: 0, [("proof", proof), ("x", [1]), ("y", [2])]) == .written)
        #expect(world.write("a", fence: 1, [("x", [3])], removed: ["y"]) == .written)
        #expect(world.claim("a") == .claimed(fields: ["proof": proof, "x": [3]], fence: 2))
        #expect(world.write("a", fence: 2, [("proof", proof), ("z", [])], whole: true) == .written)
        #expect(world.claim("a") == .claimed(fields: ["proof": proof, "z": []], fence: 3))
    }

    @Test("a writer with an older fence has lost the session")
    func fenced() {
        let world = StoreWorld()
        _ = world.write("a", fence: 0, [("proof", proof)])
        #expect(world.claim("a") == .claimed(fields: ["proof": proof], fence: 2))
        #expect(world.write("a", fence: 1, [("x", [1])]) == .fenced)
        #expect(world.write("a", fence: 1, [("x", [1])], whole: true) == .fenced)
        world.store.release("a", fence: 1, lifetime: .seconds(1))
        world.store.remove("a", fence: 1)
        #expect(world.write("a", fence: 2, [("x", [1])]) == .written)
    }

    @Test("a released record can be claimed and not changed")
    func released() {
        let world = StoreWorld()
        _ = world.write("a", fence: 0, [("proof", proof)])
        world.store.release("a", fence: 1, lifetime: .seconds(10))
        #expect(world.write("a", fence: 1, [("x", [1])]) == .fenced)
        world.now = .milliseconds(9_999)
        #expect(world.claim("a") == .claimed(fields: ["proof": proof], fence: 2))
        world.store.release("a", fence: 2, lifetime: .seconds(10))
        world.now = .milliseconds(19_999)
        #expect(world.claim("a") == .missing)
        #expect(world.records.count == 0 && world.records.bytes == 0)
    }

    @Test("only a secret of the session claims it: the new one and the one before")
    func proofs() {
        let world = StoreWorld()
        _ = world.write("a", fence: 0, [("proof", [9]), ("proof.old", proof), ("x", [7])])
        #expect(world.claim("a", proof: [7]) == .missing)
        #expect(world.claim("a", proof: []) == .missing)
        #expect(world.claim("b") == .missing)
        guard case .claimed? = world.claim("a"), case .claimed? = world.claim("a", proof: [9])
        else {
            Issue.record("a secret of the session does not claim it")
            return
        }
    }

    @Test("a record that is gone is written anew as a whole")
    func missing() {
        let world = StoreWorld()
        #expect(world.write("a", fence: 5, [("x", [1])]) == .missing)
        #expect(world.write("a", fence: 5, [("proof", proof)], whole: true) == .written)
        #expect(world.write("a", fence: 6, [("x", [1])]) == .missing)
        #expect(world.claim("a") == .claimed(fields: ["proof": proof], fence: 6))
    }

    @Test("a removed record is gone")
    func removed() {
        let world = StoreWorld()
        _ = world.write("a", fence: 0, [("proof", proof)])
        world.store.remove("a", fence: 1)
        #expect(world.claim("a") == .missing && world.records.bytes == 0)
    }

    @Test("the least recently used records make room")
    func eviction() {
        let world = StoreWorld(maxBytes: 10_000)
        let kilobyte = [UInt8](repeating: 0, count: 1_000)
        for id in ["a", "b", "c", "d"] {
            _ = world.write(id, fence: 0, [("proof", proof), ("x", kilobyte)])
        }
        guard case .claimed? = world.claim("a") else {
            Issue.record("the record is not there")
            return
        }
        for id in ["e", "f", "g"] {
            _ = world.write(id, fence: 0, [("proof", proof), ("x", kilobyte)])
        }
        #expect(world.claim("b") == .missing)
        guard case .claimed? = world.claim("a") else {
            Issue.record("a record in use made room")
            return
        }
        let large = [UInt8](repeating: 0, count: 10_000)
        #expect(world.write("h", fence: 0, [("x", large)]) == .failed)
        #expect(world.write("g", fence: 1, [("x", large)]) == .failed)
        #expect(world.claim("g") == .missing)
    }

    @Test("many changes of few records take bounded memory")
    func manyChanges() {
        let world = StoreWorld()
        for count in 0..<2_000 {
            let id = "s\(count % 3)"
            let outcome = world.write(id, fence: 1, [("x", [1])], whole: count < 3)
            #expect(outcome == .written)
        }
        #expect(world.records.count == 3)
    }
}
