// What LoadTests/phonemes/compare.py needs of Parley: the front end of the natural voice, line by line from standard
// input to standard output.
//
//   phoneme-table spoken           the text that SpokenText makes of a line
//   phoneme-table phonemes FOLDER  the phonemes of a spoken text, and the CPU on standard error
//   phoneme-table guesses          the phonemes of a word by flite alone

import Agents
import Foundation

@main
struct PhonemeLines {
    static func main() throws {
        var lines: [String] = []
        while let line = readLine() { lines.append(line) }
        switch CommandLine.arguments.dropFirst().first {
        case "spoken":
            for line in lines { print(SpokenText.pieces(of: line).joined(separator: " ")) }
        case "guesses":
            for line in lines { print(GuessedSounds.byFlite(line)) }
        case "phonemes" where CommandLine.arguments.count > 2:
            let phonemizer = try Phonemizer(folder: CommandLine.arguments[2])
            let start = clock()
            // No clause is cut within a sentence: the other front end does not cut there.
            let read = lines.map { phonemizer.clauses(of: $0, maxSymbols: 100_000) }
            let microseconds = Double(clock() - start) * 1e6 / Double(CLOCKS_PER_SEC)
            for clauses in read { print(clauses.joined(separator: " ")) }
            let words = lines.reduce(0) { $0 + $1.split(separator: " ").count }
            let cost = String(format: "%.1f", microseconds / Double(max(1, words)))
            FileHandle.standardError.write(Data("\(cost) µs of CPU a word\n".utf8))
        default:
            FileHandle.standardError.write(
                Data("phoneme-table spoken | guesses | phonemes FOLDER\n".utf8))
            exit(2)
        }
    }
}
