// What the process takes of the machine's memory, and how much of it there is: the kernel's
// figures. They are read when somebody asks; nothing here is kept.
//
// Source: proc(5) for statm, the kernel's cgroup-v2.rst for memory.max.

import CLinux

/// The kernel's account of the process.
package struct ProcessMemory: Equatable, Sendable {
    /// Resident bytes, or 0 where `/proc` is not mounted.
    package var resident = 0
    /// Those of them that are no file's.
    package var `private` = 0

    /// As of now; one short file is read, some microseconds.
    package static var current: ProcessMemory {
        // "total resident shared …", in pages.
        let fields = firstLine(of: "/proc/self/statm").split(separator: " ").map { Int($0) ?? 0 }
        guard fields.count > 2 else { return ProcessMemory() }
        let page = Int(sysconf(Int32(_SC_PAGESIZE)))
        return ProcessMemory(
            resident: fields[1] * page, private: max(0, fields[1] - fields[2]) * page)
    }

    /// Bytes that are allocated now. What was freed, and the allocator keeps for the next or cannot
    /// give back between what is used, is resident beside them. It locks one arena of the
    /// allocator after another and looks at what is free in it.
    package static var allocated: Int {
        let heap = mallinfo2()
        return Int(heap.uordblks) + Int(heap.hblkhd)
    }

    /// Bytes that the process may take at most: the smallest limit of its control groups, or the
    /// machine's memory; nil where neither is known.
    package static var available: Int? {
        let pages = sysconf(Int32(_SC_PHYS_PAGES))
        let machine = pages > 0 ? Int(pages) * Int(sysconf(Int32(_SC_PAGESIZE))) : nil
        return [machine, groupLimit].compactMap(\.self).min()
    }

    /// The limit of the control group that the process is in, or of one around it. In a container
    /// the group's path is often that of the host, and the limit then lies at the root.
    private static var groupLimit: Int? {
        let root = "/sys/fs/cgroup"
        var path = firstLine(of: "/proc/self/cgroup")
        guard path.hasPrefix("0::/") else {
            return Int(firstLine(of: root + "/memory/memory.limit_in_bytes"))
        }
        path.removeFirst(3)
        var least: Int?
        while true {
            let limit = Int(firstLine(of: root + path + "/memory.max"))
            if let limit { least = min(least ?? limit, limit) }
            guard let slash = path.lastIndex(of: "/") else { return least }
            path.removeSubrange(slash...)
        }
    }

    private static func firstLine(of path: String) -> String {
        let file = parley_open_readonly(path)
        guard file >= 0 else { return "" }
        defer { close(file) }
        return withUnsafeTemporaryAllocation(byteCount: 4_096, alignment: 1) { buffer in
            let count = read(file, buffer.baseAddress, buffer.count)
            guard count > 0 else { return "" }
            let line = buffer[..<count].prefix { $0 != UInt8(ascii: "\n") }
            return String(decoding: line, as: UTF8.self)
        }
    }
}
