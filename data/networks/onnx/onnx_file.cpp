#include "data/networks/onnx/onnx_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

#include "cohort/core/error.hpp"
#include "data/file/file_io.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr int kOnnxBool = 9;
constexpr int kExternal = 1;

[[noreturn]] void refuse_onnx(const std::string& path, const std::string& what) {
    fail<FileError>({.where = path,
                     .what = "not a whole ONNX file: " + what,
                     .hint = "exporting the network again"});
}

std::string read_whole(const std::string& path) {
    const FileDescriptor file = open_readable(path);
    std::string bytes(file_bytes(file, path), '\0');
    read_at(file, path, 0, std::as_writable_bytes(std::span(bytes)));
    return bytes;
}

/// Bytes of a tensor that lies in another file, which must be beside the model.
std::string read_external(const onnx::Tensor& tensor, const std::string& model) {
    std::map<std::string, std::string> entries;
    for (const onnx::Entry& entry : tensor.external_data()) {
        entries[entry.key()] = entry.value();
    }
    const fs::path name(entries["location"]);
    if (name.empty() || name.has_parent_path() || name == "..") {
        refuse_onnx(model, "the weights of " + tensor.name() + " lie outside of its folder");
    }
    const std::string path = (fs::path(model).parent_path() / name).string();
    const FileDescriptor file = open_readable(path);
    const std::uint64_t total = file_bytes(file, path);
    const auto number = [&](const char* key, std::uint64_t missing) {
        return entries.contains(key) ? std::strtoull(entries[key].c_str(), nullptr, 10) : missing;
    };
    const std::uint64_t offset = number("offset", 0);
    const std::uint64_t length = number("length", offset > total ? 0 : total - offset);
    if (offset > total || length > total - offset) {
        refuse_onnx(path, "the weights of " + tensor.name() + " end after it");
    }
    std::string bytes(length, '\0');
    read_at(file, path, offset, std::as_writable_bytes(std::span(bytes)));
    return bytes;
}

/// Numbers in the raw form, or in the field of their type.
template <class T, class Raw, class Field>
std::vector<T> numbers_of(const std::string& raw, const Field& field) {
    if (raw.empty()) {
        return {field.begin(), field.end()};
    }
    std::vector<Raw> values(raw.size() / sizeof(Raw));
    std::memcpy(values.data(), raw.data(), values.size() * sizeof(Raw));
    return {values.begin(), values.end()};
}

OnnxTensor tensor_of(const onnx::Tensor& tensor, const std::string& raw, const std::string& where) {
    OnnxTensor read{.shape = {tensor.dims().begin(), tensor.dims().end()}};
    double elements = 1;
    for (const std::int64_t extent : read.shape) {
        if (extent < 0) {
            refuse_onnx(where, "the tensor " + tensor.name() + " has a negative extent");
        }
        elements *= static_cast<double>(extent);
    }
    switch (tensor.data_type()) {
        case kOnnxFloat: read.floats = numbers_of<float, float>(raw, tensor.float_data()); break;
        case kOnnxInt64:
            read.ints = numbers_of<std::int64_t, std::int64_t>(raw, tensor.int64_data());
            break;
        case kOnnxInt32:
            read.ints = numbers_of<std::int64_t, std::int32_t>(raw, tensor.int32_data());
            break;
        case kOnnxBool:
            read.ints = numbers_of<std::int64_t, std::int8_t>(raw, tensor.int32_data());
            break;
        default: refuse_onnx(where, "the tensor " + tensor.name() + " has an unknown type");
    }
    if (elements != static_cast<double>(read.elements())) {
        refuse_onnx(where, fmt::format("the tensor {} has {} numbers for the shape [{}]",
                                       tensor.name(), read.elements(), fmt::join(read.shape, ",")));
    }
    return read;
}

/// Errors: FileError naming all weights of other types.
void check_types(const OnnxFile& file) {
    const std::map<int, const char*> refused{{10, "float16"}, {11, "double"}, {16, "bfloat16"}};
    std::vector<std::string> found;
    for (const onnx::Tensor& tensor : file.graph().initializer()) {
        if (const auto type = refused.find(tensor.data_type()); type != refused.end()) {
            found.push_back(fmt::format("{} ({})", tensor.name(), type->second));
        }
    }
    if (!found.empty()) {
        fail<FileError>({.where = file.path,
                         .what = "weights are not 32-bit numbers",
                         .expected = "float32",
                         .got = fmt::format("{}", fmt::join(found, ", ")),
                         .hint =
                             "exporting the network after model.float(); --precision and --wire "
                             "choose other types for training"});
    }
}

}  // namespace

OnnxTensor onnx_tensor(const onnx::Tensor& tensor, const std::string& where) {
    return tensor_of(tensor, tensor.raw_data(), where);
}

OnnxFile read_onnx_file(const std::string& path) {
    OnnxFile file{.path = path};
    const std::string bytes = read_whole(path);
    if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
        refuse_onnx(path, "it is larger than 2 GiB");
    }
    if (!file.model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
        !file.model.has_graph() || file.graph().node().empty()) {
        refuse_onnx(path, "it holds no graph");
    }
    for (const onnx::Node& node : file.graph().node()) {
        const bool reads = node.op_type() != "Constant";
        if (node.output().empty() || (reads && node.input().empty())) {
            refuse_onnx(
                path, fmt::format("{} {} has no input or no output", node.op_type(), node.name()));
        }
    }
    check_types(file);
    for (onnx::Tensor& tensor : *file.model.mutable_graph()->mutable_initializer()) {
        const bool external = tensor.data_location() == kExternal;
        OnnxTensor read = tensor_of(
            tensor, external ? read_external(tensor, path) : std::move(*tensor.mutable_raw_data()),
            path);
        tensor.clear_raw_data();
        read.origin = tensor.name();
        file.weights.insert_or_assign(tensor.name(), std::move(read));
    }
    return file;
}

const onnx::Attribute* find_attribute(const onnx::Node& node, std::string_view name) {
    for (const onnx::Attribute& attribute : node.attribute()) {
        if (attribute.name() == name) {
            return &attribute;
        }
    }
    return nullptr;
}

std::int64_t attribute(const onnx::Node& node, std::string_view name, std::int64_t missing) {
    const onnx::Attribute* found = find_attribute(node, name);
    return found == nullptr ? missing : found->i();
}

float attribute_float(const onnx::Node& node, std::string_view name, float missing) {
    const onnx::Attribute* found = find_attribute(node, name);
    return found == nullptr ? missing : found->f();
}

std::string attribute_text(const onnx::Node& node, std::string_view name) {
    const onnx::Attribute* found = find_attribute(node, name);
    return found == nullptr ? "" : found->s();
}

std::vector<std::int64_t> attribute_ints(const onnx::Node& node, std::string_view name,
                                         std::vector<std::int64_t> missing) {
    if (const onnx::Attribute* found = find_attribute(node, name)) {
        return {found->ints().begin(), found->ints().end()};
    }
    return missing;
}

}  // namespace cohort
