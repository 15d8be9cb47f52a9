// Markdown within a line: links become their text, and images their description. Tags and marks of
// emphasis are left out. SpokenMarkdown reads the lines.
//
// Most constructs are known by what follows them, so a character or a few are held back. Text that
// is not the construct that it looked like is plain text.

import Codec

extension SpokenMarkdown {
    /// Characters of an address, and of a tag, that are held back at most.
    private static let maxTarget = 2_048
    private static let maxTag = 256
    /// The same for a label that may be a citation.
    private static let maxLabel = 16

    /// Reads a character of a line.
    mutating func takeInWords(_ piece: Piece) {
        switch hold {
        case .nothing: begin(piece)
        case .escape:
            hold = .nothing
            emit(piece)
        case .bang:
            hold = .nothing
            if piece.scalar != "[" { emitHeld() } else { held = [] }
            begin(piece)
        case .label: takeInLabel(piece)
        case .labelEnd: takeBehindLabel(piece)
        case .target: takeInTarget(piece)
        case .tag: takeInTag(piece)
        case .ticks: takeBehindTicks(piece)
        case .mark: takeBehindMark(piece)
        case .times:
            guard piece.scalar != " " else { return held.append(piece) }
            hold = .nothing
            held[0].scalar = "×"
            emitHeld()
            begin(piece)
        }
    }

    private mutating func begin(_ piece: Piece) {
        switch piece.scalar {
        case "\\": hold = .escape
        case "!": holdBack(piece, as: .bang)
        case "[":
            label = []
            hold = .label
        case "]":
            label = []
            hold = .labelEnd
        case "<" where !hasNoTag: holdBack(piece, as: .tag)
        case "`", "~": holdBack(piece, as: .ticks)
        case "*", "_": holdBack(piece, as: .mark)
        case "|" where isRow: endCell(at: piece.origin)
        default: emit(piece)
        }
    }

    private mutating func holdBack(_ piece: Piece, as hold: Hold) {
        self.hold = hold
        held.append(piece)
    }

    mutating func emitHeld() {
        for piece in takeHeld() { emit(piece) }
    }

    /// Ends the line, and decides what the held-back text is.
    mutating func endWords() {
        // Text that is read again may hold something back itself.
        while hold != .nothing {
            let ended = hold
            hold = .nothing
            switch ended {
            case .nothing, .escape: break
            case .bang: emitHeld()
            case .label: endLabel(isClosed: false)
            case .labelEnd: endLabel(isClosed: true)
            case .target: failTarget()
            case .tag: failTag()
            case .ticks, .mark: held = []
            case .times:
                held.removeFirst()
                emitHeld()
            }
        }
    }

    // MARK: Links

    /// `[^1]` and `[1](url)` are citations, and left out. The content of other brackets stays.
    private mutating func takeInLabel(_ piece: Piece) {
        let isCitation = label.first?.scalar == "^"
        if piece.scalar == "]" { return hold = .labelEnd }
        let mayGoOn =
            isCitation || ("0"..."9").contains(piece.scalar)
            || (label.isEmpty && piece.scalar == "^")
        guard mayGoOn, label.count < Self.maxLabel else {
            hold = .nothing
            endLabel(isClosed: false)
            return begin(piece)
        }
        label.append(piece)
    }

    /// Ends a label that no address follows: it is part of the text.
    private mutating func endLabel(isClosed: Bool) {
        let pieces = label
        label = []
        if isClosed, pieces.first?.scalar == "^" { return }
        for piece in pieces { emit(piece) }
    }

    private mutating func takeBehindLabel(_ piece: Piece) {
        guard !hasNoTarget, piece.scalar == "(" || piece.scalar == "[" else {
            endLabel(isClosed: true)
            hold = .nothing
            return begin(piece)
        }
        targetEnd = piece.scalar == "(" ? ")" : "]"
        targetDepth = 0
        holdBack(piece, as: .target)
    }

    /// `[text](url)` and `[text][id]` become their text.
    private mutating func takeInTarget(_ piece: Piece) {
        held.append(piece)
        if piece.scalar == held[0].scalar { targetDepth += 1 }
        if piece.scalar == targetEnd {
            guard targetDepth > 0 else {
                (held, label) = ([], [])
                return hold = .nothing
            }
            targetDepth -= 1
        }
        if held.count >= Self.maxTarget { failTarget() }
    }

    /// The address does not end: it is plain text, and so are those that seem to begin in it.
    private mutating func failTarget() {
        hold = .nothing
        endLabel(isClosed: true)
        hasNoTarget = true
        readAgain(takeHeld(), as: .words)
    }

    // MARK: Tags

    /// `<https://…>` becomes its address. `<br>` and other tags become a space. A "<" that begins no
    /// tag stays.
    private mutating func takeInTag(_ piece: Piece) {
        let scalar = piece.scalar
        if held.count == 1, !scalar.isLetter, scalar != "/", scalar != "!" {
            return failTag(before: piece)
        }
        guard scalar == ">" else {
            held.append(piece)
            if held.count >= Self.maxTag { failTag() }
            return
        }
        hold = .nothing
        let content = takeHeld().dropFirst()
        let isAddress =
            content.contains { $0.scalar == "@" }
            || zip(content, content.dropFirst()).contains { $0.scalar == ":" && $1.scalar == "/" }
        if isAddress {
            for piece in content { emit(piece) }
        } else {
            emit(Piece(scalar: " ", origin: piece.origin))
        }
    }

    private mutating func failTag(before next: Piece? = nil) {
        hold = .nothing
        let pieces = takeHeld()
        emit(pieces[0])
        if next == nil { hasNoTag = true }
        readAgain(Array(pieces.dropFirst()), as: .words)
        if let next { take(next) }
    }

    // MARK: Marks

    private mutating func takeBehindTicks(_ piece: Piece) {
        guard piece.scalar == held[0].scalar else {
            let mark = takeHeld()[0]
            hold = .nothing
            // A tilde before a digit means "about".
            let isAbout = mark.scalar == "~" && last?.isDigit != true && piece.scalar.isDigit
            if isAbout { emit(mark) }
            return begin(piece)
        }
        held.append(piece)
        guard held.count == 3 else { return }
        let first = takeHeld()[0]
        hold = .nothing
        openFence(at: first)
    }

    /// `*` between spaces or digits is a sign and becomes `×`; `_` within a word becomes a space.
    private mutating func takeBehindMark(_ piece: Piece) {
        let before = last ?? " "
        let next = piece.scalar
        if held[0].scalar == "*", before == " ", next == " ", last != nil {
            return holdBack(piece, as: .times)
        }
        var mark = takeHeld()[0]
        hold = .nothing
        if mark.scalar == "*", before.isDigit, next.isDigit {
            mark.scalar = "×"
            emit(mark)
        } else if mark.scalar == "_", before != " ", next != " ", next != "_" {
            mark.scalar = " "
            emit(mark)
        }
        begin(piece)
    }
}

extension Unicode.Scalar {
    /// 0…9.
    fileprivate var isDigit: Bool { ("0"..."9").contains(self) }
    /// A…Z, a…z.
    fileprivate var isLetter: Bool { ("a"..."z").contains(self) || ("A"..."Z").contains(self) }
}
