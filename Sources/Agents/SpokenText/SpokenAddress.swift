// Web addresses and e-mail addresses in words.

/// Addresses of pages and mailboxes.
enum SpokenAddress {
    private static let schemes = ["https://", "http://", "ftp://", "mailto:", "www."]
    /// A name without a scheme is taken for an address only if it ends in one of these.
    private static let domains: Set<String> = [
        "com", "org", "net", "edu", "gov", "io", "dev", "ai", "app", "co", "uk", "de", "fr", "eu",
        "info", "me", "tv", "us", "ca", "ch", "at", "nl", "es", "it", "jp", "cn", "in", "au",
    ]
    /// Bytes of the longest address that is read out whole. If an address is longer, only its host
    /// is spoken, because a user would not remember the rest.
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
