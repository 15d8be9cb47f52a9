// Computes what a heap block takes from the process, from its size alone. That includes the
// allocator's header and rounding, and Swift's header before the elements of an array and the bytes
// of a string. The memory ledger uses it to measure values by their sizes.
//
// The allocator is not asked: a figure is the same in every run and costs no call. Tests compare
// each with `malloc_usable_size` of a real block.
//
// Swift derives the size of every value (`MemoryLayout`) and the runtime that of every class. There
// is no public name for the latter on Linux, so this file binds the standard library's own
// function. A toolchain without that function fails to link.
//
// Source: glibc's malloc (64 bit): a block has a header of 8 bytes, is a multiple of 16 and at
// least 32. Swift 6: a string of more than 15 bytes and an array have a header of 32 bytes, an
// object one of 16.

/// The size of a class's instances: the object's header and its stored properties.
@_silgen_name("$ss36_class_getInstancePositiveExtentSizeySiyXlXpF")
private func instanceBytes(of type: AnyClass) -> Int

/// Sizes of blocks on the heap.
public enum HeapBlock {
    /// Bytes that glibc's allocator takes for a request of `count` bytes; 0 for 0.
    @inlinable public static func bytes(_ count: Int) -> Int {
        count > 0 ? max(32, (count + 8 + 15) & ~15) : 0
    }

    /// Bytes of an object of a class. The ledgers keep the result in a constant of each class.
    public static func object(_ type: AnyClass) -> Int { bytes(instanceBytes(of: type)) }

    /// Bytes of an array with room for `capacity` elements of `stride` bytes; 0 for no capacity.
    @inlinable public static func array(capacity: Int, stride: Int) -> Int {
        capacity > 0 ? bytes(32 + capacity * stride) : 0
    }

    /// Bytes of a string with room for `capacity` bytes of UTF-8; up to 15 need no block.
    @inlinable public static func string(capacity: Int) -> Int {
        guard capacity > 15 else { return 0 }
        // After the text: a terminator and a word; longer strings have another word for
        // breadcrumbs.
        return bytes(32 + capacity + 1 + (capacity < 64 ? 8 : 16))
    }

    /// Bytes of a dictionary with room for `capacity` entries whose keys and values take `stride`
    /// bytes together; 0 for no capacity.
    public static func dictionary(capacity: Int, stride: Int) -> Int {
        guard capacity > 0 else { return 0 }
        // The number of buckets is a power of two; at most three in four are filled.
        var buckets = 2
        while buckets * 3 < capacity * 4 { buckets *= 2 }
        return bytes(64 + max(8, buckets / 8) + buckets * stride)
    }
}

extension Array {
    /// Heap bytes of its storage, without the memory that its elements refer to. Arrays that share
    /// storage each count it.
    @inlinable public var heapBytes: Int {
        HeapBlock.array(capacity: capacity, stride: MemoryLayout<Element>.stride)
    }
}

extension String {
    /// Heap bytes of its storage, as if it had no spare capacity.
    @inlinable public var heapBytes: Int { HeapBlock.string(capacity: utf8.count) }
}

extension Optional where Wrapped == String {
    /// Heap bytes of its storage; 0 for nil.
    @inlinable public var heapBytes: Int { self?.heapBytes ?? 0 }
}
