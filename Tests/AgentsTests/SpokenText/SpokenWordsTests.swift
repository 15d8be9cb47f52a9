// Tables of numbers, addresses and Markdown, and the words spoken for them.

import Testing

@testable import Agents

@Suite struct SpokenWordsTests {
    @Test(arguments: [
        ("0", "zero"), ("7", "seven"), ("13", "thirteen"), ("21", "twenty-one"), ("40", "forty"),
        ("100", "one hundred"), ("342", "three hundred forty-two"),
        ("1,000", "one thousand"), ("12,345", "twelve thousand three hundred forty-five"),
        ("1000000", "one million"), ("-5", "minus five"), ("−5", "minus five"),
        ("3.14", "three point one four"), ("0.05", "zero point zero five"),
        (".5", "zero point five"), ("007", "zero zero seven"),
        (
            "1,234,567.5",
            "one million two hundred thirty-four thousand five hundred sixty-seven "
                + "point five"
        ),
        (
            "12345678901234567890",
            "one two three four five six seven eight nine zero one two three "
                + "four five six seven eight nine zero"
        ),
        ("#1", "number one"), ("~20", "about twenty"), ("3x", "three times"), ("B2", "B two"),
        ("1/2", "one half"), ("3/8", "three over eight"), ("10/10", "ten out of ten"),
        ("v2.0", "version two point zero"), ("1.2.3", "one point two point three"),
        ("5-10", "five to ten"), ("10–20", "ten to twenty"), ("A380", "A three hundred eighty"),
        ("A12345", "A one two three four five"), ("B07", "B zero seven"),
        ("1-12345678", "one, one two three four five six seven eight"),
    ])
    func numbers(written: String, spoken: String) { expect(written, spoken) }

    @Test(arguments: [
        ("1st", "first"), ("2nd", "second"), ("3rd", "third"), ("4th", "fourth"),
        ("12th", "twelfth"), ("20th", "twentieth"), ("21st", "twenty-first"),
        ("100th", "one hundredth"), ("103RD", "one hundred third"),
    ])
    func ordinals(written: String, spoken: String) { expect(written, spoken) }

    @Test(arguments: [
        ("$5", "five dollars"), ("$1", "one dollar"), ("$3.50", "three dollars and fifty cents"),
        ("$0.99", "ninety-nine cents"), ("€1.01", "one euro and one cent"),
        ("$1,234", "one thousand two hundred thirty-four dollars"), ("5€", "five euros"),
        ("£20", "twenty pounds"), ("$2.00", "two dollars"), ("-$5", "minus five dollars"),
        ("$3 million", "three million dollars"), ("$2.5B", "two point five billion dollars"),
        ("€2bn", "two billion euros"),
        ("US$10", "ten dollars"), ("¥500", "five hundred yen"), ("10 USD", "ten US dollars"),
    ])
    func currencies(written: String, spoken: String) { expect(written, spoken) }

    @Test(arguments: [
        ("50%", "fifty percent"), ("12.5%", "twelve point five percent"), ("1%", "one percent"),
        ("50 %", "fifty percent"), ("5-10%", "five to ten percent"),
        ("5 km", "five kilometers"), ("1 km", "one kilometer"), ("5km", "five kilometers"),
        ("20°C", "twenty degrees Celsius"), ("20 °C", "twenty degrees Celsius"),
        ("-3°", "minus three degrees"), ("100 km/h", "one hundred kilometers per hour"),
        ("16 kHz", "sixteen kilohertz"), ("8 GB", "eight gigabytes"),
        ("20ms", "twenty milliseconds"),
        ("6 ft", "six feet"), ("2 hrs", "two hours"), ("50 m²", "fifty square meters"),
        ("chapter 5 B", "chapter five B"), ("seat 12B", "seat twelve B"),
        ("a 7B model", "a seven B model"),
        ("12 B", "twelve B"), ("2 tbsp", "two tablespoons"), ("1 tsp.", "one teaspoon."),
        ("100 Mbps", "one hundred megabits per second"), ("60W", "sixty watts"),
        ("5 ft. tall", "five feet tall"), ("5 ft. It", "five feet. It"),
    ])
    func percentagesAndUnits(written: String, spoken: String) { expect(written, spoken) }

    @Test(arguments: [
        ("10:30", "ten thirty"), ("9:05", "nine oh five"), ("10:00", "ten o'clock"),
        ("17:00", "seventeen hundred"), ("5 p.m.", "five P.M."), ("5pm", "five P.M."),
        ("10:30 am", "ten thirty A.M."), ("10:30am", "ten thirty A.M."), ("9:00 AM", "nine A.M."),
        ("9:00-17:00", "nine o'clock to seventeen hundred"),
        ("23:59:59", "twenty-three fifty-nine"),
        ("24/7", "twenty-four seven"), ("9:10", "nine ten"), ("12:00", "twelve o'clock"),
    ])
    func times(written: String, spoken: String) { expect(written, spoken) }

