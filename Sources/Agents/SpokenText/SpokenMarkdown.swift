// Markdown → the sentences that a person would read out: headings, lists, tables, code, links,
// emphasis (CommonMark 0.31 and GitHub's tables, as far as models write them). SpokenWords then
// replaces numbers and signs.
//
// The input is one clause at a time, so a construct that is cut in two is read as plain text. Every
// input gives some output; nothing fails.

/// Turns Markdown into plain text.
enum SpokenMarkdown {
    /// Said in place of a block of code.
    static let codeBlock = "Code example."

    /// The text without Markdown's marks, its lines joined to sentences.
    static func plain(_ text: String) -> String {
        var sentences: [String] = []
        var isInCode = false
        for line in text.split(whereSeparator: \.isNewline) {
            let content = line.drop { $0 == " " || $0 == "\t" }
            if let fence = content.firstRange(of: "```") ?? content.firstRange(of: "~~~") {
                // Text before an opening fence in the same line is read out.
                let before = content[..<fence.lowerBound]
                if !isInCode, !before.isEmpty { sentences.append(inline(before)) }
                if !isInCode { sentences.append(codeBlock) }
                isInCode.toggle()
                continue
            }
            if isInCode { continue }
            sentences.append(self.line(content))
        }
        return sentences.filter { !$0.isEmpty }.joined(separator: " ")
    }

    /// One line outside code.
    private static func line(_ line: Substring) -> String {
        var rest = line
        while rest.first == ">" { rest = rest.dropFirst().drop { $0 == " " } }
        if isRule(rest) { return "" }
        if rest.first == "|" { return tableRow(rest) }
        let unmarked = withoutBlockMark(rest)
        let text = inline(unmarked)
        // Headings and items often end without punctuation. Without a full stop they would run into
        // the next sentence.
        let isBlock = unmarked.startIndex != rest.startIndex || isNumbered(rest)
        return isBlock ? ended(text) : text
    }

    /// `---`, `***`, `===`, and the line under a table's head.
    private static func isRule(_ line: Substring) -> Bool {
        line.count >= 3 && line.allSatisfy { "-*_=|: +".contains($0) }
    }

    private static func tableRow(_ row: Substring) -> String {
        let cells = row.split(separator: "|")
            .map { inline(trimmed($0)) }.filter { !$0.isEmpty }
        return cells.isEmpty ? "" : ended(cells.joined(separator: ", "))
    }

    /// The line without `#`s, an item's mark, and a task's box. "1." stays, because it is said.
    private static func withoutBlockMark(_ line: Substring) -> Substring {
        let hashes = line.prefix { $0 == "#" }
        if (1...6).contains(hashes.count), line[hashes.endIndex...].first == " " {
            var heading = line[hashes.endIndex...].drop { $0 == " " }
            while let last = heading.last, last == "#" || last == " " { heading.removeLast() }
            return heading
        }
        guard let mark = line.first, "-*+•".contains(mark), line.dropFirst().first == " " else {
            return line
        }
        let item = line.dropFirst(2).drop { $0 == " " }
        for box in ["[ ] ", "[x] ", "[X] "] where item.hasPrefix(box) {
            return item.dropFirst(box.count)
        }
        return item
    }

    /// "12. Text" or "12) Text".
    private static func isNumbered(_ line: Substring) -> Bool {
        let digits = line.prefix(while: \.isASCIIDigit)
        let mark = line[digits.endIndex...].prefix(2)
        return (1...3).contains(digits.count) && (mark == ". " || mark == ") ")
    }

    /// The text with a full stop, unless it ends in punctuation.
    private static func ended(_ text: String) -> String {
        guard let last = text.last else { return "" }
        return ".!?:;,…".contains(last) ? text : text + "."
    }

    // MARK: Within a line

    /// The text of a line: links become their text, and images their description. Tags and marks of
    /// emphasis are left out.
    static func inline(_ text: Substring) -> String {
        var result = ""
        var rest = text
        while let character = rest.first {
            switch character {
            case "\\":
                // An escaped character is plain text.
                rest.removeFirst()
                if let next = rest.popFirst() { result.append(next) }
            case "!" where rest.dropFirst().first == "[":
                rest.removeFirst()
                appendLink(&rest, to: &result)
            case "[": appendLink(&rest, to: &result)
            case "<": appendTag(&rest, to: &result)
            case "`": rest.removeFirst()
            case "*", "_", "~": appendMark(&rest, to: &result)
            default:
                result.append(character)
                rest.removeFirst()
            }
        }
        return result
    }

    /// `[text](url)` and `[text][id]` become their text. Citations, `[^1]` and `[1](url)`, are left
    /// out. Of other brackets the content stays.
    private static func appendLink(_ rest: inout Substring, to result: inout String) {
        guard let close = matchingBracket(in: rest) else {
            rest.removeFirst()
            result.append(" ")
            return
        }
        let label = rest[rest.index(after: rest.startIndex)..<close]
        var after = rest[rest.index(after: close)...]
        let closing: Character? = after.first == "(" ? ")" : after.first == "[" ? "]" : nil
        let end = closing.flatMap { after.firstIndex(of: $0) }
        if let end { after = after[after.index(after: end)...] }
        rest = after
        if label.first == "^" || (end != nil && label.allSatisfy(\.isASCIIDigit)) { return }
        result += inline(label)
    }

    /// The closing bracket of the bracket that the text begins with; nil when there is none.
    private static func matchingBracket(in text: Substring) -> Substring.Index? {
        var depth = 0
        for index in text.indices {
            if text[index] == "[" { depth += 1 }
            if text[index] == "]" { depth -= 1 }
            if depth == 0 { return index }
        }
        return nil
    }

    /// `<https://…>` becomes its address. `<br>` and other tags become a space. A "<" that begins
    /// no tag stays.
    private static func appendTag(_ rest: inout Substring, to result: inout String) {
        let inner = rest.dropFirst()
        guard let first = inner.first, first.isASCIILetter || first == "/" || first == "!",
            let close = inner.firstIndex(of: ">")
        else {
            result.append("<")
            rest.removeFirst()
            return
        }
        let content = inner[..<close]
        if content.contains("://") || content.contains("@") {
            result += content
        } else {
            result.append(" ")
        }
        rest = inner[inner.index(after: close)...]
    }

    /// Marks of emphasis are left out. `*` between spaces or digits is a sign and becomes `×`; `~`
    /// before a digit stays; `_` within a word becomes a space.
    private static func appendMark(_ rest: inout Substring, to result: inout String) {
        let mark = rest.removeFirst()
        let before = result.last ?? " "
        let after = rest.first ?? " "
        let isAlone =
            before == " " && after == " " && !result.isEmpty && rest.contains { $0 != " " }
        let joinsDigits = before.isASCIIDigit && after.isASCIIDigit
        switch mark {
        case "*" where isAlone || joinsDigits: result.append("×")
        case "~" where !before.isASCIIDigit && after.isASCIIDigit: result.append("~")
        case "_" where before != " " && after != " " && after != "_": result.append(" ")
        default: break
        }
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text.drop { $0 == " " }
        while text.last == " " { text.removeLast() }
        return text
    }
}
