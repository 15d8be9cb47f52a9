// Linear samples to bytes and floats, and back.

import Codec
import Testing

@Suite struct PCMTests {
    static let pairs: [([UInt8], [Int16])] = [
        ([], []), ([0x01, 0x00], [1]), ([0x00, 0x01], [256]), ([0xFF, 0xFF], [-1]),
        ([0x00, 0x80, 0xFF, 0x7F], [.min, .max]),
    ]

    @Test(arguments: pairs)
    func bytesAreLittleEndian(_ bytes: [UInt8], _ samples: [Int16]) {
        var writer = ByteWriter(capacity: 1)
        samples.withUnsafeBufferPointer { PCM.encode($0, into: &writer) }
        #expect(writer.copiedBytes == bytes)
        let decoded = [Int16](unsafeUninitializedCapacity: samples.count) { room, count in
            PCM.decode(bytes.span.bytes, into: room)
            count = samples.count
        }
        #expect(decoded == samples)
    }

    @Test func decodesFromAnUnalignedAddress() {
        let bytes: [UInt8] = [9, 1, 0, 2, 0]
        let decoded = [Int16](unsafeUninitializedCapacity: 2) { room, count in
            PCM.decode(bytes.span.bytes.extracting(1..<5), into: room)
            count = 2
        }
        #expect(decoded == [1, 2])
    }

    @Test(arguments: [(0, 0), (1, nil), (2, 1), (959, nil), (960, 480)] as [(Int, Int?)])
    func partialSamplesHaveNoCount(_ bytes: Int, _ samples: Int?) {
        #expect(PCM.sampleCount(ofBytes: bytes) == samples)
    }

    @Test func floatsAreExact() {
        let samples = (Int(Int16.min)...Int(Int16.max)).map { Int16($0) }
        let floats = samples.withUnsafeBufferPointer { PCM.floats($0) }
        #expect(floats.first == -1 && floats.last == 32_767 / 32_768)
        #expect(floats.map(PCM.sample) == samples)
    }

    static let roundings: [(Float, Int16)] = [
        (0, 0), (1, .max), (-1, .min), (2, .max), (-.infinity, .min), (.infinity, .max),
        (.nan, 0), (0.5 / 32_768, 1), (0.49 / 32_768, 0), (-0.51 / 32_768, -1),
        (.greatestFiniteMagnitude, .max), (.leastNonzeroMagnitude, 0),
    ]

    @Test(arguments: roundings)
    func floatsRoundAndSaturate(_ float: Float, _ sample: Int16) {
        #expect(PCM.sample(float) == sample)
    }
}
