// Web addresses, e-mail addresses and telephone numbers in words.

/// Addresses of pages and mailboxes.
enum SpokenAddress {
    private static let schemes = ["https://", "http://", "ftp://", "mailto:", "www."]
    /// A name without a scheme is taken for an address only if it ends in one of these.
    private static let domains: Set<String> = [
        "com", "org", "net", "edu", "gov", "io", "dev", "ai", "app", "co", "uk", "de", "fr", "eu",
        "info", "me", "tv", "us", "ca", "ch", "at", "nl", "es", "it", "jp", "cn", "in", "au",
    ]
    /// Bytes of the longest address that is read out whole. Of a longer one only the host is said,
    /// because a listener would not remember the rest.
    private static let maxReadBytes = 60

    /// "https://example.com/docs" → "example dot com slash docs"; nil for other words.
    static func spoken(_ word: Substring) -> String? {
        var rest = word
        var hasScheme = false
        for scheme in schemes where rest.lowercased().hasPrefix(scheme) {
            rest = rest.dropFirst(scheme.count)
            hasScheme = true
        }
        guard !rest.isEmpty else { return nil }
        let address = rest.prefix { !"?#".contains($0) }
        let host = address.prefix { $0 != "/" }
        guard hasScheme || isMailbox(host) || isHost(host) else { return nil }
        return read(address.utf8.count > maxReadBytes ? host : trimmed(address))
    }

    private static func trimmed(_ address: Substring) -> Substring {
        address.last == "/" ? address.dropLast() : address
    }

    private static func isMailbox(_ text: Substring) -> Bool {
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        return parts.count == 2 && !parts[0].isEmpty && parts[1].contains(".")
    }

    private static func isHost(_ text: Substring) -> Bool {
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        guard labels.count >= 2, let last = labels.last, domains.contains(String(last)) else {
            return false
        }
        return labels.allSatisfy { label in
            !label.isEmpty
                && label.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == "-" }
        }
    }

    private static func read(_ address: Substring) -> String {
        var words: [String] = []
        var run = ""
        func finishRun() {
            guard !run.isEmpty else { return }
            let isNumber = run.allSatisfy(\.isASCIIDigit)
            words.append(isNumber ? numberWords(run) : SpokenNumber.separated(run))
            run = ""
        }
        for character in address {
            if let name = names[character] {
                finishRun()
                words.append(name)
            } else {
                run.append(character)
            }
        }
        finishRun()
        return words.joined(separator: " ")
    }

    private static func numberWords(_ digits: String) -> String {
        digits.count <= 4
            ? NumberWords.cardinal(Substring(digits)) : NumberWords.digits(Substring(digits))
    }

    private static let names: [Character: String] = [
        ".": "dot", "/": "slash", "@": "at", "-": "dash", "_": "underscore", ":": "colon",
        "=": "equals", "&": "and", "+": "plus", "~": "tilde", "%": "percent",
    ]
}

/// A telephone number, which may consist of several words.
struct SpokenPhone {
    /// The number in words: digit by digit, with a pause after each group.
    let spoken: String
    /// How many words of the text it consists of.
    let wordCount: Int

    /// Understands "+1 (555) 123-4567", "555-123-4567", "(030) 1234567", "555-1234".
    init?(_ words: ArraySlice<Substring>) {
        var groups: [Substring] = []
        var isMarked = false
        var taken = 0
        var tail = ""
        for word in words.prefix(6) {
            let core = word.prefix { $0.isASCIIDigit || "+()-".contains($0) }
            let rest = word[core.endIndex...]
            guard core.contains(where: \.isASCIIDigit),
                rest.allSatisfy({ ".,!?;:".contains($0) }),
                taken == 0 || core.first != "+", core.first != "-"
            else { break }
            let found = core.split { !$0.isASCIIDigit }
            // This word is a number of its own, not a part of the telephone number.
            guard taken == 0 || isMarked || core.contains("(") else { break }
            isMarked =
                isMarked || (core.first == "+" && taken == 0) || core.contains("(")
                || Self.isPhone(found)
            guard isMarked || found.count == 1 else { break }
            groups += found
            taken += 1
            tail = String(rest)
            if !rest.isEmpty { break }
        }
        let digits = groups.reduce(0) { $0 + $1.count }
        guard isMarked, (7...15).contains(digits), groups.count > 1 || digits > 9 else {
            return nil
        }
        let plus = words.first?.first == "+" ? "plus " : ""
        spoken = plus + groups.map { NumberWords.digits($0) }.joined(separator: ", ") + tail
        wordCount = taken
    }

    /// Whether the groups have the lengths of a telephone number: 3-4, 3-3-4 or 1-3-3-4 digits.
    private static func isPhone(_ groups: [Substring]) -> Bool {
        let lengths = groups.map(\.count)
        return lengths == [3, 4] || lengths == [3, 3, 4] || lengths == [1, 3, 3, 4]
    }
}
