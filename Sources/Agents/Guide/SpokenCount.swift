// The count that a user asks for: "count to ten", "count down from five", or "count 2 10" as a
// recogniser may hear it.

/// A count from one number to another, upwards or downwards.
struct SpokenCount: Equatable {
    /// The highest number: such a count is long enough to interrupt.
    static let maxNumber = 100

    var first: Int
    var last: Int

    /// The numbers in order.
    var numbers: [Int] {
        Array(stride(from: first, through: last, by: first <= last ? 1 : -1))
    }

    /// The rest of the count after a number, or nil where the count ends with it.
    func rest(after number: Int) -> SpokenCount? {
        guard number != last, numbers.contains(number) else { return nil }
        return SpokenCount(first: number + (first <= last ? 1 : -1), last: last)
    }

    init(first: Int, last: Int) {
        self.first = first
        self.last = last
    }

    /// The count that a message asks for, or nil where it asks for none.
    /// - Parameter words: the message's words, in lower case.
    init?(in words: [String]) {
        let verbs = ["count", "counting", "countdown"]
        guard let verb = words.firstIndex(where: verbs.contains) else { return nil }
        let rest = Array(words[(verb + 1)...])
        guard !["on", "me", "as"].contains(rest.first ?? "") else { return nil }
        let isDown =
            words[verb] == "countdown"
            || ["down", "backward", "backwards"].contains(where: rest.contains)
        var numbers = Self.numbers(in: rest)
        // "count to ten" is heard as "count two ten".
        if !rest.contains("from"), numbers.count > 1, numbers[0] == 2 { numbers.removeFirst() }
        let shown = numbers.filter { $0 >= 0 }.map { min($0, Self.maxNumber) }
        switch (shown.first, shown.dropFirst().first) {
        case (nil, _):
            // "Can you count?" "Keep counting" and longer messages are about something else.
            guard words.count <= 5, words[verb] != "counting" else { return nil }
            self.init(first: isDown ? 10 : 1, last: isDown ? 1 : 10)
        case (0?, nil): self.init(first: 10, last: 0)
        case (let one?, nil): self.init(first: isDown ? one : 1, last: isDown ? 1 : one)
        case (let one?, let other?): self.init(first: one, last: other)
        }
    }

    /// The numbers among words, as digits or as words up to a hundred.
    private static func numbers(in words: [String]) -> [Int] {
        var numbers: [Int] = []
        var position = 0
        while position < words.count {
            let word = words[position]
            position += 1
            if let digits = Int(word) {
                numbers.append(digits)
            } else if let ten = tens[word] {
                if position < words.count, let one = ones[words[position]], one < 10 {
                    numbers.append(ten + one)
                    position += 1
                } else {
                    numbers.append(ten)
                }
            } else if word == "hundred" {
                // "one hundred", "a hundred": the word before it adds nothing.
                if numbers.last == 1 { numbers.removeLast() }
                numbers.append(100)
            } else if let one = ones[word] {
                numbers.append(one)
            }
        }
        return numbers
    }

    private static let ones: [String: Int] = [
        "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
        "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13,
        "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18,
        "nineteen": 19,
    ]
    private static let tens: [String: Int] = [
        "twenty": 20, "thirty": 30, "forty": 40, "fourty": 40, "fifty": 50, "sixty": 60,
        "seventy": 70, "eighty": 80, "ninety": 90,
    ]
}
