// Media that overtake each other are heard in the order of their numbers.

import TestMaterial
import Testing

@testable import Codec

@Suite struct MediaOrderTests {
    /// The numbers in the order in which they are heard.
    private func heard(_ numbers: [Int?], in order: inout MediaOrder) -> [Int] {
        var heard: [Int] = []
        for number in numbers {
            withUnsafeBytes(of: number ?? -1) { chunk in
                order.take(number, chunk) { heard.append($0.loadUnaligned(as: Int.self)) }
            }
        }
        return heard
    }

    private func heard(_ numbers: [Int?]) -> [Int] {
        var order = MediaOrder()
        return heard(numbers, in: &order)
    }

    @Test(arguments: [
        ([1, 2, 3, 4], [1, 2, 3, 4]),
        // Neighbours and one that is far too early change places.
        ([1, 3, 2, 4], [1, 2, 3, 4]), ([1, 5, 4, 3, 2, 6], [1, 2, 3, 4, 5, 6]),
        // The first may be any; a second one with its number is dropped.
        ([7, 8, 8, 9], [7, 8, 9]), ([7, 6, 8], [7, 8]),
        // 2 is lost: five that follow it wait, the sixth goes on without it.
        ([1, 3, 4, 5, 6, 7], [1]), ([1, 3, 4, 5, 6, 7, 8], [1, 3, 4, 5, 6, 7, 8]),
        ([1, 3, 4, 5, 6, 7, 8, 2, 9], [1, 3, 4, 5, 6, 7, 8, 9]),
        // The sender begins anew.
        ([500, 501, 1, 2], [500, 501, 1, 2]), ([500, 502, 1, 2], [500, 502, 1, 2]),
    ])
    func chunksAreHeardInOrder(came: [Int], expected: [Int]) {
        #expect(heard(came) == expected)
    }

    @Test func withoutNumbersTheOrderIsThatOfTheStream() {
        #expect(heard([nil, nil]) == [-1, -1])
        #expect(heard([.max, .max]) == [.max, .max])
    }

    @Test func aLongChunkDoesNotWait() {
        var order = MediaOrder()
        _ = heard([1], in: &order)
        let long = [UInt8](repeating: 0, count: MediaOrder.maxWaitingBytes + 1)
        var counts: [Int] = []
        long.withUnsafeBytes { order.take(9, $0) { counts.append($0.count) } }
        #expect(counts == [long.count])
        #expect(heard([10], in: &order) == [10])
    }

    /// What waits is heard before a long chunk that comes after it.
    @Test func aLongChunkLosesNothingThatWaits() {
        var order = MediaOrder()
        #expect(heard([1, 3, 6], in: &order) == [1])
        let long = [UInt8](repeating: 0, count: MediaOrder.maxWaitingBytes + 1)
        var counts: [Int] = []
        long.withUnsafeBytes { order.take(5, $0) { counts.append($0.count) } }
        let short = MemoryLayout<Int>.size
        #expect(counts == [short, long.count, short])
        #expect(heard([7], in: &order) == [7])
    }

    @Test func anyOrderLosesNothingThatIsNotTooLate() {
        for seed in 1...50 as ClosedRange<UInt64> {
            var generator = SeededGenerator(seed: seed)
            // Each is put off by at most as many as may wait.
            let arrivals: [(time: Int, number: Int)] = (1...200).map { number in
                (number + Int(generator.next() % UInt64(MediaOrder.maxWaiting)), number)
            }
            let all = heard([0] + arrivals.sorted { $0 < $1 }.map(\.number))
            #expect(all == Array(0...200), "seed \(seed)")
        }
    }

    @Test func whatWaitsIsBounded() {
        var order = MediaOrder()
        for number in stride(from: 0, to: 10_000, by: 2) {
            _ = heard([number], in: &order)
            #expect(order.heapBytes <= (MediaOrder.maxWaiting + 1) * 128)
        }
    }
}