    @Test(arguments: [
        ("2026-11-22", "November twenty-second, twenty twenty-six"),
        ("11/22/2026", "November twenty-second, twenty twenty-six"),
        ("22/11/2026", "November twenty-second, twenty twenty-six"),
        ("22.11.2026", "November twenty-second, twenty twenty-six"),
        ("12/11/2026", "December eleventh, twenty twenty-six"),
        ("May 3", "May third"), ("Nov. 3rd, 1984", "November third, nineteen eighty-four"),
        ("3 May 2005", "third of May two thousand five"), ("in 1900", "in nineteen hundred"),
        ("in 1905", "in nineteen oh five"), ("in 2010", "in twenty ten"),
        ("the 1980s", "the nineteen eighties"), ("Sept 30", "September thirtieth"),
        ("may 3 people", "may three people"), ("in 1792", "in seventeen ninety-two"),
        ("in 1600", "in sixteen hundred"), ("since 1066", "since ten sixty-six"),
        ("1040 files", "one thousand forty files"),
        ("1500 kg", "one thousand five hundred kilograms"),
        ("$1792", "one thousand seven hundred ninety-two dollars"),
        ("1492-1504", "fourteen ninety-two to fifteen oh four"),
        ("the 1600s", "the sixteen hundreds"), ("mid-1990s", "mid-nineteen nineties"),
        ("in his 30s", "in his thirties"), ("the '80s", "the eighties"),
        ("late 50s", "late fifties"),
        ("wait 30s", "wait thirty seconds"), ("her mid-20s.", "her mid-twenties."),
        ("1990-1995", "nineteen ninety to nineteen ninety-five"),
    ])
    func dates(written: String, spoken: String) { expect(written, spoken) }

    @Test(arguments: [
        ("https://example.com", "example dot com"), ("example.com.", "example dot com."),
        ("https://www.example.com/docs/api?q=1#top", "example dot com slash docs slash api"),
        ("http://localhost:8080/", "localhost colon eight thousand eighty"),
        ("jane.doe@example.org", "jane dot doe at example dot org"),
        ("mailto:a_b@c.de", "a underscore b at c dot de"), ("e.g. this", "for example this"),
        ("node.js", "node.js"), ("and/or", "and/or"), ("end.Start", "end.Start"),
        ("example.com/12345", "example dot com slash one two three four five"),
        (
            "https://example.com/a/very/long/path/that/nobody/will/ever/remember/anyway.html",
            "example dot com"
        ),
    ])
    func addresses(written: String, spoken: String) { expect(written, spoken) }

    @Test(arguments: [
        ("+1 (555) 123-4567", "plus one, five five five, one two three, four five six seven"),
        ("555-123-4567", "five five five, one two three, four five six seven"),
        ("call 555-1234.", "call five five five, one two three four."),
        ("(030) 1234567 now", "zero three zero, one two three four five six seven now"),
        ("+442079460000", "plus four four two zero seven nine four six zero zero zero zero"),
        (
            "+123456789",
            "one hundred twenty-three million four hundred fifty-six thousand seven hundred "
                + "eighty-nine"
        ),
        ("between 100-200 people", "between one hundred to two hundred people"),
    ])
    func telephones(written: String, spoken: String) { expect(written, spoken) }

    @Test(arguments: [
        ("It costs $5.", "It costs five dollars."), ("(about 20)", "(about twenty)"),
        ("\"3.5\", he said", "\"three point five\", he said"), ("Is it 5?", "Is it five?"),
        ("a & b", "a and b"), ("2 + 2 = 4", "two plus two equals four"), ("5×3", "five × three"),
        ("5, km", "five, km"), ("1 + 1,5", "one plus one point five"),
    ])
    func punctuationAroundANumberStays(written: String, spoken: String) { expect(written, spoken) }

    @Test(arguments: [
        ("a 32-bit word", "a thirty-two-bit word"), ("COVID-19", "COVID-nineteen"),
        ("GPT-4o", "GPT-four o"), ("2C-543", "two C-five hundred forty-three"),
        ("444.6C", "four hundred forty-four point six C"), ("2.0.x", "two point zero point x"),
        ("node2.js", "node two dot js"), ("F-16s", "F-sixteens"), ("mp3.", "mp three."),
        ("P-A-R-L-E-Y", "P, A, R, L, E, Y"), ("X-ray", "X-ray"), ("A-B", "A-B"),
        ("odds of 4:1", "odds of four to one"), ("he is 6'2\".", "he is six foot two."),
        ("9am-5pm", "nine A.M. to five P.M."), ("9:00 a.m. - 5 p.m.", "nine A.M. to five P.M."),
        ("3.5%-4%", "three point five percent to four percent"),
        ("$5-$10", "five dollars to ten dollars"), ("$5-10", "five to ten dollars"),
        ("5kg-10kg", "five kilograms to ten kilograms"), ("C# and .NET", "C sharp and dot net"),
        ("World War II.", "World War two."), ("Henry VIII died", "Henry the eighth died"),
        ("Chapter IV", "Chapter four"), ("World War I was", "World War one was"),
        ("Part I read", "Part I read"),
        ("the War, II", "the War, II"), ("Mark V. Lee", "Mark V. Lee"),
        ("Charles V died", "Charles the fifth died"),
        ("James L Lee", "James L Lee"),
        ("Louis XIV", "Louis the fourteenth"), ("Class IIII", "Class IIII"),
        ("John Mix", "John Mix"),
        ("Apollo XIII", "Apollo thirteen"), ("mix II", "mix II"), ("London–Paris", "London-Paris"),
    ])
    func lettersAndDigitsOfOneWord(written: String, spoken: String) { expect(written, spoken) }

