// Checks files against SHA256SUMS, in a temporary folder.

import Foundation
import Testing

@testable import Agents

@Suite final class ModelChecksumsTests {
    private let folder = FileManager.default.temporaryDirectory
        .appending(path: "parley-checksums-\(UUID())")

    init() throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try write("abc", to: "a.onnx")
        try write("", to: "b.txt")
        try write(
            """
            ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.onnx
            e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 *b.txt
            no checksum at all

            """, to: ModelChecksums.fileName)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    private func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: folder.appending(path: name))
    }

    private func firstDamaged(_ paths: String...) throws -> String? {
        let checksums = try #require(ModelChecksums(directory: folder.path))
        switch checksums.firstFault(of: paths) {
        case .damaged(let path): return path
        case .unreadable(let path): return "unreadable: \(path)"
        case nil: return nil
        }
    }

    @Test func bothFormsOfALineAreRead() throws {
        #expect(try firstDamaged("a.onnx", "b.txt") == nil)
    }

    @Test(arguments: ["abd", "ab", "abcd", ""])
    func aFileWithOtherContentIsDamaged(content: String) throws {
        try write(content, to: "a.onnx")
        #expect(try firstDamaged("b.txt", "a.onnx") == "a.onnx")
    }

    @Test func aMissingOrUnlistedFileIsDamaged() throws {
        try write("abc", to: "c.txt")
        #expect(try firstDamaged("c.txt") == "c.txt")
        try FileManager.default.removeItem(at: folder.appending(path: "b.txt"))
        #expect(try firstDamaged("a.onnx", "b.txt") == "b.txt")
    }

    @Test func aFolderWithoutChecksumsHasNone() {
        #expect(ModelChecksums(directory: folder.path + "/nowhere") == nil)
    }

    @Test func aFileThatIsReplacedHasAnotherStamp() throws {
        let path = folder.appending(path: "a.onnx").path
        let before = try #require(ModelChecksums.Stamp(path: path))
        #expect(ModelChecksums.Stamp(path: path) == before)
        try FileManager.default.removeItem(atPath: path)
        #expect(ModelChecksums.Stamp(path: path) == nil)
        try write("abcd", to: "a.onnx")
        #expect(ModelChecksums.Stamp(path: path) != before)
    }
}
