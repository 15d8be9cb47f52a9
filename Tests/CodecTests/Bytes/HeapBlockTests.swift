// HeapBlock's sizes, compared with the allocator's.

import CLinux
import Testing

@testable import Codec

@Suite struct HeapBlockTests {
    /// Bytes of the block at an address, including the allocator's header. A block may be 16 bytes
    /// larger than requested: glibc leaves no remainder that is smaller than a block.
    private static func block(at address: UnsafeRawPointer) -> Int {
        Int(malloc_usable_size(UnsafeMutableRawPointer(mutating: address))) + 8
    }

    @Test(arguments: [1, 16, 24, 25, 40, 41, 100, 1_000, 2_032, 18_228, 65_536])
    func aBlockHasTheAllocatorsSize(count: Int) throws {
        let memory = try #require(malloc(count))
        defer { free(memory) }
        let block = Self.block(at: memory)
        #expect([block, block - 16].contains(HeapBlock.bytes(count)))
    }

    @Test func noCapacityTakesNoBytes() {
        #expect(HeapBlock.bytes(0) == 0 && HeapBlock.array(capacity: 0, stride: 8) == 0)
        #expect([Int]().heapBytes == 0 && "a short one".heapBytes == 0)
        #expect(HeapBlock.dictionary(capacity: 0, stride: 8) == 0)
    }

    private class Small { var word = 0 }
    private final class Large: Small { var words = (0, 0, 0, 0, 0, 0, 0) }

    /// HeapBlock binds a function of the standard library that has no public name: right for Swift 6.3. A
    /// toolchain in which it means something else fails here.
    @Test func anObjectIsItsBlock() {
        for object in [Small(), Large()] {
            let block = Self.block(at: Unmanaged.passUnretained(object).toOpaque())
            #expect([block, block - 16].contains(HeapBlock.object(type(of: object))))
        }
    }

    @Test(arguments: [1, 3, 10, 100, 5_000])
    func anArrayIsItsBlock(count: Int) {
        let array = [Int](repeating: 0, count: count)
        let block = array.withUnsafeBytes { Self.block(at: $0.baseAddress! - 32) }
        // Spare room for less than one element may remain.
        #expect((0..<32).contains(block - array.heapBytes))
        let bytes = [UInt8](repeating: 0, count: count)
        let other = bytes.withUnsafeBytes { Self.block(at: $0.baseAddress! - 32) }
        #expect([other, other - 16].contains(bytes.heapBytes))
    }

    @Test(arguments: [16, 29, 31, 32, 47, 48, 63, 64, 65, 100, 200, 500, 1_000, 5_000])
    func aStringIsItsBlock(count: Int) {
        let string = String(decoding: [UInt8](repeating: 97, count: count), as: UTF8.self)
        // The address of a string's object is in its second word.
        let object = unsafeBitCast(string, to: (UInt, UInt).self).1 & 0x0FFF_FFFF_FFFF_FFFF
        let block = Self.block(at: UnsafeRawPointer(bitPattern: object)!)
        #expect([block, block - 16].contains(string.heapBytes))
    }

    @Test(arguments: [1, 3, 10, 100, 1_000])
    func aDictionaryIsItsBlock(count: Int) {
        let dictionary = Dictionary(uniqueKeysWithValues: (0..<count).map { ($0, $0) })
        let object = UnsafeRawPointer(bitPattern: unsafeBitCast(dictionary, to: UInt.self))!
        let stated = HeapBlock.dictionary(capacity: dictionary.capacity, stride: 16)
        #expect(abs(stated - Self.block(at: object)) <= 32)
    }
}
