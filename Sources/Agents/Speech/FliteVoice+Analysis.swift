// flite's text analysis without its sound: the words of a text and their phones, for the natural
// voice (Agents/NaturalVoice).

import CFlite

extension FliteVoice {
    /// Analyses a piece of text, which must be ASCII. About 0.3 ms.
    func analyse(_ text: String) -> [AnalysedWord] {
        guard let utterance = new_utterance() else { return [] }
        defer { delete_utterance(utterance) }
        utt_set_input_text(utterance, text)
        guard utt_init(utterance, voice) != nil, utt_synth_text2segs(utterance) != nil,
            let relation = utt_relation(utterance, "Word")
        else { return [] }
        return Self.items(from: relation_head(relation)).map(Self.word)
    }

    private static func word(_ item: UnsafeMutablePointer<cst_item>) -> AnalysedWord {
        var word = AnalysedWord(name: text("name", of: item), syllables: [])
        if let structure = item_as(item, "SylStructure") {
            word.syllables = items(from: item_daughter(structure)).map { syllable in
                AnalysedWord.Syllable(
                    isStressed: text("stress", of: syllable) == "1",
                    phones: items(from: item_daughter(syllable)).map { text("name", of: $0) })
            }
        }
        if let place = item_as(item, "Token"), item_next(place) == nil,
            let token = item_parent(place)
        {
            word.punctuation = text("punc", of: token)
        }
        if let place = item_as(item, "Phrase") { word.endsPhrase = item_next(place) == nil }
        return word
    }

    /// An item and those after it.
    private static func items(
        from first: UnsafeMutablePointer<cst_item>?
    ) -> [UnsafeMutablePointer<cst_item>] {
        var items: [UnsafeMutablePointer<cst_item>] = []
        var next = first
        while let item = next {
            items.append(item)
            next = item_next(item)
        }
        return items
    }

    /// A feature of an item as text; empty where it has none.
    private static func text(
        _ feature: String, of item: UnsafeMutablePointer<cst_item>
    ) -> String {
        guard item_feat_present(item, feature) != 0,
            let value = item_feat_string(item, feature)
        else { return "" }
        return String(cString: value)
    }
}
