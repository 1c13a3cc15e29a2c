// NumPy .npy: "\x93NUMPY", version, header length, a Python dictionary as text with descr,
// fortran_order and shape, then the values.
#include "cohort/core/error.hpp"
#include "core/units.hpp"

#include "data/import/import_formats.hpp"
#include "data/import/import_input.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>

namespace cohort {

namespace {

constexpr std::array<std::string_view, 5> kLabelWords{"labels", "label", "targets", "target", "y"};
constexpr std::array<std::string_view, 8> kSampleWords{"images", "image",    "samples", "sample",
                                                       "data",   "features", "inputs",  "x"};
constexpr std::size_t kLongestHeader = 1U << 20U;

struct NpyHeader {
    char order = '<';  ///< '<', '>' or '|'
    char kind = '?';   ///< 'u', 'i', 'f', ...
    std::size_t width = 0;
    std::string type;  ///< as in the file
    std::vector<std::int64_t> shape;
    [[nodiscard]] bool big_endian() const noexcept { return order == '>'; }
};

/// The text after `'key':` without leading blanks.
std::string_view value_of(const InputStream& stream, std::string_view text, std::string_view key) {
    const std::size_t at = text.find(fmt::format("'{}'", key));
    const std::size_t colon = at == std::string_view::npos ? at : text.find(':', at);
    if (colon == std::string_view::npos) {
        fail<FileError>(
            {.where = stream.path(), .what = fmt::format("the header has no '{}'", key)});
    }
    text.remove_prefix(colon + 1);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    return text;
}

void parse_type(const InputStream& stream, std::string_view text, NpyHeader& header) {
    const std::size_t end = text.empty() ? 0 : text.find(text.front(), 1);
    const bool quoted = !text.empty() && (text.front() == '\'' || text.front() == '"') &&
                        end != std::string_view::npos;
    header.type = quoted ? std::string(text.substr(1, end - 1)) : "a structure";
    const std::string& type = header.type;
    const char* last = type.data() + type.size();
    if (!quoted || type.size() < 3 ||
        std::from_chars(type.data() + 2, last, header.width).ptr != last) {
        fail<FileError>({.where = stream.path(),
                         .what = "unusable type",
                         .expected = "u1 or f4 samples, integer labels",
                         .got = header.type});
    }
    header.order = type[0];
    header.kind = type[1];
}

std::vector<std::int64_t> parse_shape(const InputStream& stream, std::string_view text) {
    const std::size_t end = text.find(')');
    if (!text.starts_with('(') || end == std::string_view::npos) {
        fail<FileError>({.where = stream.path(), .what = "the header has no usable shape"});
    }
    std::vector<std::int64_t> shape;
    const char* at = text.data() + 1;
    const char* const last = text.data() + end;
    while (at != last) {
        if (*at == ' ' || *at == ',' || *at == 'L') {
            ++at;
            continue;
        }
        std::int64_t extent = 0;
        const auto [next, error] = std::from_chars(at, last, extent);
        if (error != std::errc{} || extent < 0) {
            fail<FileError>({.where = stream.path(),
                             .what = "the header has no usable shape",
                             .got = text.substr(0, end + 1)});
        }
        shape.push_back(extent);
        at = next;
    }
    return shape;
}

NpyHeader read_npy_header(InputStream& stream) {
    std::array<std::byte, 8> start{};
    stream.read(start, "the NumPy header");
    const auto version = std::to_integer<unsigned>(start[6]);
    if (!looks_like_npy(start) || version < 1 || version > 3) {
        fail<FileError>({.where = stream.path(),
                         .what = "not a NumPy file",
                         .expected = "\\x93NUMPY, version 1 to 3",
                         .got = fmt::format("{:02x}", fmt::join(start, " "))});
    }
    std::array<std::byte, 4> length_bytes{};
    const auto used = std::span(length_bytes).first(version == 1 ? 2 : 4);
    stream.read(used, "the NumPy header");
    const auto length = static_cast<std::size_t>(decode_integer(used, false, false));
    if (length > kLongestHeader) {
        stream.fail_here("the NumPy header is too long", "at most 1 MiB",
                         fmt::format("{} bytes", length));
    }
    std::string text(length, '\0');
    stream.read(std::as_writable_bytes(std::span(text)), "the NumPy header");
    NpyHeader header;
    parse_type(stream, value_of(stream, text, "descr"), header);
    header.shape = parse_shape(stream, value_of(stream, text, "shape"));
    if (!value_of(stream, text, "fortran_order").starts_with("False")) {
        fail<FileError>({.where = stream.path(),
                         .what = "unusable order",
                         .expected = "C order",
                         .got = "Fortran order",
                         .hint = "numpy.ascontiguousarray before numpy.save"});
    }
    if (header.shape.empty()) {
        fail<FileError>({.where = stream.path(), .what = "a single value, not an array"});
    }
    return header;
}

std::vector<std::int32_t> read_npy_labels(const ImportFile& file) {
    InputStream stream(file.path);
    const NpyHeader header = read_npy_header(stream);
    const bool integers = header.kind == 'i' || header.kind == 'u';
    if (!integers ||
        (header.width != 1 && header.width != 2 && header.width != 4 && header.width != 8)) {
        fail<FileError>({.where = file.path,
                         .what = "unusable label type",
                         .expected = "integers",
                         .got = header.type});
    }
    const bool column = header.shape.size() == 2 && header.shape[1] == 1;
    if (header.shape.size() != 1 && !column) {
        fail<FileError>({.where = file.path,
                         .what = "wrong shape of labels",
                         .expected = "[N] or [N,1]",
                         .got = format_shape(header.shape)});
    }
    std::vector<std::int32_t> labels = read_integer_labels(
        stream, header.shape.front(), header.width, header.big_endian(), header.kind == 'i');
    stream.require_end();
    return labels;
}

void import_npy_pair(const ImportPair& pair, ImportSink& sink) {
    const std::vector<std::int32_t> labels = read_npy_labels(pair.labels);
    InputStream stream(pair.samples.path);
    const NpyHeader header = read_npy_header(stream);
    const bool bytes = header.kind == 'u' && header.width == 1;
    if (!bytes && !(header.kind == 'f' && header.width == 4)) {
        fail<FileError>({.where = pair.samples.path,
                         .what = "unusable sample type",
                         .expected = "u1 or f4",
                         .got = header.type,
                         .hint = "samples.astype('float32')"});
    }
    if (header.shape.front() != static_cast<std::int64_t>(labels.size())) {
        fail<FileError>(
            {.where = pair.samples.path,
             .what = fmt::format("samples and labels of {} do not match", pair.labels.path),
             .expected = fmt::format("{} samples", labels.size()),
             .got = fmt::format("{}", header.shape.front())});
    }
    const SampleType type = bytes ? SampleType::kU8 : SampleType::kF32;
    if (!labels.empty()) {
        sink.begin(pair, {header.shape.begin() + 1, header.shape.end()}, type);
        copy_samples(stream, labels, type, header.big_endian(), sink);
    }
    stream.require_end();
}

/// By the words of its name, else by its rank.
bool npy_holds_labels(const ImportFile& file) {
    const bool labels = has_word(file.path, kLabelWords);
    if (labels != has_word(file.path, kSampleWords)) {
        return labels;
    }
    InputStream stream(file.path);
    return read_npy_header(stream).shape.size() == 1;
}

}  // namespace

bool looks_like_npy(std::span<const std::byte> start) {
    constexpr std::string_view kMagic = "\x93NUMPY";
    return start.size() >= kMagic.size() &&
           std::memcmp(start.data(), kMagic.data(), kMagic.size()) == 0;
}

void import_npy(const std::vector<ImportFile>& files, ImportSink& sink) {
    for (const ImportPair& pair : pair_files(files, npy_holds_labels)) {
        import_npy_pair(pair, sink);
    }
}

}  // namespace cohort
