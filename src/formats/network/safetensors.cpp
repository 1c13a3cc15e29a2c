// The safetensors format: the length of a JSON header as 64 bits, little-endian; the header, an
// object of {dtype, shape, data_offsets} by tensor name; the tensors' bytes.
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cohort/core/error.hpp"
#include "data/hdf5/file_io.hpp"
#include "formats/network/model_file.hpp"
#include "formats/network/named_tensors.hpp"

namespace cohort {
namespace {

static_assert(std::endian::native == std::endian::little, "the format's numbers are little-endian");

constexpr std::uint64_t kMostHeader = 100'000'000;  // the format's own limit

[[noreturn]] void refuse_safetensors(const std::string& path, const std::string& what) {
    fail<FileError>({.where = path,
                     .what = "not a whole safetensors file: " + what,
                     .hint = "saving it again"});
}

/// Of tensors that a network does not have: counters.
bool is_counter(const std::string& type) {
    return type.starts_with("I") || type.starts_with("U") || type == "BOOL";
}

struct Place {
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

Place place_of(const nlohmann::json& entry, const std::string& name, std::uint64_t data_bytes,
               const std::string& path) {
    Place place{.shape = entry.at("shape").get<std::vector<std::int64_t>>(),
                .begin = entry.at("data_offsets").at(0).get<std::uint64_t>(),
                .end = entry.at("data_offsets").at(1).get<std::uint64_t>()};
    std::uint64_t bytes = sizeof(float);
    for (const std::int64_t extent : place.shape) {
        if (extent < 0 || (extent > 0 && bytes > data_bytes / static_cast<std::uint64_t>(extent))) {
            refuse_safetensors(path, "the shape of " + name + " is larger than the file");
        }
        bytes *= static_cast<std::uint64_t>(extent);
    }
    if (place.begin > place.end || place.end > data_bytes || place.end - place.begin != bytes) {
        refuse_safetensors(path,
                           "the bytes of " + name + " lie outside of it or do not fit the shape");
    }
    return place;
}

}  // namespace

NamedTensors read_safetensors(const std::string& path) {
    const FileDescriptor file = open_readable(path);
    const std::uint64_t total = file_bytes(file, path);
    std::uint64_t header_bytes = 0;
    if (total < sizeof header_bytes) {
        refuse_safetensors(path, "it is too short");
    }
    read_at(file, path, 0, std::as_writable_bytes(std::span(&header_bytes, 1)));
    if (header_bytes > kMostHeader || header_bytes > total - sizeof header_bytes) {
        refuse_safetensors(path, "its header is longer than the file");
    }
    std::string text(header_bytes, '\0');
    read_at(file, path, sizeof header_bytes, std::as_writable_bytes(std::span(text)));
    const std::uint64_t start = sizeof header_bytes + header_bytes;
    NamedTensors tensors;
    try {
        const auto header = nlohmann::json::parse(text);
        for (const auto& [name, entry] : header.items()) {
            if (name == "__metadata__" || is_counter(entry.at("dtype").get<std::string>())) {
                continue;
            }
            if (entry.at("dtype") != "F32") {
                fail<FileError>({.where = path,
                                 .what = "tensor " + name + " has a type that is not read",
                                 .expected = "F32",
                                 .got = entry.at("dtype").get<std::string>(),
                                 .hint = "saving the weights as 32-bit numbers"});
            }
            const Place place = place_of(entry, name, total - start, path);
            FileTensor tensor{
                .shape = place.shape,
                .values = std::vector<float>((place.end - place.begin) / sizeof(float))};
            read_at(file, path, start + place.begin,
                    std::as_writable_bytes(std::span(tensor.values)));
            tensors.emplace(name, std::move(tensor));
        }
    } catch (const nlohmann::json::exception& error) {
        refuse_safetensors(path, error.what());
    }
    return tensors;
}

void write_safetensors(const OutputFile& file, const ModelFile& model) {
    const std::map<std::string, PytorchName> renamed = names_of_pytorch(model.graph);
    nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
    std::vector<float> data;
    const auto add = [&](const std::string& name, const Shape& shape,
                         std::span<const float> values) {
        const std::size_t begin = data.size() * sizeof(float);
        data.insert(data.end(), values.begin(), values.end());
        header[name] = {{"dtype", "F32"},
                        {"shape", shape.extents()},
                        {"data_offsets", {begin, data.size() * sizeof(float)}}};
    };
    const auto add_all = [&](const FlatLayout& layout, const std::vector<float>& flat) {
        for (const FlatRange& range : layout.ranges()) {
            const auto found = renamed.find(range.name);
            add(found == renamed.end() ? range.name : found->second.name, range.shape,
                std::span(flat).subspan(static_cast<std::size_t>(range.offset),
                                        static_cast<std::size_t>(range.size)));
            if (found != renamed.end() && !found->second.second.empty()) {
                const std::vector<float> zeros(static_cast<std::size_t>(range.size), 0.0F);
                add(found->second.second, range.shape, zeros);
            }
        }
    };
    add_all(model.graph.parameters(), model.parameters);
    add_all(model.graph.state(), model.state);
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');  // the numbers are aligned
    const std::uint64_t length = text.size();
    AtomicFile out(file);
    out.reserve(sizeof length + length + data.size() * sizeof(float));
    out.write_at(0, std::as_bytes(std::span(&length, 1)));
    out.write_at(sizeof length, std::as_bytes(std::span(text)));
    out.write_at(sizeof length + length, std::as_bytes(std::span(data)));
    out.commit();
}

}  // namespace cohort
