// The safetensors format (https://github.com/huggingface/safetensors#format): the length of a JSON
// header as 64 bits, little-endian; the header, an object of {dtype, shape, data_offsets} by tensor
// name, each name once; the tensors' bytes, which cover the rest of the file without holes or
// overlaps.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cohort/core/error.hpp"
#include "data/file/file_io.hpp"
#include "data/networks/model_file.hpp"
#include "data/networks/named_tensors.hpp"

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

/// Bytes of a number; 0: unknown, or less than one.
std::uint64_t bytes_of(const std::string& type) {
    static const std::map<std::string, std::uint64_t> all{
        {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
        {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},     {"I32", 4},
        {"F32", 4},  {"U64", 8}, {"I64", 8}, {"F64", 8},     {"C64", 8}};
    const auto found = all.find(type);
    return found == all.end() ? 0 : found->second;
}

struct Place {
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

/// JSON keeps the last of several values with one name. Errors: those of the parser.
nlohmann::json header_of(const std::string& text, const std::string& path) {
    std::vector<std::set<std::string>> names;  // of the objects that are open
    return nlohmann::json::parse(
        text, [&](int /*depth*/, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
            using Event = nlohmann::json::parse_event_t;
            if (event == Event::object_start) {
                names.emplace_back();
            } else if (event == Event::object_end) {
                names.pop_back();
            } else if (event == Event::key && !names.back().insert(parsed).second) {
                refuse_safetensors(path, "its header has " + parsed.get<std::string>() + " twice");
            }
            return true;
        });
}

/// Errors: FileError unless the tensors cover all bytes once.
void check_cover(const std::map<std::string, Place>& places, std::uint64_t data_bytes,
                 const std::string& path) {
    std::vector<std::pair<Place, std::string>> order;
    for (const auto& [name, place] : places) {
        order.emplace_back(place, name);
    }
    std::ranges::sort(order, {},
                      [](const auto& one) { return std::pair(one.first.begin, one.first.end); });
    std::uint64_t end = 0;
    for (const auto& [place, name] : order) {
        if (place.begin != end) {
            refuse_safetensors(
                path, place.begin > end
                          ? fmt::format("no tensor covers its bytes {} to {}, before {}", end,
                                        place.begin - 1, name)
                          : fmt::format("{} overlaps the tensor before it", name));
        }
        end = place.end;
    }
    if (end != data_bytes) {
        refuse_safetensors(path,
                           fmt::format("no tensor covers its last {} bytes", data_bytes - end));
    }
}

/// Numbers of the header that must be whole and not negative.
std::vector<std::uint64_t> counts(const nlohmann::json& list, const std::string& name,
                                  const std::string& path) {
    std::vector<std::uint64_t> numbers;
    for (const nlohmann::json& number : list) {
        if (!number.is_number_unsigned()) {
            refuse_safetensors(path, "the shape or the place of " + name + " is no whole number");
        }
        numbers.push_back(number.get<std::uint64_t>());
    }
    return numbers;
}

Place place_of(const nlohmann::json& entry, const std::string& name, std::uint64_t data_bytes,
               const std::string& path) {
    const std::vector<std::uint64_t> shape = counts(entry.at("shape"), name, path);
    const std::vector<std::uint64_t> offsets = counts(entry.at("data_offsets"), name, path);
    if (offsets.size() != 2) {
        refuse_safetensors(path, "the place of " + name + " is no begin and end");
    }
    const std::string type = entry.at("dtype").get<std::string>();
    const std::uint64_t number_bytes = bytes_of(type);
    std::uint64_t bytes = number_bytes;
    for (const std::uint64_t extent : shape) {
        if (extent > 0 && bytes > data_bytes / extent) {
            refuse_safetensors(path, "the shape of " + name + " is larger than the file");
        }
        bytes *= extent;
    }
    if (offsets[0] > offsets[1] || offsets[1] > data_bytes ||
        (number_bytes > 0 && offsets[1] - offsets[0] != bytes)) {
        refuse_safetensors(path,
                           "the bytes of " + name + " lie outside of it or do not fit the shape");
    }
    return {.shape = {shape.begin(), shape.end()}, .begin = offsets[0], .end = offsets[1]};
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
    if (!text.starts_with('{')) {
        refuse_safetensors(path, "its header is no object");
    }
    NamedTensors tensors;
    try {
        const auto header = header_of(text, path);
        std::map<std::string, Place> places;
        for (const auto& [name, entry] : header.items()) {
            if (name != "__metadata__") {
                places[name] = place_of(entry, name, total - start, path);
            }
        }
        check_cover(places, total - start, path);
        for (const auto& [name, place] : places) {
            const auto type = header.at(name).at("dtype").get<std::string>();
            if (is_counter(type)) {
                continue;
            }
            if (type != "F32") {
                fail<FileError>({.where = path,
                                 .what = "tensor " + name + " has a type that is not read",
                                 .expected = "F32",
                                 .got = type,
                                 .hint = "saving the weights as 32-bit numbers"});
            }
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
