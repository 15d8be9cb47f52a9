// Bytes of an object on the heap, from its class. The runtime knows the size of each class; Swift
// has no public name for that on Linux, so this binds the standard library's own function. A
// toolchain without it fails to link; nothing can go wrong silently. ShardLedgerTests compares each
// size with `malloc_usable_size` of a real object, and says what to do when an object grows.

import Codec

/// The size of a class's instances: the object's header and its stored properties.
@_silgen_name("$ss36_class_getInstancePositiveExtentSizeySiyXlXpF")
private func instanceBytes(of type: AnyClass) -> Int

extension HeapBlock {
    /// Bytes of an object of a class, as the allocator rounds them. For the ledgers, which read it
    /// once for each class.
    static func object(_ type: AnyClass) -> Int { bytes(instanceBytes(of: type)) }
}
