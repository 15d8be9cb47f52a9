// What memory on the heap takes from the process, from its size alone: the allocator's header and
// rounding, and what Swift puts before the elements of an array and the bytes of a string. For the
// memory ledger, which reads what is held off the values that hold it.
//
// Nothing is asked of the allocator: a figure here is the same in every run, and costs no call.
// Tests compare all of them with `malloc_usable_size` of the real thing.
//
// Source: glibc's malloc (64 bit): a block has a header of 8 bytes, is a multiple of 16 and at
// least 32. Swift 6: a string of more than 15 bytes, an array and an object begin with 32, 32
// and 16.

/// Sizes of blocks on the heap.
public enum HeapBlock {
    /// Bytes that glibc's allocator takes for `count` of them; 0 for none.
    @inlinable public static func bytes(_ count: Int) -> Int {
        count > 0 ? max(32, (count + 8 + 15) & ~15) : 0
    }

    /// Bytes of an array with room for `capacity` elements of `stride` bytes; 0 without room.
    @inlinable public static func array(capacity: Int, stride: Int) -> Int {
        capacity > 0 ? bytes(32 + capacity * stride) : 0
    }

    /// Bytes of a string with room for `capacity` bytes of UTF-8; the first 15 need no block.
    @inlinable public static func string(capacity: Int) -> Int {
        guard capacity > 15 else { return 0 }
        // Beside the text a terminator and a word, and in longer ones another for breadcrumbs.
        return bytes(32 + capacity + 1 + (capacity < 64 ? 8 : 16))
    }

    /// Bytes of a dictionary with room for `capacity` entries, whose keys and values take `stride`
    /// together; 0 without room.
    public static func dictionary(capacity: Int, stride: Int) -> Int {
        guard capacity > 0 else { return 0 }
        // A power of two of buckets, of which three in four are filled at most.
        var buckets = 2
        while buckets * 3 < capacity * 4 { buckets *= 2 }
        return bytes(64 + max(8, buckets / 8) + buckets * stride)
    }
}

extension Array {
    /// Bytes of its storage, what its elements refer to left out. Arrays that share it each count.
    @inlinable public var heapBytes: Int {
        HeapBlock.array(capacity: capacity, stride: MemoryLayout<Element>.stride)
    }
}

extension String {
    /// Bytes of its storage, as if it had no room beyond its text.
    @inlinable public var heapBytes: Int { HeapBlock.string(capacity: utf8.count) }
}

extension Optional where Wrapped == String {
    /// Bytes of its storage; 0 for nil.
    @inlinable public var heapBytes: Int { self?.heapBytes ?? 0 }
}
