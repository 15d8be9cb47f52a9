// Classes of ASCII characters that the grammars of several protocols share. The classes of one
// protocol are beside its parser.

extension UInt8 {
    /// 0…9.
    package var isASCIIDigit: Bool { self >= UInt8(ascii: "0") && self <= UInt8(ascii: "9") }

    /// A…Z, a…z.
    package var isASCIILetter: Bool {
        self | 0x20 >= UInt8(ascii: "a") && self | 0x20 <= UInt8(ascii: "z")
    }

    /// 0…9, A…Z, a…z.
    package var isASCIIAlphanumeric: Bool { isASCIIDigit || isASCIILetter }
}
