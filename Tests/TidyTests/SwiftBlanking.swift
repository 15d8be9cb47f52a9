// Blanks comments and string literals of a Swift file, keeping every line break.
//
// Knows line comments, nested block comments, and strings: plain, multi-line and raw (any number of
// `#`). An interpolation counts as part of its string, whatever quotes it holds; for that its
// parentheses are counted. Regular-expression literals are left alone: a quote inside one would
// confuse it, so the house writes `Regex` builders or escapes.

/// The scanner; see the file's comment for what it knows.
enum SwiftBlanking {
    static func blank(_ source: String) -> String {
        var scanner = Scanner(source: Array(source.utf8))
        scanner.run()
        return String(decoding: scanner.output, as: UTF8.self)
    }

    private struct Scanner {
        let source: [UInt8]
        var output: [UInt8] = []
        var position = 0

        init(source: [UInt8]) {
            self.source = source
            output.reserveCapacity(source.count)
        }

        mutating func run() {
            while position < source.count {
                switch source[position] {
                case UInt8(ascii: "/") where starts("//"): skipLineComment()
                case UInt8(ascii: "/") where starts("/*"): skipBlockComment()
                case UInt8(ascii: "\""), UInt8(ascii: "#"):
                    guard let hashes = openingHashes() else { fallthrough }
                    skipString(hashes: hashes)
                default:
                    output.append(source[position])
                    position += 1
                }
            }
        }

        func starts(_ text: StaticString) -> Bool {
            let count = text.utf8CodeUnitCount
            guard position + count <= source.count else { return false }
            return (0..<count).allSatisfy { source[position + $0] == text.utf8Start[$0] }
        }

        func starts(_ text: [UInt8]) -> Bool { source[position...].starts(with: text) }

        /// Leaves a blank, or the line break itself.
        mutating func blankOne() {
            output.append(source[position] == UInt8(ascii: "\n") ? source[position] : 0x20)
            position += 1
        }

        mutating func blank(_ count: Int) {
            for _ in 0..<min(count, source.count - position) { blankOne() }
        }

        mutating func skipLineComment() {
            while position < source.count, source[position] != UInt8(ascii: "\n") { blankOne() }
        }

        mutating func skipBlockComment() {
            var depth = 0
            repeat {
                if starts("/*") {
                    depth += 1
                    blank(2)
                } else if starts("*/") {
                    depth -= 1
                    blank(2)
                } else {
                    blankOne()
                }
            } while depth > 0 && position < source.count
        }

        /// How many `#` open a string here, or nil when none starts.
        func openingHashes() -> Int? {
            let hashes = source[position...].prefix { $0 == UInt8(ascii: "#") }.count
            let quote = position + hashes
            guard quote < source.count, source[quote] == UInt8(ascii: "\"") else { return nil }
            return hashes
        }

        mutating func skipString(hashes: Int) {
            let fence = [UInt8](repeating: UInt8(ascii: "#"), count: hashes)
            blank(hashes)
            let quotes: [UInt8] = Array((starts("\"\"\"") ? "\"\"\"" : "\"").utf8)
            let isMultiline = quotes.count == 3
            blank(quotes.count)
            while position < source.count {
                if starts(quotes + fence) {
                    blank(quotes.count + hashes)
                    return
                }
                if starts([UInt8(ascii: "\\")] + fence) {
                    skipEscape(fence: fence)
                } else if !isMultiline, source[position] == UInt8(ascii: "\n") {
                    return  // Not a string after all: never run away with the rest of the file.
                } else {
                    blankOne()
                }
            }
        }

        /// An escaped character, or a whole interpolation with the strings in it.
        mutating func skipEscape(fence: [UInt8]) {
            blank(1 + fence.count)
            guard starts("(") else { return blank(1) }
            var depth = 0
            repeat {
                if let hashes = openingHashes() {
                    skipString(hashes: hashes)
                    continue
                }
                if starts("(") { depth += 1 }
                if starts(")") { depth -= 1 }
                blankOne()
            } while depth > 0 && position < source.count
        }
    }
}
