// MNIST-style IDX: two zero bytes, a type, the number of extents, the extents (big-endian uint32),
// then the values, big-endian and row-major. One extent makes a file of labels.
#include "cohort/core/output.hpp"

#include "data/import/import_formats.hpp"
#include "data/import/import_input.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <regex>

namespace cohort {

namespace {

enum IdxType : unsigned { kU8 = 0x08, kI8 = 0x09, kI16 = 0x0B, kI32 = 0x0C, kF32 = 0x0D };

struct IdxHeader {
    unsigned type = 0;
    std::vector<std::int64_t> extents;
};

IdxHeader read_idx_header(InputStream& stream) {
    std::array<std::byte, 4> start{};
    stream.read(start, "the IDX header");
    require_file(looks_like_idx(start), stream.path(), "not an IDX file",
                 "00 00, a type from 08 to 0e, 1 to 4 extents",
                 fmt::format("{:02x}", fmt::join(start, " ")));
    IdxHeader header;
    header.type = std::to_integer<unsigned>(start[2]);
    for (unsigned i = 0; i < std::to_integer<unsigned>(start[3]); ++i) {
        std::array<std::byte, 4> extent{};
        stream.read(extent, "the IDX header");
        header.extents.push_back(decode_integer(extent, true, false));
    }
    return header;
}

void require_type(bool usable, const InputStream& stream, std::string_view expected,
                  unsigned type) {
    require_file(usable, stream.path(), "unusable IDX type", expected, fmt::format("{:02x}", type));
}

std::vector<std::int32_t> read_idx_labels(const ImportFile& file) {
    InputStream stream(file.path);
    const IdxHeader header = read_idx_header(stream);
    const std::map<unsigned, std::size_t> widths{{kU8, 1}, {kI8, 1}, {kI16, 2}, {kI32, 4}};
    const auto width = widths.find(header.type);
    require_type(width != widths.end(), stream, "integer labels (08, 09, 0b or 0c)", header.type);
    std::vector<std::int32_t> labels = read_integer_labels(stream, header.extents.front(),
                                                           width->second, true, header.type != kU8);
    stream.require_end();
    return labels;
}

/// By the header, which must not contradict the name.
bool idx_holds_labels(const ImportFile& file) {
    InputStream stream(file.path);
    const std::size_t rank = read_idx_header(stream).extents.size();
    require_file(named_idx_labels(file.path).value_or(rank == 1) == (rank == 1), file.path,
                 "the file does not hold what its name says",
                 rank == 1 ? "samples" : "labels, one extent",
                 rank == 1 ? "labels, one extent" : fmt::format("{} extents", rank));
    return rank == 1;
}

void import_idx_pair(const ImportPair& pair, ImportSink& sink) {
    const ImportLabels labels{.classes = read_idx_labels(pair.labels)};
    InputStream stream(pair.samples.path);
    const IdxHeader header = read_idx_header(stream);
    require_type(header.type == kU8 || header.type == kF32, stream,
                 "uint8 (08) or float32 (0d) samples", header.type);
    import_samples(stream, pair, labels, header.extents,
                   header.type == kU8 ? SampleType::kU8 : SampleType::kF32, true, sink);
}

}  // namespace

bool looks_like_idx(std::span<const std::byte> start) {
    if (start.size() < 4 || start[0] != std::byte{0} || start[1] != std::byte{0}) {
        return false;
    }
    const auto type = std::to_integer<unsigned>(start[2]);
    const auto rank = std::to_integer<unsigned>(start[3]);
    return type >= 0x08 && type <= 0x0E && type != 0x0A && rank >= 1 && rank <= 4;
}

std::optional<bool> named_idx_labels(const std::string& path) {
    std::smatch parts;
    const std::string name = plain_name(path);
    return std::regex_match(name, parts, std::regex(".*idx([1-4])-ubyte"))
               ? std::optional(parts.str(1) == "1")
               : std::nullopt;
}

std::string idx_partner(const std::string& path) {
    std::smatch parts;
    const std::string name = plain_name(path);
    if (std::regex_match(name, parts, std::regex("(.*)images([-.])idx3-ubyte"))) {
        return parts.str(1) + "labels" + parts.str(2) + "idx1-ubyte";
    }
    if (std::regex_match(name, parts, std::regex("(.*)labels([-.])idx1-ubyte"))) {
        return parts.str(1) + "images" + parts.str(2) + "idx3-ubyte";
    }
    return "";
}

void import_idx(const std::vector<ImportFile>& files, ImportSink& sink) {
    for (const ImportPair& pair : pair_files(files, idx_holds_labels)) {
        import_idx_pair(pair, sink);
    }
}

}  // namespace cohort
