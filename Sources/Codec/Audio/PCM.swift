// Raw 16-bit samples ↔ bytes (`audio/pcm`: signed, little-endian, mono), and ↔ floats for models.
// Resampler converts rates; WAVFile reads and writes files.

/// Conversions of linear samples.
public enum PCM {
    /// Bytes per sample.
    public static let bytesPerSample = 2

    /// Samples in a number of bytes, or nil if the last sample is cut in half.
    public static func sampleCount(ofBytes bytes: Int) -> Int? {
        bytes.isMultiple(of: bytesPerSample) ? bytes / bytesPerSample : nil
    }

    /// Reads little-endian samples.
    /// - Precondition: `bytes` are whole samples (`sampleCount(ofBytes:)`) that fit in `samples`.
    public static func decode(
        _ bytes: RawSpan, into samples: UnsafeMutableBufferPointer<Int16>
    ) {
        precondition(bytes.byteCount % bytesPerSample == 0)
        precondition(samples.count >= bytes.byteCount / bytesPerSample)
        bytes.withUnsafeBytes { bytes in
            for index in 0..<bytes.count / bytesPerSample {
                let raw = bytes.loadUnaligned(
                    fromByteOffset: index * bytesPerSample, as: Int16.self)
                samples[index] = Int16(littleEndian: raw)
            }
        }
    }

    /// Appends samples as little-endian bytes.
    public static func encode(
        _ samples: UnsafeBufferPointer<Int16>, into writer: inout ByteWriter
    ) {
        let size = samples.count * bytesPerSample
        writer.append(upTo: size) { bytes in
            for (index, sample) in samples.enumerated() {
                bytes.storeBytes(
                    of: sample.littleEndian, toByteOffset: index * bytesPerSample, as: Int16.self)
            }
            return size
        }
    }

    /// Samples as floats in -1…1 (32,768 is 1), exactly.
    public static func floats(_ samples: UnsafeBufferPointer<Int16>) -> [Float] {
        samples.map { Float($0) * (1 / 32_768) }
    }

    /// A float in -1…1 as a sample: rounded to nearest, saturated; not-a-number becomes 0.
    public static func sample(_ float: Float) -> Int16 {
        guard !float.isNaN else { return 0 }
        return Int16(max(-32_768, min(32_767, (float * 32_768).rounded())))
    }
}
