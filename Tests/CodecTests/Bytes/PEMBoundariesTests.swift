// Lines of PEM files that are missing, cut or glued, which OpenSSL's reader skips in silence.

import Testing

@testable import Codec

@Suite struct PEMBoundariesTests {
    private static let block = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    private static let bare = String(block.dropLast())

    private static let whole: [String] = [
        "", "words\n", block, block + block, bare, "words\n\(block)\n# ---- \n",
        "-- a line of dashes --\n\(block)", block.replacing("\n", with: " \r\n"),
        "\(block)-----BEGIN KEY-----\n-----END KEY-----",
    ]

    @Test(arguments: whole)
    func takesWhatIsWhole(text: String) {
        #expect(PEMBoundaries.damagedLine(in: Array(text.utf8)) == nil)
    }

    private static let damaged: [(String, Int)] = [
        (bare + block, 3), ("\(block)\(bare.dropLast())", 6), (block + "-----BEGIN CERT", 4),
        (block + "--", 4), (block + "-----BEGIN CERTIFICATE-----\nAA", 5),
        ("AAAA\n-----END CERTIFICATE-----\n", 2), (" " + block, 1), ("# root" + block, 1),
        (block.replacing("END CERTIFICATE", with: "END KEY"), 3),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n" + block, 3),
        ("-----BEGIN CERTIFICATE-----\n---\n-----END CERTIFICATE-----\n", 2),
    ]

    @Test(arguments: damaged)
    func namesTheFirstDamagedLine(text: String, line: Int) {
        #expect(PEMBoundaries.damagedLine(in: Array(text.utf8)) == line)
    }
}
