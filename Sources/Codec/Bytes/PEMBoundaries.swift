// The lines that begin and end the blocks of a PEM file (RFC 7468 §3). OpenSSL skips everything that
// is no such line, so a block whose line is damaged would be missing without an error. Here such a
// line is found first. The content of the blocks is not read here.

/// Checks the boundaries of PEM blocks.
public enum PEMBoundaries {
    private static let dashes = Array("-----".utf8)
    private static let begin = Array("-----BEGIN ".utf8)
    private static let end = Array("-----END ".utf8)

    /// The first line that does not let each block begin and end, 1 for the first; nil where all do.
    /// Other text may stand between the blocks.
    public static func damagedLine(in bytes: [UInt8]) -> Int? {
        var label: ArraySlice<UInt8>?
        var line = 0
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        let lastLine = lines.lastIndex { !$0.allSatisfy(isBlank) }
        for index in lines.indices {
            line = index + 1
            let text = lines[index].dropLast(while: isBlank)
            if let found = text.label(behind: begin, before: dashes) {
                guard label == nil else { return line }
                label = found
            } else if let found = text.label(behind: end, before: dashes) {
                guard label == found else { return line }
                label = nil
            } else if text.contains(begin.dropLast()) || text.contains(end.dropLast()) {
                return line
            } else if text.first == dashes[0], label != nil || index == lastLine {
                // A boundary that was cut within its dashes or its word.
                return line
            }
        }
        return label == nil ? nil : line
    }

    /// The blocks whose label ends with this text, such as `PRIVATE KEY`.
    public static func count(of label: String, in bytes: [UInt8]) -> Int {
        let end = Array(label.utf8) + dashes
        return bytes.split(separator: UInt8(ascii: "\n")).count {
            $0.dropLast(while: isBlank).label(behind: begin, before: end) != nil
        }
    }

    private static func isBlank(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\r")
    }
}

extension ArraySlice<UInt8> {
    fileprivate func dropLast(while isDropped: (UInt8) -> Bool) -> ArraySlice<UInt8> {
        guard let last = lastIndex(where: { !isDropped($0) }) else { return [] }
        return self[...last]
    }

    /// The text between a beginning and an end; nil where it does not have both.
    fileprivate func label(behind prefix: [UInt8], before suffix: [UInt8]) -> ArraySlice<UInt8>? {
        guard count >= prefix.count + suffix.count, starts(with: prefix),
            self.suffix(suffix.count).elementsEqual(suffix)
        else { return nil }
        return dropFirst(prefix.count).dropLast(suffix.count)
    }
}
