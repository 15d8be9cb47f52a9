// Markdown → the sentences that a person would read out: headings, lists, tables, code, links,
// emphasis (CommonMark 0.31 and GitHub's tables, as far as models write them). Pictures such as emoji
// are left out, because a voice would say their names. The words stay as they are: SpokenText of the
// Agents replaces numbers and signs for the embedded voices.
//
// This is the one place where a reply becomes words for a voice. Speech services and the embedded
// voices get a clause at a time (`plain`). A carrier that speaks itself gets the reply while it is
// written (`append`). HeardWords finds in the reply what such a carrier has said (`words`).
// SpokenMarkdown+Inline has what stands within a line.
//
// Invariant: every input gives some output, the same however it is cut. Each character is looked at
// a bounded number of times: text that is held back and proves to be plain is read again once.

import Codec

/// Turns Markdown into plain text.
package struct SpokenMarkdown {
    /// Said in place of a block of code.
    package static let codeBlock = "Code example."

    /// Characters of a line that are held back at its beginning at most.
    private static let maxHeld = 1_024

    /// A character, and where it stands in the text, in UTF-8 bytes.
    struct Piece {
        var scalar: Unicode.Scalar
        var origin: Int
    }

    /// The part of a line that is being read.
    enum Place {
        /// The beginning, until it is known what kind of line it is.
        case head
        /// Behind the mark of an item, where the box of a task may stand.
        case item
        case words
        /// Behind the marks that open a block of code, in their line.
        case fence
        case code
    }

    /// The kind of construct that is held back within a line.
    enum Hold {
        case nothing
        /// Behind a backslash: the next character is plain text.
        case escape
        case bang
        /// Digits or a `^` behind a bracket.
        case label
        /// Behind the bracket that closes a label.
        case labelEnd
        /// The address of a link, up to its bracket.
        case target
        case tag
        /// Backquotes or tildes, of which three are a fence.
        case ticks
        /// A mark of emphasis.
        case mark
        /// A star between spaces.
        case times
    }

    var place = Place.head
    var hold = Hold.nothing
    /// The text that is held back, and the label before it.
    var held: [Piece] = []
    var label: [Piece] = []
    /// Brackets that are open in the address of a link, and the one that closes it.
    var targetDepth = 0
    var targetEnd: Unicode.Scalar = ")"
    /// Whether a link's address, or a tag, has no end in this line.
    var hasNoTarget = false
    var hasNoTag = false
    /// Whether all of the line so far may be a rule.
    var mayBeRule = true
    /// Whether the line is a heading, an item or a row: it ends as a sentence does.
    var isBlock = false
    var isHeading = false
    var isRow = false
    /// Characters that are dropped at the end of a heading or a cell.
    var trailing: [Piece] = []
    /// Whether a line, or a cell, is complete, and more follows it.
    var awaitsLine = false
    var awaitsCell = false
    /// The last character of the line so far.
    var last: Unicode.Scalar?
    /// Whether a picture was left out behind it.
    var hasLeftOut = false
    /// Where that line or cell ends.
    var separator = 0
    /// Where the marks stand that open a block of code.
    private var fence = 0
    /// Whether three marks of a fence stand in this line of code.
    var hasFence = false
    var ticks = 0
    /// Where the next character stands.
    var origin = 0
    var output: [Piece] = []

    package init() {}

    /// Bytes on the heap.
    package var heapBytes: Int {
        held.heapBytes + label.heapBytes + trailing.heapBytes + output.heapBytes
    }

    /// The text without Markdown's marks, its lines joined to sentences.
    package static func plain(_ text: String) -> String {
        var markdown = SpokenMarkdown()
        return markdown.append(text) + markdown.finish()
    }

    /// Takes more of a text.
    /// - Returns: the part that can be spoken now. It may be empty.
    package mutating func append(_ text: String) -> String {
        read(text)
        return takeOutput()
    }

    /// The text is complete.
    /// - Returns: what was held back.
    package mutating func finish() -> String {
        endText()
        defer { self = SpokenMarkdown() }
        return takeOutput()
    }

    /// A spoken word.
    struct Word: Equatable {
        /// Its letters and digits, in small letters.
        let letters: String
        /// Where the white space behind it stands in the text, or the text's end, in UTF-8 bytes.
        let end: Int
    }

    /// The words of a text as they are said, in order.
    static func words(of text: String) -> [Word] {
        var markdown = SpokenMarkdown()
        markdown.read(text)
        markdown.endText()
        var words: [Word] = []
        var letters = String.UnicodeScalarView()
        func finishWord(at end: Int) {
            let word = String(letters).lowercased().filter { $0.isLetter || $0.isNumber }
            if !word.isEmpty { words.append(Word(letters: word, end: end)) }
            letters = String.UnicodeScalarView()
        }
        for piece in markdown.output {
            if piece.scalar.properties.isWhitespace {
                finishWord(at: piece.origin)
            } else {
                letters.append(piece.scalar)
            }
        }
        finishWord(at: text.utf8.count)
        return words
    }

    private mutating func read(_ text: String) {
        for scalar in text.unicodeScalars {
            take(Piece(scalar: scalar, origin: origin))
            origin += scalar.utf8.count
        }
    }

    private mutating func endText() {
        if place == .fence { openCode() }
        if place != .code { endLine(at: origin) }
    }

    private mutating func takeOutput() -> String {
        var text = String.UnicodeScalarView()
        for piece in output { text.append(piece.scalar) }
        output.removeAll(keepingCapacity: true)
        return String(text)
    }

    // MARK: Lines

    /// Reads a character.
    mutating func take(_ piece: Piece) {
        TextSteps.note()
        if piece.scalar.endsLine {
            if place == .fence {
                openCode()
            } else if place == .code {
                if hasFence { place = .head }
                (hasFence, ticks) = (false, 0)
            } else {
                endLine(at: piece.origin)
            }
            return
        }
        switch place {
        case .head: takeInHead(piece)
        case .item: takeInItem(piece)
        case .words: takeInWords(piece)
        case .fence: takeBehindFence(piece)
        case .code:
            ticks = piece.scalar == "`" || piece.scalar == "~" ? ticks + 1 : 0
            if ticks == 3 { hasFence = true }
        }
    }

    /// The line is complete.
    private mutating func endLine(at end: Int) {
        if place == .head {
            if mayBeRule, held.count >= 3 { held = [] }
            settleHead(isWhole: true)
        }
        if place == .item { readAgain(takeHeld(), as: .words) }
        endWords()
        endSentence(at: end)
        startLine()
    }

    /// A heading, an item or a row ends as a sentence does, and what follows is another one.
    private mutating func endSentence(at end: Int) {
        (trailing, awaitsCell, isHeading, isRow) = ([], false, false, false)
        guard let last else { return }
        if isBlock, !last.endsClause { emit(Piece(scalar: ".", origin: end)) }
        (awaitsLine, separator) = (true, end)
    }

    /// A cell of a row is complete.
    mutating func endCell(at end: Int) {
        trailing = []
        if last != nil, !awaitsCell { (awaitsCell, separator) = (true, end) }
    }

    private mutating func startLine() {
        place = .head
        (held, label, trailing) = ([], [], [])
        (mayBeRule, isBlock, isHeading, isRow) = (true, false, false, false)
        (awaitsCell, hasNoTarget, hasNoTag, hasLeftOut) = (false, false, false, false)
        last = nil
    }

    private mutating func takeInHead(_ piece: Piece) {
        let isSpace = piece.scalar == " " || piece.scalar == "\t"
        // White space before the line, and the marks of a quotation.
        if held.isEmpty, isSpace || piece.scalar == ">" { return }
        held.append(piece)
        mayBeRule = mayBeRule && "-*_=|: +".unicodeScalars.contains(piece.scalar)
        if held.count >= Self.maxHeld { mayBeRule = false }
        if !mayBeRule { settleHead(isWhole: false) }
    }

    /// Decides what kind of line begins, if that is known.
    private mutating func settleHead(isWhole: Bool) {
        guard let first = held.first?.scalar else { return place = .words }
        let second = held.count > 1 ? held[1].scalar : nil
        switch first {
        case "#":
            let hashes = held.prefix { $0.scalar == "#" }.count
            if hashes == held.count, hashes <= 6, !isWhole { return }
            if hashes <= 6, hashes < held.count, held[hashes].scalar == " " {
                (isBlock, isHeading) = (true, true)
                held.removeFirst(hashes + 1)
            }
        case "-", "*", "+", "•":
            if second == nil, !isWhole { return }
            if second == " " {
                isBlock = true
                return readAgain(Array(takeHeld().dropFirst(2)), as: .item)
            }
        case "|": (isBlock, isRow) = (true, true)
        case "0"..."9":
            let digits = held.prefix { ("0"..."9").contains($0.scalar) }.count
            if digits <= 3, held.count < digits + 2, !isWhole, isNumber(held[digits...]) { return }
            isBlock =
                digits <= 3 && held.count >= digits + 2 && isNumber(held[digits...])
                && held[digits + 1].scalar == " "
        default: break
        }
        readAgain(takeHeld(), as: .words)
    }

    /// Whether digits with this behind them may be the number of an item.
    private func isNumber(_ rest: ArraySlice<Piece>) -> Bool {
        guard let mark = rest.first?.scalar else { return true }
        return mark == "." || mark == ")"
    }

    /// The box of a task is left out: `[ ] `, `[x] `.
    private mutating func takeInItem(_ piece: Piece) {
        if held.isEmpty, piece.scalar == " " { return }
        held.append(piece)
        let box: [String.UnicodeScalarView] = ["[", " xX", "]", " "].map(\.unicodeScalars)
        guard box[held.count - 1].contains(piece.scalar) else {
            return readAgain(takeHeld(), as: .words)
        }
        if held.count == box.count {
            held = []
            place = .words
        }
    }

    /// Takes a piece of the line that opens a block of code. Another fence in the same line makes a
    /// span of it.
    private mutating func takeBehindFence(_ piece: Piece) {
        held.append(piece)
        ticks = piece.scalar == "`" ? ticks + 1 : 0
        if ticks == 3 {
            readAgain(Array(takeHeld().dropLast(3)), as: .words)
        } else if held.count >= Self.maxHeld {
            openCode()
        }
    }

    /// Three marks of a fence have come.
    mutating func openFence(at piece: Piece) {
        place = .fence
        fence = piece.origin
        ticks = 0
    }

    private mutating func openCode() {
        endSentence(at: fence)
        startLine()
        for scalar in Self.codeBlock.unicodeScalars { emit(Piece(scalar: scalar, origin: fence)) }
        endSentence(at: origin)
        startLine()
        place = .code
        (hasFence, ticks) = (false, 0)
    }

    // MARK: Holding back, and giving out

    mutating func takeHeld() -> [Piece] {
        defer { held = [] }
        return held
    }

    /// Reads the text that was held back.
    mutating func readAgain(_ pieces: [Piece], as place: Place) {
        self.place = place
        for piece in pieces { take(piece) }
    }

    /// Gives out a character of the line.
    mutating func emit(_ piece: Piece) {
        let scalar = piece.scalar
        if scalar.isPicture || (hasLeftOut && scalar.joinsPictures) || scalar.isVariation {
            hasLeftOut = true
            return
        }
        if scalar == " ", hasLeftOut, last == nil || last == " " { return }
        if isHeading || isRow, scalar == " " || (scalar == "#" && !trailing.isEmpty) {
            if last != nil, !awaitsCell { trailing.append(piece) }
            return
        }
        if awaitsLine { output.append(Piece(scalar: " ", origin: separator)) }
        if awaitsCell {
            output.append(Piece(scalar: ",", origin: separator))
            output.append(Piece(scalar: " ", origin: separator))
        } else {
            output += trailing
        }
        (awaitsLine, awaitsCell, hasLeftOut) = (false, false, false)
        trailing = []
        output.append(piece)
        last = scalar
    }
}
