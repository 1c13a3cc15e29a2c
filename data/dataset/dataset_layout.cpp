// The layout, comparison with checksums, and checks for values that training cannot use.
#include "data/dataset/dataset_layout.hpp"

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "core/units.hpp"

#include "data/file/file_io.hpp"
#include "data/hdf5/hdf5_attributes.hpp"

#include <fmt/format.h>

#include <zlib.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

namespace cohort {

namespace {

void require_checksum(bool right, std::string_view where, std::string_view what,
                      const std::string& expected, const std::string& got) {
    require_file(right, where, what, "CRC-32 " + expected, got,
                 "importing again, or another copy of the file");
}

std::string crc32_text(std::uint32_t checksum) {
    return fmt::format("{:08x}", checksum);
}

/// Whether HDF5 detects damage when it reads: by Fletcher-32, or by zlib's Adler-32 in gzip.
bool storage_checks(const OpenGroup& open) {
    const Hdf5Handle create =
        hdf5_own(H5Dget_create_plist(open.samples.id()), open.where, "cannot read the filters");
    const auto has = [&](H5Z_filter_t filter) {
        unsigned flags = 0;
        std::size_t values = 0;
        const bool found = H5Pget_filter_by_id2(create.id(), filter, &flags, &values, nullptr, 0,
                                                nullptr, nullptr) >= 0;
        static_cast<void>(H5Eclear2(H5E_DEFAULT));
        return found;
    };
    return has(H5Z_FILTER_FLETCHER32) || has(H5Z_FILTER_DEFLATE);
}

/// The recorded checksums, of `block` samples each; empty when there are none or the samples were
/// stored anew in chunks that they do not fit.
std::vector<std::uint32_t> recorded_checksums(const OpenGroup& open, const std::string& group,
                                              std::int64_t& block) {
    const std::string name = fmt::format("/{}/{}", group, kChunkChecksums);
    if (!hdf5_exists(open.file.id(), name)) {
        return {};
    }
    const std::string where = open.watch.path() + ":" + name;
    const Hdf5Handle table = hdf5_open_dataset(open.file.id(), name, where);
    const std::int64_t samples = open.info.samples;
    block = hdf5_read<std::int64_t>(table.id(), kChecksumSamplesAttribute, where);
    const std::int64_t blocks = block < 1 ? 0 : (samples - 1) / block + 1;
    const std::vector<std::int64_t> shape = hdf5_shape(table.id(), where);
    require_file(
        blocks != 0 && shape == std::vector{blocks}, where, "the checksums do not fit the samples",
        fmt::format("one for every {} of {} samples", block, samples), format_shape(shape));
    if (open.info.chunk_samples % block != 0 && open.info.chunks() > 1) {
        return {};
    }
    std::vector<std::uint32_t> values(static_cast<std::size_t>(blocks));
    hdf5_check(H5Dread(table.id(), H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
               where, "cannot read the checksums (truncated or damaged)");
    return values;
}

/// Joins checksums of blocks into those of the chunks that are read at once.
void take_recorded(OpenGroup& open, const std::string& group) {
    const SampleSetInfo& info = open.info;
    open.checksums.assign(static_cast<std::size_t>(info.chunks()), std::nullopt);
    std::int64_t block = 0;
    std::int64_t first = 0;
    for (const std::uint32_t checksum : recorded_checksums(open, group, block)) {
        const std::int64_t count = std::min(block, info.samples - first);
        ChunkChecksum& chunk = open.checksums[static_cast<std::size_t>(first / info.chunk_samples)];
        chunk = static_cast<std::uint32_t>(::crc32_combine(
            chunk.value_or(0), checksum,
            static_cast<z_off_t>(count) * static_cast<z_off_t>(info.sample_bytes())));
        first += count;
    }
    open.info.checked = first > 0 || storage_checks(open);
}

/// FileError for the first value that is not `good`.
template <class Stored, class Good>
void check_each(std::span<const std::byte> samples, const SampleSetInfo& info, std::int64_t first,
                std::string_view where, const Good& good) {
    const std::vector<std::int64_t> shape = info.stored_shape();
    const std::size_t values = samples.size() / sizeof(Stored);
    for (std::size_t at = 0; at < values; ++at) {
        Stored value{};
        std::memcpy(&value, samples.data() + at * sizeof value, sizeof value);
        if (good(value)) {
            continue;
        }
        auto rest = static_cast<std::int64_t>(at);
        std::vector<std::int64_t> place(shape.size());
        for (std::size_t axis = place.size(); axis-- > 0;) {
            place[axis] = rest % shape[axis];
            rest /= shape[axis];
        }
        fail<FileError>({.where = where,
                         .what = fmt::format("sample {} holds a {}", first + rest,
                                             info.tokens() ? "token beyond the vocabulary"
                                                           : "value that is not finite"),
                         .expected = info.tokens() ? fmt::format("0 to {}", info.classes - 1)
                                                   : "finite numbers",
                         .got = fmt::format("{} at {}", value, format_shape(place)),
                         .hint = info.tokens() ? "" : "mending the sample or leaving it out"});
    }
}

template <class Stored>
void check_tokens(std::span<const std::byte> samples, const SampleSetInfo& info, std::int64_t first,
                  std::string_view where) {
    check_each<Stored>(samples, info, first, where,
                       [&](std::int64_t token) { return token >= 0 && token < info.classes; });
}

void check_ends(OpenGroup& open) {
    const SampleSetInfo& info = open.info;
    std::vector<std::byte> bytes(static_cast<std::size_t>(info.chunk_samples) *
                                 info.sample_bytes());
    for (const std::int64_t chunk : {std::int64_t{0}, info.chunks() - 1}) {
        const std::int64_t first = chunk * info.chunk_samples;
        const std::int64_t count = std::min(info.chunk_samples, info.samples - first);
        const auto part =
            std::span(bytes).first(static_cast<std::size_t>(count) * info.sample_bytes());
        read_samples(open, first, count, part);
        compare_chunk(open.checksums[static_cast<std::size_t>(chunk)], crc32_of(part), first, count,
                      open.where);
        if (info.tokens()) {
            check_values(part, info, first, open.where);
        }
    }
}

/// " vocabulary:01234567"; empty: there is none.
std::string vocabulary_checksum(const SampleSetInfo& info) {
    return info.vocabulary == nullptr
               ? ""
               : fmt::format(" {}:{:08x}", kVocabulary,
                             crc32_of(std::as_bytes(std::span(info.vocabulary->text))));
}

}  // namespace

std::int64_t default_chunk_samples(std::size_t sample_bytes) {
    constexpr std::size_t kChunkBytes = std::size_t{1} << 20U;
    const std::size_t fitting = kChunkBytes / std::max<std::size_t>(sample_bytes, 1);
    return static_cast<std::int64_t>(std::clamp<std::size_t>(fitting, 1, 256));
}

hid_t sample_hdf5_type(SampleType type) {
    return std::array{H5T_NATIVE_UINT8, H5T_NATIVE_FLOAT, H5T_NATIVE_UINT16, H5T_NATIVE_INT32}.at(
        static_cast<std::size_t>(type));
}

std::string checksum_text(const GroupChecksum& train, const GroupChecksum& test,
                          const SampleSetInfo& info) {
    if (info.tokens()) {
        return fmt::format("crc32 train/samples:{:08x} test/samples:{:08x}{}", train.samples,
                           test.samples, vocabulary_checksum(info));
    }
    return fmt::format(
        "crc32 train/samples:{:08x} train/{}:{:08x} test/samples:{:08x} test/{}:{:08x}",
        train.samples, labels_name(info), train.labels, test.samples, labels_name(info),
        test.labels);
}

std::string checksum_entry(const std::string& text, const std::string& name) {
    const std::size_t at = text.find(fmt::format(" {}:", name));
    if (at == std::string::npos) {
        return "";
    }
    const std::size_t value = at + name.size() + 2;
    return text.substr(value, text.find(' ', value) - value);
}

std::string samples_text(std::int64_t first, std::int64_t count) {
    return count == 1 ? fmt::format("sample {}", first)
                      : fmt::format("samples {} to {}", first, first + count - 1);
}

void check_values(std::span<const std::byte> samples, const SampleSetInfo& info, std::int64_t first,
                  std::string_view where) {
    switch (info.type) {
        case SampleType::kU8: return;
        case SampleType::kF32:
            return check_each<float>(samples, info, first, where,
                                     [](float value) { return std::isfinite(value); });
        case SampleType::kU16: return check_tokens<std::uint16_t>(samples, info, first, where);
        case SampleType::kI32: return check_tokens<std::int32_t>(samples, info, first, where);
    }
}

void check_targets(std::span<const float> targets, std::int64_t targets_per_sample,
                   std::int64_t first, std::string_view where) {
    const auto wrong =
        std::ranges::find_if(targets, [](float target) { return !std::isfinite(target); });
    if (wrong != targets.end()) {
        const std::int64_t at = wrong - targets.begin();
        fail<FileError>(
            {.where = where,
             .what = fmt::format("target {} of sample {} is not finite", at % targets_per_sample,
                                 first + at / targets_per_sample),
             .expected = "finite numbers",
             .got = fmt::format("{}", *wrong),
             .hint = "mending the sample or leaving it out"});
    }
}

void check_classes(std::int64_t classes, std::int64_t train_labels, std::string_view where) {
    constexpr std::int64_t kAlwaysFine = std::int64_t{1} << 17;
    const std::int64_t most = std::clamp<std::int64_t>(train_labels, kAlwaysFine, INT32_MAX);
    require_file(classes <= most, where, "too many classes: the labels seem to be ids",
                 fmt::format("1 to {} for {} train samples", most, train_labels),
                 std::to_string(classes), "labels numbered from 0, one number per class");
}

void compare_chunk(ChunkChecksum& known, std::uint32_t checksum, std::int64_t first,
                   std::int64_t count, std::string_view where) {
    require_checksum(known.value_or(checksum) == checksum, where,
                     samples_text(first, count) + " are damaged",
                     crc32_text(known.value_or(checksum)), crc32_text(checksum));
    known = checksum;
}

void check_contents(OpenGroup& open, const std::string& group) {
    take_recorded(open, group);
    SampleSetInfo& info = open.info;
    const std::string beside = info.tokens() ? kVocabulary : labels_name(info);
    const std::string name = info.tokens() ? beside : group + "/" + beside;
    const std::string bytes =
        info.tokens() ? checksum_entry(vocabulary_checksum(info), kVocabulary)
                      : crc32_text(crc32_of(std::as_bytes(std::span(open.targets)),
                                            crc32_of(std::as_bytes(std::span(open.labels)))));
    const std::string recorded = checksum_entry(info.checksum, name);
    require_checksum(
        recorded.empty() || recorded == bytes, fmt::format("{}:/{}", open.watch.path(), name),
        fmt::format("the {} {} damaged", beside, info.tokens() ? "is" : "are"), recorded, bytes);
    check_ends(open);
    if (info.checksum.empty()) {
        info.checksum = fmt::format("crc32 {}:{} first chunk:{:08x} last chunk:{:08x}", beside,
                                    bytes, *open.checksums.front(), *open.checksums.back());
    }
}

}  // namespace cohort
