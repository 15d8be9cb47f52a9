// The lines in which two texts differ, short enough to be read in the output of a failed test.

/// The difference of two texts by lines, as a unified diff that ends after `limit` lines.
package struct LineDifference: CustomStringConvertible {
    /// Most lines of the description; a line after them counts the differing lines that are left out.
    package static let limit = 20
    /// Equal lines shown before and after each difference.
    private static let context = 2
    /// Above this product of lines, the lines between the first and the last difference are shown as
    /// replaced, because the time of the comparison grows with it.
    private static let mostPairs = 4_000_000

    /// A line of one text or of both.
    private struct Line {
        /// `-` is in the stored text alone, `+` in the made text alone, a space in both.
        let mark: Character
        let text: Substring
        /// The line's number in the stored text, where it is or would be.
        let number: Int

        var isEqual: Bool { mark == " " }
    }

    private var lines: [Line] = []

    /// Compares a stored text with one that was made.
    package init(stored: String, made: String) {
        let old = stored.split(separator: "\n", omittingEmptySubsequences: false)
        let new = made.split(separator: "\n", omittingEmptySubsequences: false)
        let start = zip(old, new).prefix { $0 == $1 }.count
        let most = min(old.count, new.count) - start
        let end = zip(old.reversed(), new.reversed()).prefix { $0 == $1 }.prefix(most).count
        for index in 0..<start { add(" ", old[index], at: index) }
        compare(old[start..<old.count - end], new[start..<new.count - end])
        for index in old.count - end..<old.count { add(" ", old[index], at: index) }
    }

    private mutating func add(_ mark: Character, _ text: Substring, at index: Int) {
        lines.append(Line(mark: mark, text: text, number: index + 1))
    }

    private mutating func compare(_ old: ArraySlice<Substring>, _ new: ArraySlice<Substring>) {
        guard old.count * new.count <= Self.mostPairs else {
            for (index, line) in zip(old.indices, old) { add("-", line, at: index) }
            for line in new { add("+", line, at: old.endIndex) }
            return
        }
        var removed: Set<Int> = []
        var inserted: Set<Int> = []
        for change in Array(new).difference(from: Array(old)) {
            switch change {
            case .remove(let offset, _, _): removed.insert(old.startIndex + offset)
            case .insert(let offset, _, _): inserted.insert(new.startIndex + offset)
            }
        }
        var (left, right) = (old.startIndex, new.startIndex)
        while left < old.endIndex || right < new.endIndex {
            if removed.contains(left) {
                add("-", old[left], at: left)
                left += 1
            } else if inserted.contains(right) {
                add("+", new[right], at: left)
                right += 1
            } else {
                add(" ", old[left], at: left)
                left += 1
                right += 1
            }
        }
    }

    /// Ranges of lines to show: the differences with the equal lines around them.
    private var parts: [Range<Int>] {
        var parts: [Range<Int>] = []
        for index in lines.indices where !lines[index].isEqual {
            let part = max(0, index - Self.context)..<min(lines.count, index + Self.context + 1)
            if let last = parts.last, last.upperBound >= part.lowerBound {
                parts[parts.count - 1] = last.lowerBound..<part.upperBound
            } else {
                parts.append(part)
            }
        }
        return parts
    }

    /// The first differences. A part begins with the number of its first line in the stored text.
    package var description: String {
        var shown: [String] = []
        var hidden = 0
        for part in parts {
            // A heading is followed by its difference.
            let hasRoom = shown.count + Self.context + 2 <= Self.limit
            if hasRoom { shown.append("@@ line \(lines[part.lowerBound].number) @@") }
            for line in lines[part] {
                if hasRoom, shown.count < Self.limit {
                    shown.append("\(line.mark) \(line.text)")
                } else if !line.isEqual {
                    hidden += 1
                }
            }
        }
        if hidden > 0 { shown.append("… \(hidden) further lines differ") }
        return shown.joined(separator: "\n")
    }
}
