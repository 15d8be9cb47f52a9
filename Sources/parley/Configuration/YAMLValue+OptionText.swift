// A value of the configuration file as the text that the option's flag would have. The option
// decides what the text means. A null within a value is left out, as if it were not there.

import Session
import YAML

extension YAMLValue {
    /// The text of a single value. A list is joined with commas where the option is a list, and its
    /// mappings become `name=value` fields where the option has records. Nil where the option
    /// cannot take what stands here.
    func optionText(_ form: SettingForm) -> String? {
        guard form == .list || form == .records, let items = items?.filter({ !$0.isNull })
        else { return text }
        let texts = items.compactMap { $0.text ?? (form == .records ? $0.recordText : nil) }
        return texts.count == items.count ? texts.joined(separator: ",") : nil
    }

    /// The members of a mapping as `name=value` with blanks between, and a list within as its
    /// values with `|` between.
    private var recordText: String? {
        guard case .map(let members) = self else { return nil }
        let present = members.filter { !$0.value.isNull }
        let fields = present.compactMap { member -> String? in
            let values = (member.value.items ?? [member.value]).filter { !$0.isNull }
            let texts = values.compactMap(\.text)
            guard texts.count == values.count, ([member.key] + texts).allSatisfy(Self.isUnquoted)
            else { return nil }
            return "\(member.key)=\(texts.joined(separator: "|"))"
        }
        return fields.count == present.count ? fields.joined(separator: " ") : nil
    }

    /// The text of a flag has no way to quote.
    private static func isUnquoted(_ text: String) -> Bool {
        !text.contains { " ,|".contains($0) || $0.isWhitespace }
    }
}
