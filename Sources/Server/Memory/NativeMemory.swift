// Memory that OpenSSL and libcurl allocate, by owner: an account per TLS connection and per session
// with requests under way, and one that all of the process shares. Each block remembers its account
// (CNativeMemory); the whole memory of a connection is on its ledger.
//
// Invariant: an account is open exactly as long as its owner lives. Blocks that a library keeps
// beyond that (a cache that it fills when first asked, a connection to be used again) move to the
// shared account. So the sum of all accounts is always what both libraries have allocated.

import CCurl
import CLinux
import CNativeMemory
import Synchronization

/// The account of what C libraries allocate for one owner. Confined to the thread that opened it.
struct NativeAccount: ~Copyable {
    private let pointer: OpaquePointer

    /// Opens an account at zero.
    init() {
        guard let pointer = parley_account_open() else {
            preconditionFailure("no memory for an account")
        }
        self.pointer = pointer
    }

    deinit {
        let left = parley_account_close(pointer)
        if left != 0 { NativeMemory.noteOutlived(Int(left)) }
    }

    /// Bytes that are charged to it, with what malloc adds to them.
    var bytes: Int { Int(parley_account_bytes(pointer)) }

    /// The same with the account itself.
    var heldBytes: Int { bytes + Self.ownBytes }
    /// A malloc block of three words.
    private static let ownBytes = 32

    /// Charges the account for the libraries' allocations on this thread until `end` is called.
    /// - Returns: the account that was charged before, for `end`.
    func begin() -> NativePayer { NativePayer(pointer: parley_owner_set(pointer)) }

    /// Charges the account for the libraries' allocations within `body`.
    func charge<Result, Failure: Error>(
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let before = begin()
        defer { before.end() }
        return try body()
    }
}

/// The account that was charged before another; as a rule the shared one.
struct NativePayer {
    fileprivate let pointer: OpaquePointer?

    /// The shared account.
    static var nobody: NativePayer { NativePayer(pointer: nil) }

    /// Charges the shared account from here on.
    /// - Returns: the account that was charged before, for `end`.
    static func suspend() -> NativePayer { NativePayer(pointer: parley_owner_set(nil)) }

    /// Charges this account again.
    func end() { _ = parley_owner_set(pointer) }
}

/// Such memory of the whole process.
package enum NativeMemory {
    /// Bytes of the shared account: contexts, caches, connections to services that wait to be used
    /// again.
    package static var sharedBytes: Int { Int(parley_shared_account_bytes()) }

    /// Whether OpenSSL allocates through our functions. It does, unless the program had used it
    /// before its own code began.
    package static var countsOpenSSL: Bool { parley_openssl_is_hooked() == 1 }

    /// Bytes that have outlived their owners since the start, and moved to the shared account.
    package static var outlivedBytes: Int { outlived.load(ordering: .relaxed) }

    /// Bytes that malloc takes for an object.
    static func blockBytes(of object: AnyObject) -> Int {
        malloc_usable_size(Unmanaged.passUnretained(object).toOpaque()) + MemoryLayout<Int>.size
    }

    private static let outlived = Atomic<Int>(0)

    static func noteOutlived(_ bytes: Int) { outlived.add(bytes, ordering: .relaxed) }

    /// `curl_global_init` may run once per process; a static initialiser does just that.
    package static let isCurlReady = parley_curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == 0
}
