// NumPy .npy: "\x93NUMPY", version, header length, a Python dictionary as text with descr,
// fortran_order and shape, then the values.
#include "cohort/core/output.hpp"
#include "core/log.hpp"
#include "core/units.hpp"

#include "data/import/import_formats.hpp"
#include "data/import/import_input.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
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
    require_file(colon != std::string_view::npos, stream.path(),
                 fmt::format("the header has no '{}'", key), "", "");
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
    require_file(quoted && type.size() >= 3 &&
                     std::from_chars(type.data() + 2, last, header.width).ptr == last,
                 stream.path(), "unusable type", "u1 or f4 samples, integer labels", type);
    header.order = type[0];
    header.kind = type[1];
}

std::vector<std::int64_t> parse_shape(const InputStream& stream, std::string_view text) {
    const std::size_t end = text.find(')');
    require_file(text.starts_with('(') && end != std::string_view::npos, stream.path(),
                 "the header has no usable shape", "", "");
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
        require_file(error == std::errc{} && extent >= 0, stream.path(),
                     "the header has no usable shape", "", text.substr(0, end + 1));
        shape.push_back(extent);
        at = next;
    }
    return shape;
}

NpyHeader read_npy_header(InputStream& stream) {
    std::array<std::byte, 8> start{};
    stream.read(start, "the NumPy header");
    const auto version = std::to_integer<unsigned>(start[6]);
    require_file(looks_like_npy(start) && version >= 1 && version <= 3, stream.path(),
                 "not a NumPy file", "\\x93NUMPY, version 1 to 3",
                 fmt::format("{:02x}", fmt::join(start, " ")));
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
    require_file(value_of(stream, text, "fortran_order").starts_with("False"), stream.path(),
                 "unusable order", "C order", "Fortran order",
                 "numpy.ascontiguousarray before numpy.save");
    require_file(!header.shape.empty(), stream.path(), "a single value, not an array", "", "");
    return header;
}

ImportLabels read_npy_labels(const ImportFile& file, bool regression) {
    InputStream stream(file.path);
    const NpyHeader header = read_npy_header(stream);
    const bool integers = (header.kind == 'i' || header.kind == 'u') &&
                          std::has_single_bit(header.width) && header.width <= 8;
    const bool floats = header.kind == 'f' && (header.width == 4 || header.width == 8);
    require_file(integers || floats, file.path, "unusable label type",
                 "integers, or f4 or f8 to predict numbers", header.type);
    const bool column = header.shape.size() == 2 && header.shape[1] == 1;
    const bool matrix = header.shape.size() == 2 && header.shape[1] >= 1 &&
                        header.shape[1] <= kMostTargets &&
                        header.shape[0] <= INT64_MAX / header.shape[1];
    ImportLabels labels;
    if (floats || regression) {
        require_file(header.shape.size() == 1 || matrix, file.path, "wrong shape of targets",
                     fmt::format("[N] or [N,D], D from 1 to {}", kMostTargets),
                     format_shape(header.shape));
        labels.targets = matrix ? header.shape[1] : 1;
        labels.numbers = read_target_numbers(stream, header.shape[0] * labels.targets, header.width,
                                             header.big_endian(), header.kind);
        if (!regression) {
            log_info("{}: labels of {} are numbers to predict (regression), {} for each sample",
                     file.path, header.type, labels.targets);
        }
    } else {
        require_file(header.shape.size() == 1 || column, file.path, "wrong shape of labels",
                     "[N] or [N,1]", format_shape(header.shape),
                     matrix ? "--regression when these are numbers to predict" : "");
        labels.classes = read_integer_labels(stream, header.shape.front(), header.width,
                                             header.big_endian(), header.kind == 'i');
    }
    stream.require_end();
    return labels;
}

std::vector<std::int64_t> sample_extents(const std::vector<std::int64_t>& shape) {
    return {shape.begin() + 1, shape.end()};
}

/// [N,H,W,C] as image libraries have it, unless the user has asked for just that shape.
bool has_channels_last(const std::vector<std::int64_t>& shape,
                       const std::vector<std::int64_t>& wanted) {
    constexpr std::int64_t kMostChannels = 4;
    return shape.size() == 4 && shape[3] <= kMostChannels && shape[3] != 2 &&
           std::min(shape[1], shape[2]) > kMostChannels && sample_extents(shape) != wanted;
}

void import_npy_pair(const ImportPair& pair, bool regression, ImportSink& sink) {
    const ImportLabels labels = read_npy_labels(pair.labels, regression);
    InputStream stream(pair.samples.path);
    const NpyHeader header = read_npy_header(stream);
    const bool bytes = header.kind == 'u' && header.width == 1;
    require_file(bytes || (header.kind == 'f' && header.width == 4), stream.path(),
                 "unusable sample type", "u1 or f4", header.type, "samples.astype('float32')");
    const bool last = has_channels_last(header.shape, sink.wanted_shape());
    if (last) {
        log_info(
            "{}: samples {} have their channels last and are stored as [C,H,W]; --shape {} keeps "
            "them",
            stream.path(), format_shape(sample_extents(header.shape)),
            fmt::join(sample_extents(header.shape), ","));
    }
    import_samples(stream, pair, labels, header.shape, bytes ? SampleType::kU8 : SampleType::kF32,
                   header.big_endian(), sink, last);
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

void import_npy(const std::vector<ImportFile>& files, bool regression, ImportSink& sink) {
    for (const ImportPair& pair : pair_files(files, npy_holds_labels)) {
        import_npy_pair(pair, regression, sink);
    }
}

}  // namespace cohort
