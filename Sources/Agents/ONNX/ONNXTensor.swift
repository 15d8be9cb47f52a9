// What a model of the ONNX runtime reads and makes.

import CONNXRuntime

/// Numbers in a shape. Any thread: nothing changes them. The memory is freed with it.
final class ONNXTensor: @unchecked Sendable {
    private static let float = Int32(PARLEY_ORT_FLOAT)
    private static let int64 = Int32(PARLEY_ORT_INT64)

    /// The runtime's own object.
    let value: parley_ort_value
    private let runtime: ONNXRuntime
    /// The elements of an input. The runtime owns those of an output.
    private let memory: UnsafeMutableRawBufferPointer?

    /// A copy of floats.
    /// - Parameter shape: the product of its lengths is the number of elements.
    convenience init(
        _ elements: [Float], shape: [Int], _ runtime: ONNXRuntime
    ) throws(ONNXError) {
        let memory = elements.withUnsafeBytes(Self.copy)
        try self.init(memory: memory, shape: shape, type: Self.float, runtime)
    }

    /// A copy of integers.
    /// - Parameter shape: the product of its lengths is the number of elements.
    convenience init(
        _ elements: [Int64], shape: [Int], _ runtime: ONNXRuntime
    ) throws(ONNXError) {
        let memory = elements.withUnsafeBytes(Self.copy)
        try self.init(memory: memory, shape: shape, type: Self.int64, runtime)
    }

    private init(
        memory: UnsafeMutableRawBufferPointer, shape: [Int], type: Int32, _ runtime: ONNXRuntime
    ) throws(ONNXError) {
        self.memory = memory
        self.runtime = runtime
        let lengths = shape.map(Int64.init)
        do throws(ONNXError) {
            value = try runtime.made {
                parley_ort_create_tensor(
                    runtime.table, runtime.memory, memory.baseAddress, memory.count, lengths,
                    lengths.count, type, $0)
            }
        } catch {
            memory.deallocate()
            throw error
        }
    }

    /// What a model has made.
    init(made value: parley_ort_value, by runtime: ONNXRuntime) {
        self.value = value
        self.runtime = runtime
        memory = nil
    }

    deinit {
        parley_ort_release_value(runtime.table, value)
        memory?.deallocate()
    }

    /// Its elements, copied.
    /// - Throws: where they are no floats.
    func floats() throws(ONNXError) -> [Float] { try withFloats { Array($0) } }

    /// Lends its elements.
    /// - Throws: where they are no floats.
    func withFloats<Result>(
        _ body: (UnsafeBufferPointer<Float>) -> Result
    ) throws(ONNXError) -> Result {
        let (type, lengths) = try description()
        guard type == Self.float else {
            throw ONNXError(message: "the tensor has elements of type \(type)")
        }
        var data: UnsafeMutablePointer<Float>?
        try runtime.check(parley_ort_data(runtime.table, value, &data))
        let count = data == nil ? 0 : lengths.reduce(1, *)
        return withExtendedLifetime(self) { body(UnsafeBufferPointer(start: data, count: count)) }
    }

    /// The lengths of its dimensions.
    func shape() throws(ONNXError) -> [Int] { try description().lengths }

    /// The type of its elements, and the lengths of its dimensions.
    private func description() throws(ONNXError) -> (type: Int32, lengths: [Int]) {
        let shape = try runtime.made { parley_ort_shape_of(runtime.table, value, $0) }
        defer { parley_ort_release_shape(runtime.table, shape) }
        var (type, count): (Int32, Int) = (0, 0)
        try runtime.check(parley_ort_element_type(runtime.table, shape, &type))
        try runtime.check(parley_ort_dimension_count(runtime.table, shape, &count))
        var lengths = [Int64](repeating: 0, count: count)
        try runtime.check(parley_ort_dimensions(runtime.table, shape, &lengths, count))
        return (type, lengths.map(Int.init))
    }

    private static func copy(_ bytes: UnsafeRawBufferPointer) -> UnsafeMutableRawBufferPointer {
        let memory = UnsafeMutableRawBufferPointer.allocate(
            byteCount: bytes.count, alignment: MemoryLayout<Int64>.alignment)
        memory.copyMemory(from: bytes)
        return memory
    }
}