    @Test(arguments: [
        ("5th Ave.", "fifth Avenue."), ("42 Fifth Ave., here", "forty-two Fifth Avenue, here"),
        ("On Fifth Ave. the shops", "On Fifth Avenue the shops"),
        ("Sunset Blvd", "Sunset Boulevard"),
        ("12 Main St. is", "twelve Main Street is"), ("Main St.", "Main Street."),
        ("12 Oak Ct, Reno", "twelve Oak Court, Reno"),
        ("Oak Ln. and Elm Rd.", "Oak Lane and Elm Road."),
        ("St. Louis", "Saint Louis"), ("the St. Helens road", "the Saint Helens road"),
        ("Mt. Everest", "Mount Everest"), ("Ft. Worth", "Fort Worth"),
        ("I-5 Hwy", "I-five Highway"),
        ("123 N. Main St.", "one hundred twenty-three North Main Street."),
        ("12 Oak Dr. Reno", "twelve Oak Drive. Reno"), ("Dr. Oak", "Doctor Oak"),
        ("Dr Who", "Doctor Who"), ("Mr. and Mrs. Lee", "Mr and Mrs Lee"), ("Ms. Lee", "Miz Lee"),
        ("Prof. Lee", "Professor Lee"), ("Gen. Lee", "General Lee"),
        ("John Lee Jr. left", "John Lee Junior left"),
        ("Acme Inc. is", "Acme Incorporated is"), ("Ford Motor Co.", "Ford Motor Company."),
        ("No. 5", "Number five"), ("no. 5", "number five"), ("no. Five", "no. Five"),
        ("Apt. 4B", "Apartment four B"), ("Ste. 200", "Suite two hundred"),
        ("pp. 3-5", "pages three to five"),
        ("Fig. 2", "Figure two"), ("ext. 12", "extension twelve"), ("a fig. It", "a fig. It"),
        ("on Tues. we", "on Tuesday we"), ("Mon.-Fri.", "Monday to Friday."),
        ("Mon–Thu", "Monday to Thursday"),
        ("on Sat. 10-2", "on Saturday ten to two"), ("the hot Sun. It", "the hot Sun. It"),
        ("42 N. 2nd St.", "forty-two North second Street."), ("vitamin E. It", "vitamin E. It"),
        ("in Jan. we", "in January we"),
        ("they wed. Then", "they wed. Then"),
        ("the dept. of", "the department of"), ("cats vs. dogs", "cats versus dogs"),
        ("tea, etc. are", "tea, et cetera are"), ("tea, etc. It", "tea, et cetera. It"),
        ("approx. 5", "approximately five"), ("Hello, Max.", "Hello, Max."),
        ("on the St.", "on the St."),
        ("the U.S. is", "the U.S. is"), ("at 5 p.m. we", "at five P.M. we"),
        ("at 5 p.m.", "at five P.M."),
        ("at 5 PM.", "at five P.M."), ("A co. of", "A co. of"), ("Is it no.", "Is it no."),
    ])
    func abbreviations(written: String, spoken: String) { expect(written, spoken) }

    @Test(arguments: [
        ("so - yes", "so — yes"), ("so -- yes", "so — yes"), ("so--yes", "so — yes"),
        ("so --- yes", "so — yes"), ("well-known", "well-known"), ("- yes", "- yes"),
        ("x -", "x -"),
    ])
    func dashesOfATypewriter(written: String, spoken: String) { expect(written, spoken) }

    private func expect(
        _ written: String, _ spoken: String, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(SpokenWords.spoken(written) == spoken, sourceLocation: sourceLocation)
    }

    /// Random text gives some output and never traps.
    @Test func survivesRandomText() {
        var random = SplitMix(state: 7)
        let alphabet = Array("0123456789.,:-/%$€()[]!*_`#|<>@+ab AM\n\\~°²é語🎉".unicodeScalars)
        for _ in 0..<3_000 {
            var text = String.UnicodeScalarView()
            for _ in 0..<Int.random(in: 0...24, using: &random) {
                text.append(alphabet.randomElement(using: &random)!)
            }
            _ = SpokenText.pieces(of: String(text))
        }
    }
}
