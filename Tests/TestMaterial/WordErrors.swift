// The measure of a transcript.

/// The fewest words to insert, delete or replace that make `heard` of `said`.
package func wordErrors(said: [String], heard: [String]) -> Int {
    var distances = Array(0...heard.count)
    for (row, word) in said.enumerated() {
        var diagonal = distances[0]
        distances[0] = row + 1
        for column in heard.indices {
            let replaced = diagonal + (heard[column] == word ? 0 : 1)
            diagonal = distances[column + 1]
            distances[column + 1] = min(
                replaced, distances[column] + 1, distances[column + 1] + 1)
        }
    }
    return distances[heard.count]
}
