// MNIST-style IDX: two zero bytes, a type, the number of extents, the extents (big-endian uint32),
// then the values, big-endian and row-major. One extent makes a file of labels.
#include "cohort/core/error.hpp"

#include "data/import/import_formats.hpp"
#include "data/import/import_input.hpp"

#include <fmt/format.h>

#include <array>

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
    if (!looks_like_idx(start)) {
        fail<FileError>({.where = stream.path(),
                         .what = "not an IDX file",
                         .expected = "00 00, a type from 08 to 0e, 1 to 4 extents",
                         .got = fmt::format("{:02x}", fmt::join(start, " "))});
    }
    IdxHeader header;
    header.type = std::to_integer<unsigned>(start[2]);
    for (unsigned i = 0; i < std::to_integer<unsigned>(start[3]); ++i) {
        std::array<std::byte, 4> extent{};
        stream.read(extent, "the IDX header");
        header.extents.push_back(decode_integer(extent, true, false));
    }
    return header;
}

[[noreturn]] void fail_type(const InputStream& stream, std::string_view expected, unsigned type) {
    fail<FileError>({.where = stream.path(),
                     .what = "unusable IDX type",
                     .expected = expected,
                     .got = fmt::format("{:02x}", type)});
}

std::vector<std::int32_t> read_idx_labels(const ImportFile& file) {
    InputStream stream(file.path);
    const IdxHeader header = read_idx_header(stream);
    std::size_t width = 0;
    switch (header.type) {
        case kU8:
        case kI8: width = 1; break;
        case kI16: width = 2; break;
        case kI32: width = 4; break;
        default: fail_type(stream, "integer labels (08, 09, 0b or 0c)", header.type);
    }
    std::vector<std::int32_t> labels =
        read_integer_labels(stream, header.extents.front(), width, true, header.type != kU8);
    stream.require_end();
    return labels;
}

/// By the header, which must not contradict the name.
bool idx_holds_labels(const ImportFile& file) {
    InputStream stream(file.path);
    const std::size_t rank = read_idx_header(stream).extents.size();
    const IdxFileKind named = idx_file_kind(file.path);
    if (named != IdxFileKind::kUnnamed && (named == IdxFileKind::kLabels) != (rank == 1)) {
        fail<FileError>(
            {.where = file.path,
             .what = "the file does not hold what its name says",
             .expected = rank == 1 ? "samples" : "labels, one extent",
             .got = rank == 1 ? "labels, one extent" : fmt::format("{} extents", rank)});
    }
    return rank == 1;
}

void import_idx_pair(const ImportPair& pair, ImportSink& sink) {
    const std::vector<std::int32_t> labels = read_idx_labels(pair.labels);
    InputStream stream(pair.samples.path);
    const IdxHeader header = read_idx_header(stream);
    if (header.type != kU8 && header.type != kF32) {
        fail_type(stream, "uint8 (08) or float32 (0d) samples", header.type);
    }
    if (header.extents.front() != static_cast<std::int64_t>(labels.size())) {
        fail<FileError>(
            {.where = pair.samples.path,
             .what = fmt::format("samples and labels of {} do not match", pair.labels.path),
             .expected = fmt::format("{} samples", labels.size()),
             .got = fmt::format("{}", header.extents.front())});
    }
    const SampleType type = header.type == kU8 ? SampleType::kU8 : SampleType::kF32;
    if (!labels.empty()) {
        sink.begin(pair, {header.extents.begin() + 1, header.extents.end()}, type);
        copy_samples(stream, labels, type, true, sink);
    }
    stream.require_end();
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

IdxFileKind idx_file_kind(const std::string& path) {
    const std::string name = plain_name(path);
    if (name.ends_with("idx1-ubyte")) {
        return IdxFileKind::kLabels;
    }
    for (const char* samples : {"idx2-ubyte", "idx3-ubyte", "idx4-ubyte"}) {
        if (name.ends_with(samples)) {
            return IdxFileKind::kSamples;
        }
    }
    return IdxFileKind::kUnnamed;
}

std::string idx_partner(const std::string& path) {
    const std::string name = plain_name(path);
    for (const char* mark : {"-", "."}) {
        const std::string images = fmt::format("images{}idx3-ubyte", mark);
        const std::string labels = fmt::format("labels{}idx1-ubyte", mark);
        if (name.ends_with(images)) {
            return name.substr(0, name.size() - images.size()) + labels;
        }
        if (name.ends_with(labels)) {
            return name.substr(0, name.size() - labels.size()) + images;
        }
    }
    return "";
}

void import_idx(const std::vector<ImportFile>& files, ImportSink& sink) {
    for (const ImportPair& pair : pair_files(files, idx_holds_labels)) {
        import_idx_pair(pair, sink);
    }
}

}  // namespace cohort
