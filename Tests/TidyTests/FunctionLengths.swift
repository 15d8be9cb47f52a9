// Measures functions: from the line of `func`, `init`, `deinit` or `subscript` to the line of the
// brace that closes its body. Reads blanked code (SwiftBlanking), so braces are braces.

/// A function and the lines that it takes.
struct FunctionLength: Equatable {
    /// First line, from 1.
    let line: Int
    let name: String
    let lineCount: Int
}

enum FunctionLengths {
    /// Functions with a body, in the order of the text; nested ones are listed as well.
    static func measure(_ code: String) -> [FunctionLength] {
        let bytes = Array(code.utf8)
        var found: [FunctionLength] = []
        var line = 1
        var position = 0
        while position < bytes.count {
            if bytes[position] == UInt8(ascii: "\n") {
                line += 1
                position += 1
            } else if isWordByte(bytes[position]) {
                let end = bytes[position...].firstIndex { !isWordByte($0) } ?? bytes.count
                let word = String(decoding: bytes[position..<end], as: UTF8.self)
                let isMember = position > 0 && isDotOrTick(bytes[position - 1])
                if introducers.contains(word), !isMember,
                    let body = bodyRange(in: bytes, after: end)
                {
                    let count = bytes[position..<body].count { $0 == UInt8(ascii: "\n") } + 1
                    let name = word == "func" ? functionName(in: bytes, after: end) : word
                    found.append(FunctionLength(line: line, name: name, lineCount: count))
                }
                position = end
            } else {
                position += 1
            }
        }
        return found
    }

    private static let introducers: Set<String> = ["func", "init", "deinit", "subscript"]

    /// Words at which a declaration without a body (a protocol's requirement) has ended.
    private static let nextDeclaration: Set<String> = [
        "func", "init", "deinit", "subscript", "var", "let", "case", "struct", "class", "enum",
        "protocol", "extension", "actor", "typealias", "associatedtype", "static", "mutating",
        "public", "private", "internal", "fileprivate", "override", "import",
    ]

    /// The position of the brace that closes the body, or nil when there is no body.
    private static func bodyRange(in bytes: [UInt8], after start: Int) -> Int? {
        var nesting = 0
        var position = start
        // The signature: an opening brace outside of all parentheses starts the body.
        while position < bytes.count {
            let byte = bytes[position]
            if byte == UInt8(ascii: "(") || byte == UInt8(ascii: "[") { nesting += 1 }
            if byte == UInt8(ascii: ")") || byte == UInt8(ascii: "]") { nesting -= 1 }
            if nesting < 0 { return nil }
            if nesting == 0, byte == UInt8(ascii: "{") { break }
            if nesting == 0, byte == UInt8(ascii: "}") { return nil }
            if nesting == 0, isWordByte(byte) {
                let end = bytes[position...].firstIndex { !isWordByte($0) } ?? bytes.count
                let word = String(decoding: bytes[position..<end], as: UTF8.self)
                if nextDeclaration.contains(word) { return nil }
                position = end
            } else {
                position += 1
            }
        }
        return closingBrace(in: bytes, from: position)
    }

    private static func closingBrace(in bytes: [UInt8], from open: Int) -> Int? {
        var depth = 0
        for position in open..<bytes.count {
            if bytes[position] == UInt8(ascii: "{") { depth += 1 }
            if bytes[position] == UInt8(ascii: "}") { depth -= 1 }
            if depth == 0 { return position }
        }
        return nil
    }

    private static func functionName(in bytes: [UInt8], after end: Int) -> String {
        let name = bytes[end...].drop { $0 == 0x20 }.prefix { $0 != 0x28 && $0 != 0x3C }
        return String(decoding: name, as: UTF8.self)
    }

    /// `self.init(…)` and `.init(…)` are calls; `` `init` `` is a name.
    private static func isDotOrTick(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: ".") || byte == UInt8(ascii: "`")
    }

    private static func isWordByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
