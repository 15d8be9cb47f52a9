// Converts the checked fields that `session.update` and `response.create` share to their values.
// Fields/GenerationFields has the rules of the fields.

extension FunctionTool: ReadableObject {
    static var schema: ValueSchema { .object(FunctionToolFields.table) }

    /// Reads one element of `tools`. The protocol allows `type` to be omitted.
    init(_ fields: EventFields) throws(ClientEventError) {
        _ = try fields.read(FunctionToolFields.type)
        let parameters = try fields.read(FunctionToolFields.parameters)
        self.init(
            name: try fields.read(FunctionToolFields.name),
            description: try fields.read(FunctionToolFields.description), parameters: parameters)
    }
}
